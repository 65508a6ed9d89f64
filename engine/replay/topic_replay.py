"""Replay the partitions of a compacted internal topic, and make an image of them when they change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from engine.log.partition_log import PartitionLog
from engine.replay.internal_logs import InternalLogs
from engine.replay.log_replay import MOST_INSTANTS, Forward, LogReplay, State
from engine.replay.partition_records import Progress, no_progress
from engine.units import Timestamp

Image = TypeVar("Image")


class TopicReplay(Generic[State, Image]):
    """A topic of a source, and its logs while they grow. Thread-safe.

    Args:
        logs: the source's internal topics, listed again for each image.
        topic: the topic.
        forward: makes the states of its partitions.
        make: makes an image from the partitions' states and a timestamp.
        progress: called with the number of bytes read.
    """

    def __init__(
        self,
        logs: InternalLogs,
        topic: str,
        forward: Forward[State],
        make: Callable[[Sequence[State], Timestamp | None], Image],
        progress: Progress = no_progress,
    ) -> None:
        self._progress = progress
        self._logs = logs
        self._topic = topic
        self._forward = forward
        self._make = make
        self._lock = Lock()
        self._replays: dict[PartitionLog, LogReplay[State]] = {}
        self._images: OrderedDict[Timestamp | None, tuple[list[State], Image]] = OrderedDict()

    @property
    def exists(self) -> bool:
        """Whether the source has a partition of the topic."""
        return bool(self._logs.of(self._topic))

    def image(self, until: Timestamp | None = None) -> Image:
        """Return the image as of now, or as of the records with timestamps up to `until`; the same object if unchanged.

        Raises LimitExceededError, OSError.
        """
        states = [replay.state(until) for replay in self._followed()]
        with self._lock:
            known = self._images.get(until)
            if known is not None and _is_same(known[0], states):
                return known[1]
            image = self._make(states, until)
            self._images[until] = states, image
            for instant in [each for each in self._images if each is not None][:-MOST_INSTANTS]:
                del self._images[instant]
            return image

    def _followed(self) -> list[LogReplay[State]]:
        """Return the replays of the partitions that exist now and are readable."""
        logs = [log for log in self._logs.of(self._topic) if log.view_or_none() is not None]
        with self._lock:
            self._replays = {
                log: self._replays.get(log) or LogReplay(log, self._forward, self._progress)
                for log in logs
            }
            return list(self._replays.values())


def _is_same(known: Sequence[object], states: Sequence[object]) -> bool:
    return len(known) == len(states) and all(
        one is other for one, other in zip(known, states, strict=True)
    )
