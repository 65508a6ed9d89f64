"""Plan of a scan: the offsets of each partition that it reads, and why it reads no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from engine.log.log_bound import LogBound, LogRange
from engine.log.partition_log import PartitionLog
from engine.replay.key_partitions import partition_of_key, stated_partitions
from engine.topics.topic_names import KAFKA_TOPICS
from engine.units import Offset, TopicPartition
from kafkafs.api.moments import Moment, milliseconds
from kafkafs.api.reading import log_end
from kafkafs.api.source_logs import SourceLogs
from kafkafs.table.splits.split import QueryRange, Split, plan_live, reaches_lost_end

if TYPE_CHECKING:
    from kafkafs.table.where_filter import WhereFilter

Topics: TypeAlias = "str | Sequence[str] | Mapping[str, Sequence[int]]"
Bounds: TypeAlias = tuple[Offset | None, Offset | None]
Offsets: TypeAlias = Bounds | Mapping[tuple[str, int], Bounds]
Partitioner: TypeAlias = Literal["murmur2"] | Mapping[str, int]


class ScanPart(NamedTuple):
    """The offsets of one partition that a scan reads."""

    log: PartitionLog
    wanted: QueryRange

    def splits(self, split_bytes: int) -> Iterator[Split]:
        """Yield the parts of the segments to read, in log order."""
        return plan_live(self.log, self.wanted, split_bytes)


@dataclass(frozen=True, kw_only=True)
class ScanChoice:
    """What a scan is asked for, as far as whole partitions and offsets are concerned.

    Attributes:
        topics: a topic, several, or partition numbers by topic; None for all but Kafka's own.
        since, until: moments that become offsets, as `time/A..B` in the tree.
        offsets: (start, stop) for each partition, or by (topic, partition).
        keys: the only wanted keys; None for all.
        partitioner: how producers placed keys; None if that is unknown.
        committed: end at the last stable offset.
        where: expression on rows.
    """

    topics: Topics | None = None
    since: Moment | None = None
    until: Moment | None = None
    offsets: Offsets | None = None
    keys: tuple[bytes | None, ...] | None = None
    partitioner: Partitioner | None = None
    committed: bool = False
    where: WhereFilter | None = None
    skips_unread: bool = False
    period: LogRange = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bounds = (
            None if moment is None else LogBound(timestamp=milliseconds(moment))
            for moment in (self.since, self.until)
        )
        object.__setattr__(self, "period", LogRange(*bounds))

    def parts(self, logs: SourceLogs) -> list[ScanPart]:
        """Return the partitions with something to read, by topic and number.

        Raises:
            OSError: a partition's folder cannot be read, and `skips_unread` is false.
            KeyError: the source has no such topic or partition.
            ValueError: the number of a topic's partitions is unknown, and the partitioner needs it.
        """
        found = []
        for log in self._chosen(logs):
            view = log.view_or_none() if self.skips_unread else log.view()
            if view is None:
                continue
            low, high = view.log_start_offset, log_end(view, committed=self.committed)
            start, stop = self.period.offsets_in(view, low, max(low, high))
            start, stop = self._within_offsets(log.topic_partition, start, stop)
            if self.where is not None and "offset" in self.where.columns and start < stop:
                start, stop = self.where.offsets(log.topic_partition, start, stop)
            wanted = QueryRange(log.topic_partition, start, stop)
            if start < stop or reaches_lost_end(view, wanted):
                found.append(ScanPart(log, wanted))
        return found

    def _within_offsets(
        self, partition: TopicPartition, start: Offset, stop: Offset
    ) -> tuple[Offset, Offset]:
        bounds: Bounds = (None, None)
        if isinstance(self.offsets, Mapping):
            bounds = self.offsets.get(partition, bounds)
        elif self.offsets is not None:
            bounds = self.offsets
        first, end = bounds
        start = start if first is None else max(start, first)
        return start, stop if end is None else max(min(stop, end), start)

    def topic_names(self, logs: SourceLogs) -> set[str]:
        """Return the topics that are read.

        Raises:
            KeyError: the source has no such topic or partition.
        """
        return {log.topic_partition.topic for log in self._named(logs)}

    def _chosen(self, logs: SourceLogs) -> list[PartitionLog]:
        chosen = [log for log in self._named(logs) if self._may_hold_keys(logs, log)]
        where = self.where
        if where is None or not {"topic", "partition"} & set(where.columns):
            return chosen
        return [log for log in chosen if where.wants(log.topic_partition)]

    def _named(self, logs: SourceLogs) -> list[PartitionLog]:
        if self.topics is None:
            known = logs.topics()
            names = [name for name in known if name not in KAFKA_TOPICS]
            return [log for name in names for log in known[name].values()]
        if isinstance(self.topics, Mapping):
            return [
                logs.log(topic, number)
                for topic, numbers in self.topics.items()
                for number in numbers
            ]
        names = [self.topics] if isinstance(self.topics, str) else list(self.topics)
        return [log for name in dict.fromkeys(names) for log in logs.topic(name).values()]

    def _may_hold_keys(self, logs: SourceLogs, log: PartitionLog) -> bool:
        if self.keys is None or self.partitioner is None or None in self.keys:
            return True
        topic, number = log.topic_partition
        count = partition_count(logs, topic, self.partitioner)
        return any(partition_of_key(key, count) == number for key in self.keys if key is not None)


def partition_count(logs: SourceLogs, topic: str, partitioner: Partitioner) -> int:
    """Return the number of partitions that producers of a topic see.

    Raises:
        ValueError: neither the caller nor the cluster's metadata states it.
    """
    if not isinstance(partitioner, str):
        if topic in partitioner:
            return partitioner[topic]
    elif (count := stated_partitions(logs.state.cluster, topic)) is not None:
        return count
    raise ValueError(
        f"the number of partitions of {topic!r} is unknown, so a key's partition is, too: leave out"
        " partitioner, which reads all partitions, or state the number with it"
    )
