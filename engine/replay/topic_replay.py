"""Replay the partitions of a compacted internal topic, and make an image of them when they change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from engine.log.partition_log import PartitionLog
from engine.replay.internal_logs import InternalLogs
from engine.replay.log_replay import Forward, LogReplay, State
from engine.replay.partition_records import Progress, no_progress

Image = TypeVar("Image")


class TopicReplay(Generic[State, Image]):
    """A topic of a source, and its logs while they grow. Thread-safe.

    Args:
        logs: the source's internal topics, listed again for each image.
        topic: the topic.
        forward: makes the states of its partitions.
        make: makes an image from the partitions' states.
        progress: called with the number of bytes read.
    """

    def __init__(
        self,
        logs: InternalLogs,
        topic: str,
        forward: Forward[State],
        make: Callable[[Sequence[State]], Image],
        progress: Progress = no_progress,
    ) -> None:
        self._progress = progress
        self._logs = logs
        self._topic = topic
        self._forward = forward
        self._make = make
        self._lock = Lock()
        self._replays: dict[PartitionLog, LogReplay[State]] = {}
        self._image: tuple[list[State], Image] | None = None

    @property
    def exists(self) -> bool:
        """Whether the source has a partition of the topic."""
        return bool(self._logs.of(self._topic))

    def image(self) -> Image:
        """Return the image as of now; the same object if unchanged.

        Raises LimitExceededError, OSError.
        """
        states = [replay.state() for replay in self._followed()]
        with self._lock:
            if self._image is None or not _is_same(self._image[0], states):
                self._image = states, self._make(states)
            return self._image[1]

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
