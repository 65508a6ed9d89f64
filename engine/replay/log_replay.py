"""What a log's records add up to, carried forward while the log only grows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeAlias, TypeVar

from engine.log.log_view import LogView
from engine.log.partition_log import PartitionLog
from engine.replay.partition_records import Progress, Unreadable, no_progress
from engine.units import Offset, Timestamp, TopicPartition

MOST_INSTANTS = 4
MOST_UNREADABLE = 1000


class Carried(Protocol):
    """A state after the records below `next_offset`. Never changed: what follows makes another."""

    @property
    def partition(self) -> TopicPartition:
        """Whose."""

    @property
    def next_offset(self) -> Offset:
        """The first offset that is not in it."""

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Bytes that gave no records, and records whose key is not one; the first so many."""


State = TypeVar("State", bound=Carried)
Forward: TypeAlias = Callable[[LogView, State | None, Timestamp | None, Progress], State]
"""The state at a view's end, from an earlier one of the same log or from nothing; records with timestamps up to
a time count. Raises LimitExceededError, OSError."""


class LogReplay(Generic[State]):
    """A partition whose state is carried forward while its log only grows; safe from several threads.

    Args:
        log: the partition.
        forward: makes states.
        progress: told how many more bytes were read.

    Raises LimitExceededError when the state would take more memory than the budget allows, and OSError.
    """

    def __init__(
        self, log: PartitionLog, forward: Forward[State], progress: Progress = no_progress
    ) -> None:
        self.log = log
        self._forward = forward
        self._progress = progress
        self._lock = Lock()
        self._known: OrderedDict[Timestamp | None, tuple[int, State]] = OrderedDict()

    def state(self, until: Timestamp | None = None) -> State:
        """The state now, or that of the records with timestamps up to a time."""
        view = self.log.view()
        found = self._fresh(view, until)
        if found is not None:
            return found
        with self._lock:
            view = self.log.view()
            found = self._fresh(view, until)
            if found is None:
                found = self._forward(view, self._known_state(view, until), until, self._progress)
                self._known[until] = view.rewrites, found
                self._forget()
            return found

    def _fresh(self, view: LogView, until: Timestamp | None) -> State | None:
        known = self._known.get(until)
        if known is None or known[0] != view.rewrites:
            return None
        return known[1] if known[1].next_offset == view.log_end_offset else None

    def _known_state(self, view: LogView, until: Timestamp | None) -> State | None:
        """What may be carried forward: nothing that is in it was replaced or cut off since."""
        known = self._known.get(until)
        if known is None or known[0] != view.rewrites:
            return None
        return known[1] if known[1].next_offset <= view.log_end_offset else None

    def _forget(self) -> None:
        instants = [instant for instant in self._known if instant is not None]
        for instant in instants[: max(len(instants) - MOST_INSTANTS, 0)]:
            del self._known[instant]
