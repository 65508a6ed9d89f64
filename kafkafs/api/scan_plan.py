"""Plan of a scan: the offsets of each partition that it reads, and why it reads no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from engine.log.partition_log import PartitionLog
from engine.log.view.log_bound import LogBound, LogRange
from engine.log.view.log_view import LogView
from engine.replay.key_partitions import partition_of_key, stated_partitions
from engine.topics.topic_names import KAFKA_TOPICS
from engine.units import Offset, Timestamp, TopicPartition
from kafkafs.api.scan_options import Bounds, Offsets, Partitioner, Topics
from kafkafs.api.source_logs import SourceLogs
from kafkafs.decode.searching.apart import Apart, Deleted, apart_logs
from kafkafs.table.splits.split import (
    QueryRange,
    Split,
    plan_leftover,
    plan_live,
    reaches_lost_end,
)

if TYPE_CHECKING:
    from kafkafs.records.conditions.wanted_keys import TopicKeys
    from kafkafs.table.where_filter import WhereFilter


class ScanPart(NamedTuple):
    """The offsets of one partition that a scan reads; `apart` for what a broker set aside."""

    log: PartitionLog
    wanted: QueryRange
    apart: Apart | None = None

    def splits(self, split_bytes: int) -> Iterator[Split]:
        """Yield the parts of the segments to read, in log order."""
        if self.apart is not None:
            return plan_leftover(self.log.view(), self.wanted, split_bytes)
        return plan_live(self.log, self.wanted, split_bytes)


@dataclass(frozen=True, kw_only=True)
class ScanChoice:
    """What a scan is asked for, as far as whole partitions and offsets are concerned.

    Attributes:
        topics: a topic, several, or partition numbers by topic; None for all but Kafka's own.
        since, until: milliseconds that become offsets, as `time/A..B` in the tree.
        offsets: (start, stop) for each partition, or by (topic, partition).
        keys: the only wanted keys; None for all.
        partitioner: how producers placed keys; None if that is unknown.
        committed: end at the last stable offset.
        where: expression on rows.
        skips_unread: leave out partitions that cannot be read.
        deleted: whether to read what a broker set aside, too: without what the logs hold, or "all".
    """

    topics: Topics | None = None
    since: Timestamp | None = None
    until: Timestamp | None = None
    offsets: Offsets | None = None
    keys: TopicKeys | None = None
    partitioner: Partitioner | None = None
    committed: bool = False
    where: WhereFilter | None = None
    skips_unread: bool = False
    deleted: Deleted = False
    period: LogRange = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bounds = (
            None if time is None else LogBound(timestamp=time) for time in (self.since, self.until)
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
            wanted = self._wanted(log, view)
            if wanted.start < wanted.stop or reaches_lost_end(view, wanted):
                found.append(ScanPart(log, wanted))
        return found + list(self._leftovers(logs))

    def _wanted(self, log: PartitionLog, view: LogView) -> QueryRange:
        low, high = view.log_start_offset, view.end(committed=self.committed)
        start, stop = self.period.offsets_in(view, low, max(low, high))
        start, stop = self._within_offsets(log.topic_partition, start, stop)
        if self.where is not None and "offset" in self.where.columns and start < stop:
            start, stop = self.where.offsets(log.topic_partition, start, stop)
        return QueryRange(log.topic_partition, start, stop)

    def _leftovers(self, logs: SourceLogs) -> Iterator[ScanPart]:
        if not self.deleted:
            return
        is_all = self.deleted == "all"
        for log, apart in apart_logs(logs.source, self._takes(logs), all_shown=is_all):
            view = log.view_or_none()
            wanted = None if view is None else self._wanted(log, view)
            if wanted is not None and wanted.start < wanted.stop:
                yield ScanPart(log, wanted, apart)

    def _takes(self, logs: SourceLogs) -> Callable[[PartitionLog], bool]:
        """Return what takes the logs and the folders beside them that the scan is about."""
        names = self.topic_names(logs)
        numbers = self.topics if isinstance(self.topics, Mapping) else {}

        def takes(log: PartitionLog) -> bool:
            topic, number = log.topic_partition
            is_named = topic in names and number in numbers.get(topic, (number,))
            return is_named and bool(self._of_rows(logs, [log]))

        return takes

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
        """Return the topics that are wanted; whether the source has those that are named is not looked at."""
        if isinstance(self.topics, str):
            return {self.topics}
        if self.topics is not None:
            return set(self.topics)
        names = {*logs.topics(), *(logs.set_aside() if self.deleted else ())}
        return names - set(KAFKA_TOPICS)

    def _chosen(self, logs: SourceLogs) -> list[PartitionLog]:
        return self._of_rows(logs, self._named(logs))

    def _of_rows(self, logs: SourceLogs, named: Iterable[PartitionLog]) -> list[PartitionLog]:
        """Return those of some logs that may hold wanted rows."""
        chosen = [log for log in named if self._may_hold_keys(logs, log)]
        where = self.where
        if where is None or not {"topic", "partition"} & set(where.columns):
            return chosen
        return [log for log in chosen if where.wants(log.topic_partition)]

    def _named(self, logs: SourceLogs) -> list[PartitionLog]:
        """Return the logs of the named topics; none of what only folders have that a broker set aside."""
        known, aside = logs.topics(), logs.set_aside() if self.deleted else {}
        if self.topics is None:
            names = [name for name in known if name not in KAFKA_TOPICS]
            return [log for name in names for log in known[name].values()]
        if isinstance(self.topics, Mapping):
            return [
                logs.log(topic, number)
                for topic, numbers in self.topics.items()
                for number in numbers
                if number in known.get(topic, ()) or number not in aside.get(topic, ())
            ]
        names = [self.topics] if isinstance(self.topics, str) else list(self.topics)
        return [
            log
            for name in dict.fromkeys(names)
            if name in known or name not in aside
            for log in logs.topic(name).values()
        ]

    def _may_hold_keys(self, logs: SourceLogs, log: PartitionLog) -> bool:
        topic, number = log.topic_partition
        wanted = () if self.keys is None else self.keys.of(topic)  # a wrong key is an error now
        if self.keys is None or self.partitioner is None:
            return True
        exact = [each.content for each in wanted if each is not None and each.is_exact]
        if len(exact) < len(wanted):
            return True
        count = partition_count(logs, topic, self.partitioner)
        return any(partition_of_key(key, count) == number for key in exact)


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
