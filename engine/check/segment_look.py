"""The check of one segment on its own: all its batches and records, then its indexes.

It needs nothing from other segments. So those of a partition can be checked in any order, in other processes or on
other machines, and `EarlierLooks` joins the results. Segments that have changed in the meantime are checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from engine.budgets import MiB
from engine.check.batches.kept_rows import KeptRows
from engine.check.batches.record_check import RecordFacts, check_records
from engine.check.partition_under_check import (
    PartitionUnderCheck,
    SegmentCheck,
    SegmentUnderCheck,
)
from engine.check.rules.finding import Finding, failed_read
from engine.check.rules.finding_limit import bounded
from engine.errors import KafkaStorageError
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, ScanItem
from engine.units import Offset, Position
from engine.workers import Workers

CHUNK = 4 * MiB
"""Bytes per run: large, because some work is done once per run, and threads wait for each other less often."""


class Checked(NamedTuple):
    """The next item of a scan, and the facts of its records if it is a run of batches."""

    item: ScanItem
    facts: RecordFacts | None


class SegmentStart(NamedTuple):
    """A segment's size when it was checked: the end of its batches and of its file."""

    end: Position
    tail_end: Position


class SegmentEnd(NamedTuple):
    """Findings of the checks of a segment's indexes."""

    findings: list[Finding]


Look: TypeAlias = SegmentStart | Checked | SegmentEnd
ItemsOf: TypeAlias = Callable[[LogSegment], Iterable[tuple[ScanItem, RecordFacts | None]]]


def items_of(
    segment: LogSegment,
    workers: Workers,
    *,
    start: Position = 0,
    next_offset: Offset | None = None,
    keeps_summaries: bool = False,
) -> Iterator[tuple[ScanItem, RecordFacts | None]]:
    """Scan a segment from a batch on, and check the records.

    Raises OSError, SourceRefusedError if it cannot be read.
    """
    items = segment.scan(
        start,
        segment.tail_end,
        next_offset=segment.base_offset if next_offset is None else next_offset,
        chunk=CHUNK,
    )

    check_run = partial(check_records, budgets=segment.budgets, keeps_summaries=keeps_summaries)
    checked = _large_checked(items, check_run)

    def check(each: Checked) -> RecordFacts | None:
        if each.facts is not None or not isinstance(each.item, BatchRun):
            return each.facts
        return check_run(each.item)

    if segment.tail_end - start <= CHUNK:
        return ((each.item, check(each)) for each in checked)
    return ((each.item, facts) for each, facts in workers.map(check, checked))


def _large_checked(
    items: Iterable[ScanItem], check_run: Callable[[BatchRun], RecordFacts]
) -> Iterator[Checked]:
    """Yield the items of a scan; large runs are checked here, and yielded without their bytes.

    The scan continues only when the bytes of a large run are freed, so that no two of them are in memory.
    """
    for item in items:
        if isinstance(item, BatchRun) and item.is_large:
            facts = check_run(item)
            item = item._replace(buffer=b"")
            yield Checked(item, facts)
        else:
            yield Checked(item, None)
        del item


def look_at_segment(
    partition: PartitionUnderCheck,
    place: int,
    checks: Sequence[SegmentCheck],
    *,
    keeps_summaries: bool = False,
) -> Iterator[Look]:
    """Yield the results of checking a segment on its own, without the bytes.

    Args:
        partition: the partition.
        place: index of the segment in the log.
        checks: checks of its indexes.
        keeps_summaries: whether the facts of records have what statistics need.

    Raises OSError, SourceRefusedError if the records file cannot be read.
    """
    view = partition.view
    bases = view.base_offsets
    segment = view.segment_at(place)
    following = bases[place + 1] if place + 1 < len(bases) else None
    under = SegmentUnderCheck(partition, segment, following)
    under.end = segment.end
    yield SegmentStart(segment.end, segment.tail_end)
    rows = KeptRows().segment()
    with Workers(1) as workers:
        for item, facts in items_of(segment, workers, keeps_summaries=keeps_summaries):
            if isinstance(item, Damage):
                under.damages.append(item)
            elif isinstance(item, BatchRun):
                under.take(item)
                rows.add(item.table)
                item = item._replace(buffer=b"")
            yield Checked(item, facts)
    if rows.is_whole:
        under.keep(rows)
    yield SegmentEnd([finding for check in checks for finding in _findings(check, under)])


def _findings(check: SegmentCheck, segment: SegmentUnderCheck) -> list[Finding]:
    try:
        return bounded(check(segment))
    except (OSError, KafkaStorageError) as error:
        return [unreadable(segment.partition, segment.name, error)]


def unreadable(under: PartitionUnderCheck, name: str, error: Exception) -> Finding:
    """Return a finding about a file that cannot be read."""
    return under.found("file-unreadable", name, **failed_read(error))


class EarlierLooks:
    """Earlier results of `look_at_segment` for a partition's segments.

    Args:
        looks: results with the segments' base offsets, ascending.
        workers: threads for segments that have changed since.
        checks: checks of their indexes.
        keeps_summaries: as of `look_at_segment`.
    """

    def __init__(
        self,
        looks: Iterator[tuple[Offset, Look]],
        workers: Workers,
        checks: Sequence[SegmentCheck],
        *,
        keeps_summaries: bool = False,
    ) -> None:
        self._looks = looks
        self._items_of = partial(items_of, workers=workers, keeps_summaries=keeps_summaries)
        self._checks = checks
        self._next: tuple[Offset, Look] | None = None
        self._findings: dict[Offset, list[Finding]] = {}

    def items(self, segment: LogSegment) -> Iterator[tuple[ScanItem, RecordFacts | None]]:
        """Yield the earlier results of a segment as far as it is unchanged, then those of new batches.

        Raises OSError, SourceRefusedError if the records file cannot be read.
        """
        base = segment.base_offset
        seen = self._of(base)
        state = next(seen, None)
        if not isinstance(state, SegmentStart) or not _goes_on(state, segment):
            for _ in seen:
                continue
            yield from self._items_of(segment)
            return
        position, next_offset = 0, base
        for look in seen:
            if isinstance(look, Checked):
                yield look
                if isinstance(look.item, BatchRun):
                    position, next_offset = look.item.end_position, look.item.next_offset
            elif isinstance(look, SegmentEnd) and state == (segment.end, segment.tail_end):
                self._findings[base] = look.findings
        if base not in self._findings and position < segment.tail_end:
            yield from self._items_of(segment, start=position, next_offset=next_offset)

    def check_segment(self, segment: SegmentUnderCheck) -> Iterator[Finding]:
        """Yield the findings of its index checks; run them again if the segment has changed."""
        known = self._findings.get(segment.base_offset)
        if known is not None:
            yield from known
            return
        for check in self._checks:
            yield from check(segment)

    def _of(self, base: Offset) -> Iterator[Look]:
        """Yield the results of a segment; skip those of lower segments, which no longer exist."""
        while True:
            found = self._next or next(self._looks, None)
            self._next = None
            if found is None:
                return
            if found[0] > base:
                self._next = found
                return
            if found[0] == base:
                yield found[1]


def _goes_on(state: SegmentStart, segment: LogSegment) -> bool:
    """Return whether a segment is unchanged, or only has new batches after its last good one."""
    if state == (segment.end, segment.tail_end):
        return True
    return state.end == state.tail_end and segment.end >= state.end
