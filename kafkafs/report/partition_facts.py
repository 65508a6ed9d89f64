"""What a report keeps of partitions and topics: sums, and few enough blocks to draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.check.log_check import PartitionSummary
from engine.check.log_statistics import (
    CodecCounts,
    LogStatistics,
    SegmentCounts,
    TimeCounts,
    add_codecs,
    joined_span,
)
from engine.units import Offset, Timestamp, TopicPartition
from engine.verdict.holes import Hole

MOST_BLOCKS = 48
"""Most blocks of segments that a partition is drawn with."""
TOPIC_TIMES = 64
"""Most times that a topic's records are counted at: enough for a sparkline."""


class Block(NamedTuple):
    """One segment, or a few neighbours where there are too many to draw.

    Attributes:
        segments: their number.
        first_offset, next_offset, first_timestamp, last_timestamp, size, records: as in SegmentCounts.
        has_hole: whether bytes of them are no good batches.
    """

    segments: int
    first_offset: Offset
    next_offset: Offset
    first_timestamp: Timestamp
    last_timestamp: Timestamp
    size: int
    records: int
    has_hole: bool


class DamagedFile(NamedTuple):
    """A records file with holes."""

    segment: SegmentCounts
    holes: tuple[Hole, ...]


@dataclass(slots=True)
class PartitionFacts:
    """A partition as it was read.

    Attributes:
        name: its name in the source.
        place: topic and number.
        log_start, log_end: bounds of the log.
        is_live: whether a broker had it open.
        segments, size, batches, records: numbers; size in bytes of the records files.
        first_timestamp, last_timestamp: of its records; -1 without any.
        late_batches, latest, without_key, without_time: see LogStatistics.
        producers: number of producer ids.
        found: number of findings by severity.
        blocks: its segments.
        damaged: records files with holes.
    """

    name: str
    place: TopicPartition
    log_start: Offset
    log_end: Offset
    is_live: bool
    segments: int
    size: int
    batches: int
    records: int
    first_timestamp: Timestamp
    last_timestamp: Timestamp
    late_batches: int
    latest: int
    without_key: int
    without_time: int
    producers: int
    found: Counter[str]
    blocks: tuple[Block, ...]
    damaged: tuple[DamagedFile, ...]

    @classmethod
    def of(cls, summary: PartitionSummary, place: TopicPartition) -> PartitionFacts:
        """Return the facts of a checked partition."""
        counted = summary.statistics or LogStatistics()
        holes: dict[str, list[Hole]] = {}
        for hole in summary.holes:
            holes.setdefault(hole.file, []).append(hole)
        return cls(
            summary.partition,
            place,
            summary.log_start_offset,
            summary.log_end_offset,
            summary.is_live,
            summary.segments,
            sum(each.size for each in counted.segments),
            summary.batches,
            summary.records,
            counted.first_timestamp,
            counted.last_timestamp,
            counted.late_batches,
            counted.latest,
            counted.without_key,
            counted.without_time,
            len(counted.producers),
            summary.found,
            tuple(_blocks(counted.segments, holes)),
            tuple(
                DamagedFile(each, tuple(holes[each.file]))
                for each in counted.segments
                if each.file in holes
            ),
        )

    @property
    def hole_bytes(self) -> int:
        """Bytes of its records files that are no good batches."""
        return sum(hole.length for each in self.damaged for hole in each.holes)

    @property
    def state(self) -> str:
        """Worst severity of its findings; "fine", or "empty" without a record."""
        for severity in ("error", "warning", "note"):
            if self.found[severity]:
                return severity
        return "fine" if self.batches else "empty"


def _blocks(segments: Sequence[SegmentCounts], holes: dict[str, list[Hole]]) -> Iterable[Block]:
    """Yield at most MOST_BLOCKS blocks of neighbouring segments."""
    each = -(-len(segments) // MOST_BLOCKS) or 1
    for start in range(0, len(segments), each):
        group = segments[start : start + each]
        times = [one for one in group if one.first_timestamp >= 0]
        yield Block(
            len(group),
            group[0].base_offset,
            max(one.next_offset for one in group),
            min((one.first_timestamp for one in times), default=-1),
            max((one.last_timestamp for one in times), default=-1),
            sum(one.size for one in group),
            sum(one.records for one in group),
            any(one.file in holes for one in group),
        )


@dataclass(slots=True)
class TopicFacts:
    """Sums over the partitions of a topic.

    Attributes:
        name: the topic.
        partitions, size, batches, records: sums; size in bytes.
        largest: records of its largest partition.
        first_timestamp, last_timestamp: of its records; -1 without any.
        codecs: counts by codec.
        times: records by time.
        found: number of findings by severity.
    """

    name: str
    partitions: int = 0
    size: int = 0
    batches: int = 0
    records: int = 0
    largest: int = 0
    without_key: int = 0
    first_timestamp: Timestamp = -1
    last_timestamp: Timestamp = -1
    codecs: dict[str, CodecCounts] = field(default_factory=dict)
    times: TimeCounts = field(default_factory=lambda: TimeCounts(TOPIC_TIMES))
    found: Counter[str] = field(default_factory=Counter)

    def add(self, facts: PartitionFacts, statistics: LogStatistics) -> None:
        """Add a partition."""
        self.partitions += 1
        self.size += facts.size
        self.batches += facts.batches
        self.records += facts.records
        self.largest = max(self.largest, facts.records)
        self.without_key += facts.without_key
        self.first_timestamp, self.last_timestamp = joined_span(
            (self.first_timestamp, self.last_timestamp),
            (facts.first_timestamp, facts.last_timestamp),
        )
        add_codecs(self.codecs, statistics.codecs)
        self.times.merge(statistics.times)
        self.found.update(facts.found)

    @property
    def skew(self) -> float | None:
        """Records of its largest partition, as a multiple of the mean; None with one partition, or without records."""
        if self.partitions < 2 or not self.records:
            return None
        return self.largest * self.partitions / self.records
