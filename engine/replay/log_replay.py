"""Replay a log to a state, and continue from that state while the log only grows."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeAlias, TypeVar

from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.replay.partition_records import Progress, Unreadable, no_progress
from engine.units import Offset, TopicPartition

MOST_UNREADABLE = 1000


class Carried(Protocol):
    """A state after the records below `next_offset`. Immutable."""

    @property
    def partition(self) -> TopicPartition:
        """The partition."""

    @property
    def next_offset(self) -> Offset:
        """First offset not in it."""

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Bytes without readable records, and records with invalid keys; the first MOST_UNREADABLE."""


State = TypeVar("State", bound=Carried)
Forward: TypeAlias = Callable[[LogView, State | None, Progress], State]
"""Returns the state at a view's end, from an earlier state of the same log or from none.

Raises LimitExceededError, OSError.
"""


class LogReplay(Generic[State]):
    """A partition's state, continued while its log only grows. Thread-safe.

    Args:
        log: the partition.
        forward: makes states.
        progress: called with the number of bytes read.

    Raises LimitExceededError if the state would exceed the memory budget, and OSError.
    """

    def __init__(
        self, log: PartitionLog, forward: Forward[State], progress: Progress = no_progress
    ) -> None:
        self.log = log
        self._forward = forward
        self._progress = progress
        self._lock = Lock()
        self._known: tuple[int, State] | None = None

    def state(self) -> State:
        """Return the state as of now."""
        found = self._fresh(self.log.view())
        if found is not None:
            return found
        with self._lock:
            view = self.log.view()
            found = self._fresh(view)
            if found is None:
                found = self._forward(view, self._known_state(view), self._progress)
                self._known = view.rewrites, found
            return found

    def _fresh(self, view: LogView) -> State | None:
        known = self._known_state(view)
        return known if known is not None and known.next_offset == view.log_end_offset else None

    def _known_state(self, view: LogView) -> State | None:
        """Return the earlier state if none of its records was replaced or truncated since."""
        known = self._known
        if known is None or known[0] != view.rewrites:
            return None
        return known[1] if known[1].next_offset <= view.log_end_offset else None
