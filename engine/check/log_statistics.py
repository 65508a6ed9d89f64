"""Statistics of one partition's log, counted while a check reads it: no byte is read for them alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.columns.batch_table import holds_control, holds_transactional
from engine.record.attributes import COMPRESSION_MASK, codec_labels
from engine.record.batch_frame import HEADER
from engine.units import NO_TIMESTAMP, Offset, Timestamp

Table: TypeAlias = npt.NDArray[Any]
TimeSpan: TypeAlias = tuple[Timestamp, Timestamp]

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
MOST_TIMES = 1500
"""Most times that are counted apart: a day by minutes, or two months by hours."""
MOST_SPREAD = DAY_MS
"""Longest time between the first and the last record of a batch that its records are spread over: a longer one is more
likely the work of one wrong timestamp."""
MOST_PRODUCERS = 10_000
POWERS = 32
_CODECS = codec_labels("unknown {}")
_FACTORS = (10, 6, 6, 4)
"""Factors between successive widths of a step: a minute, 10 minutes, an hour, 6 hours, a day; then 10 each time."""


class TimeCounts:
    """Records by time, in steps as fine as few numbers allow: from a minute on.

    Attributes:
        width: length of a step, in milliseconds.
        counts: number of records by number of the step since 1970.
    """

    def __init__(self, most: int = MOST_TIMES) -> None:
        self.width = MINUTE_MS
        self.counts: Counter[int] = Counter()
        self._most = most
        self._widened = 0

    def add(self, timestamps: Table, records: Table) -> None:
        """Count records at the timestamps."""
        steps, places = np.unique(timestamps // self.width, return_inverse=True)
        sums = np.bincount(places, records, len(steps)).astype(np.int64)
        for step, count in zip(steps.tolist(), sums.tolist(), strict=True):
            self.counts[step] += count
        self._shrink()

    def spread(self, first: Table, last: Table, records: Table) -> None:
        """Count the records of batches evenly between the first and the last time of each.

        Where these are more than MOST_SPREAD apart, or the first one is negative, they count at the last one.
        """
        whole = (first // self.width >= last // self.width) | (first < 0)
        whole |= last - first > MOST_SPREAD
        if whole.any():
            self.add(last[whole], records[whole])
        if not whole.all():
            several = ~whole
            columns = (first[several], last[several], records[several])
            for batch in zip(*(each.tolist() for each in columns), strict=True):
                self._spread(*batch)
                self._shrink()

    def _spread(self, first: Timestamp, last: Timestamp, records: int) -> None:
        counted = 0
        for step in range(first // self.width, last // self.width + 1):
            end = min((step + 1) * self.width, last + 1)
            until = records * (end - first) // (last + 1 - first)
            if until > counted:
                self.counts[step] += until - counted
                counted = until

    def merge(self, other: TimeCounts) -> None:
        """Add the counts of another partition, which stay as they are."""
        while self.width < other.width:
            self._widen()
        for step, count in other.counts.items():
            self.counts[step * other.width // self.width] += count
        self._shrink()

    def sums(self, first: Timestamp, end: Timestamp, parts: int) -> list[int]:
        """Return the records of equal parts of a span, of the steps that begin in it."""
        found = [0] * parts
        length = max(end - first, 1)
        for step, count in self.counts.items():
            at = step * self.width
            if first <= at < end:
                found[(at - first) * parts // length] += count
        return found

    def at_least(self, width: int) -> TimeCounts:
        """Return the same counts in steps of at least `width` milliseconds: narrower steps are joined."""
        found = TimeCounts(self._most)
        found.merge(self)
        while found.width < width:
            found._widen()
        return found

    def _shrink(self) -> None:
        while len(self.counts) > self._most:
            self._widen()

    def _widen(self) -> None:
        factor = _FACTORS[self._widened] if self._widened < len(_FACTORS) else 10
        self._widened += 1
        self.width *= factor
        wider: Counter[int] = Counter()
        for step, count in self.counts.items():
            wider[step // factor] += count
        self.counts = wider


class SegmentCounts(NamedTuple):
    """One segment as it was read.

    Attributes:
        file: path relative to the source.
        base_offset: in its name.
        next_offset: one past the last offset of its good batches.
        size: bytes of the records file.
        batches, records: numbers of good ones.
        first_timestamp, last_timestamp: the extreme ones of its records; -1 without any.
    """

    file: str
    base_offset: Offset
    next_offset: Offset
    size: int
    batches: int
    records: int
    first_timestamp: Timestamp
    last_timestamp: Timestamp


@dataclass(slots=True)
class CodecCounts:
    """Batches with one codec.

    Attributes:
        batches, records: numbers.
        size: bytes on disk.
        plain: bytes of the same batches without compression.
    """

    batches: int = 0
    records: int = 0
    size: int = 0
    plain: int = 0

    def add(self, other: CodecCounts) -> None:
        """Add other batches."""
        self.batches += other.batches
        self.records += other.records
        self.size += other.size
        self.plain += other.plain


@dataclass(slots=True)
class LogStatistics:
    """Counts over the good batches of a log. Control batches count only as such.

    Attributes:
        segments: each segment.
        codecs: counts by codec's name.
        batch_sizes: number of batches by size: those below 2**n bytes at n.
        batch_records: number of batches by records: those with fewer than 2**n at n.
        times: records by time; those of a batch are spread evenly between its first and last time.
        first_timestamp, last_timestamp: the extreme ones of all records; -1 without any.
        without_time, without_key: numbers of records.
        control_batches, transactional_batches: numbers.
        producers: producer ids, the first MOST_PRODUCERS of them.
        late_batches: number of batches that are older than one before them.
        latest: the largest such difference, in milliseconds.
    """

    segments: list[SegmentCounts] = field(default_factory=list)
    codecs: dict[str, CodecCounts] = field(default_factory=dict)
    batch_sizes: Table = field(default_factory=lambda: np.zeros(POWERS, np.int64))
    batch_records: Table = field(default_factory=lambda: np.zeros(POWERS, np.int64))
    times: TimeCounts = field(default_factory=TimeCounts)
    first_timestamp: Timestamp = NO_TIMESTAMP
    last_timestamp: Timestamp = NO_TIMESTAMP
    without_time: int = 0
    without_key: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    producers: set[int] = field(default_factory=set)
    late_batches: int = 0
    latest: int = 0
    _newest: Timestamp = NO_TIMESTAMP
    _open: _Segment | None = None

    def begin(self, file: str, base_offset: Offset) -> None:
        """Begin the next segment."""
        self._open = _Segment(file, base_offset, base_offset)

    def end(self, size: int) -> None:
        """End the segment; `size`: bytes of its file."""
        each = self._open
        assert each is not None
        self._open = None
        self.segments.append(
            SegmentCounts(
                *(each.file, each.base_offset, each.next_offset, size),
                *(each.batches, each.records, each.first_timestamp, each.last_timestamp),
            )
        )

    def add(self, table: Table, summaries: Table, next_offset: Offset) -> None:
        """Count a run of good batches of the segment, with the summaries of their records."""
        assert self._open is not None
        segment = self._open
        segment.batches += len(table)
        segment.records += int(summaries["count"].sum())
        segment.next_offset = max(segment.next_offset, next_offset)
        control = holds_control(table)
        if control.any():
            self.control_batches += int(control.sum())
            table, summaries = table[~control], summaries[~control]
        if not len(table):
            return
        self._count_codecs(table, summaries)
        _add_powers(self.batch_sizes, table["size"])
        _add_powers(self.batch_records, summaries["count"])
        self.without_key += int(summaries["without_key"].sum())
        is_transactional = holds_transactional(table)
        self.transactional_batches += int(is_transactional.sum())
        if len(self.producers) < MOST_PRODUCERS:
            ids = np.unique(table["producer_id"])
            self.producers.update(ids[ids >= 0].tolist())
        self._count_times(summaries, segment)

    def _count_codecs(self, table: Table, summaries: Table) -> None:
        codecs = table["attributes"] & COMPRESSION_MASK
        inflated = summaries["inflated"].astype(np.int64)
        plain = np.where(inflated > 0, inflated + HEADER.size, table["size"])
        for codec in np.unique(codecs).tolist():
            mine = codecs == codec
            counts = CodecCounts(
                int(mine.sum()),
                int(summaries["count"][mine].sum()),
                int(table["size"][mine].sum(dtype=np.int64)),
                int(plain[mine].sum()),
            )
            add_codecs(self.codecs, {_CODECS[codec]: counts})

    def _count_times(self, summaries: Table, segment: _Segment) -> None:
        summaries = summaries[summaries["count"] > 0]
        has_time = summaries["largest_timestamp"] >= 0
        if not has_time.all():
            self.without_time += int(summaries["count"][~has_time].sum())
            summaries = summaries[has_time]
        if not len(summaries):
            return
        largest = summaries["largest_timestamp"]
        self.times.spread(summaries["smallest_timestamp"], largest, summaries["count"])
        smallest = summaries["smallest_timestamp"]
        smallest = smallest[smallest >= 0]
        first = int(smallest.min()) if len(smallest) else int(largest.min())
        last = int(largest.max())
        segment.widen(first, last)
        self.first_timestamp, self.last_timestamp = joined_span(
            (self.first_timestamp, self.last_timestamp), (first, last)
        )
        newest = np.maximum.accumulate(np.concatenate(([self._newest], largest)))
        behind = newest[:-1] - largest
        self.late_batches += int((behind > 0).sum())
        self.latest = max(self.latest, int(behind.max()))
        self._newest = int(newest[-1])


@dataclass(slots=True)
class _Segment:
    """Counts of the segment that is being read."""

    file: str
    base_offset: Offset
    next_offset: Offset
    batches: int = 0
    records: int = 0
    first_timestamp: Timestamp = NO_TIMESTAMP
    last_timestamp: Timestamp = NO_TIMESTAMP

    def widen(self, first: Timestamp, last: Timestamp) -> None:
        self.first_timestamp, self.last_timestamp = joined_span(
            (self.first_timestamp, self.last_timestamp), (first, last)
        )


def joined_span(one: TimeSpan, other: TimeSpan) -> TimeSpan:
    """Return the first and last timestamp of two spans; a span without a timestamp is (-1, -1)."""
    if one[0] < 0:
        return other
    return one if other[0] < 0 else (min(one[0], other[0]), max(one[1], other[1]))


def add_codecs(sums: dict[str, CodecCounts], counts: dict[str, CodecCounts]) -> None:
    """Add counts by codec to sums by codec."""
    for codec, each in counts.items():
        sums.setdefault(codec, CodecCounts()).add(each)


def _add_powers(counts: Table, numbers: Table) -> None:
    """Count numbers by the power of two above them."""
    powers = np.frexp(numbers.astype(np.float64))[1]
    counts += np.bincount(np.clip(powers, 0, POWERS - 1), minlength=POWERS)
