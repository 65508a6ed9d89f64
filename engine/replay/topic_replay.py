"""The partitions of a compacted internal topic, replayed, and an image that is made from them when they change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.replay.keyed_state import MOST_INSTANTS, KeyedReplay, KeyedState
from engine.units import Timestamp

Image = TypeVar("Image")


class TopicReplay(Generic[Image]):
    """A topic of a source; safe from several threads.

    Args:
        source: where its partitions are looked for, again whenever somebody asks.
        topic: which.
        make: an image of the partitions' states, and the time up to which records count.
    """

    def __init__(
        self,
        source: LogSource,
        topic: str,
        make: Callable[[Sequence[KeyedState], Timestamp | None], Image],
    ) -> None:
        self._source = source
        self._topic = topic
        self._make = make
        self._lock = Lock()
        self._replays: dict[PartitionLog, KeyedReplay] = {}
        self._images: OrderedDict[Timestamp | None, tuple[list[KeyedState], Image]] = OrderedDict()

    @property
    def exists(self) -> bool:
        """Whether the source holds a partition of the topic."""
        return bool(logs_of(self._source, self._topic))

    def image(self, until: Timestamp | None = None) -> Image:
        """The image now, or by the records with timestamps up to a time; the same while nothing changes.

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

    def _followed(self) -> list[KeyedReplay]:
        """The partitions that are there now."""
        logs = logs_of(self._source, self._topic)
        with self._lock:
            self._replays = {log: self._replays.get(log) or KeyedReplay(log) for log in logs}
            return list(self._replays.values())


def logs_of(source: LogSource, topic: str) -> list[PartitionLog]:
    """The partitions of a topic in a source, by number: logs proper, no second copies."""
    found = [
        log
        for name, log in source.partitions().items()
        if log.topic_partition.topic == topic and name == str(log.topic_partition)
    ]
    return sorted(found, key=lambda log: log.topic_partition.partition)


def _is_same(known: Sequence[KeyedState], states: Sequence[KeyedState]) -> bool:
    return len(known) == len(states) and all(
        one is other for one, other in zip(known, states, strict=True)
    )
