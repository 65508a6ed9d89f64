"""The check of one partition: every byte of its segments, then the files beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from engine.check import segment_look
from engine.check.batches.batch_order import BatchOrder
from engine.check.batches.damage_check import damage_breach
from engine.check.batches.gap_findings import gap_findings
from engine.check.batches.header_check import header_breaches
from engine.check.batches.kept_rows import KeptRows
from engine.check.batches.late_batches import CopyFinder
from engine.check.batches.placeholders import Placeholders
from engine.check.batches.producer_findings import producer_findings
from engine.check.batches.record_check import RecordFacts
from engine.check.batches.seconds import Seconds
from engine.check.log_statistics import LogStatistics
from engine.check.losses_found import LossesFound
from engine.check.partition_under_check import (
    PartitionCheck,
    PartitionUnderCheck,
    SegmentCheck,
    SegmentUnderCheck,
    Table,
)
from engine.check.rules.breach import Breach
from engine.check.rules.finding import Finding
from engine.check.rules.finding_limit import bounded
from engine.check.segment_look import ItemsOf, unreadable
from engine.check.start_effect import with_start
from engine.errors import KafkaStorageError
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import BatchRun, Damage, Disorder, tables
from engine.units import Offset, Timestamp
from engine.verdict.gap_causes.compaction_marks import marked_to
from engine.verdict.gap_causes.gap_evidence import known_evidence
from engine.verdict.gap_causes.gaps import Evidence
from engine.verdict.gap_causes.producer_sequences import Producers
from engine.verdict.holes import Hole, HoleMap
from engine.verdict.loss import Loss
from engine.workers import Workers

DAY_MS = 86_400_000
MOST_HOLES = 100_000
_OF_THE_END = frozenset(
    {
        "log-end-short",
        "recovery-point-past-end",
        "high-watermark-past-end",
        "epochs-past-end",
        "log-start-past-end",
        "snapshot-stray",
    }
)
"""Rules that only repeat that bytes at the log's end are unreadable: then the log end is unknown."""


@dataclass(slots=True)
class PartitionSummary:
    """Result of a partition's check.

    Attributes:
        partition: its name.
        segments, size, batches, records: numbers; size in bytes.
        log_start_offset, log_end_offset: bounds of the log.
        is_live: whether a broker has it open.
        holes: the first MOST_HOLES holes.
        losses: the first MOST_LOSSES losses, by offset.
        found: number of findings by severity.
        statistics: counts of the good batches; None unless they were asked for.
    """

    partition: str
    log_start_offset: Offset
    log_end_offset: Offset
    is_live: bool
    segments: int = 0
    size: int = 0
    batches: int = 0
    records: int = 0
    holes: list[Hole] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    statistics: LogStatistics | None = None


class LogCheck:
    """Checks one partition, and fills `summary` on the way.

    Args:
        under: the partition.
        workers: threads for decoding.
        policy: the topic's cleanup.policy, if known.
        cleaned_to: the partition's offset in cleaner-offset-checkpoint.
        now_ms: current time, in milliseconds since 1970.
        segment_checks: checks of each segment's indexes.
        partition_checks: checks of the side files.
        items_of: source of a segment's batches; a scan by default.
        row_file_bytes: bytes of batch headers that may go to a temporary file if they do not fit in memory.
        counts: whether to fill `summary.statistics`.
    """

    def __init__(
        self,
        under: PartitionUnderCheck,
        workers: Workers,
        *,
        now_ms: Timestamp,
        policy: frozenset[str] | None = None,
        cleaned_to: Offset | None = None,
        segment_checks: Sequence[SegmentCheck] = (),
        partition_checks: Sequence[PartitionCheck] = (),
        items_of: ItemsOf | None = None,
        row_file_bytes: int = 0,
        counts: bool = False,
    ) -> None:
        view = under.view
        self.under = under
        self.workers = workers
        self.now_ms = now_ms
        self.segment_checks = segment_checks
        self.partition_checks = partition_checks
        self.summary = PartitionSummary(
            under.name, view.log_start_offset, view.log_end_offset, under.is_live
        )
        self.order = BatchOrder(view.base_offsets[0] if view.base_offsets else 0)
        self.producers = Producers()
        self.evidence = Evidence(view.partition.topic, view.log_start_offset, policy, cleaned_to)
        self._items_of: ItemsOf = items_of or partial(
            segment_look.items_of, workers=workers, keeps_summaries=counts
        )
        self._statistics = self.summary.statistics = LogStatistics() if counts else None
        self._copies = CopyFinder(view)
        self._kept = KeptRows(row_file_bytes)
        self._next_offset: Offset = 0

    def findings(self) -> Iterator[Finding | int | str]:
        """Yield the findings, between them the number of bytes read since, and the files that are being checked."""
        losses = LossesFound(self.under.view)
        try:
            for item in self._all_findings():
                if isinstance(item, Finding):
                    losses.add(item)
                yield item
        finally:
            self._kept.close()
        is_compacted = self.evidence.is_compacted
        self.summary.losses = losses.all(self.summary.holes, is_compacted=is_compacted)

    def _all_findings(self) -> Iterator[Finding | int | str]:
        under, view = self.under, self.under.view
        bases = view.base_offsets
        segments = tuple(
            SegmentUnderCheck(under, view.segment_at(place), following)
            for place, following in enumerate([*bases[1:], None][: len(bases)])
        )
        under.segments = segments
        for place, segment in enumerate(segments):
            try:
                yield from self._segment(place, segment)
            except (OSError, KafkaStorageError) as error:
                yield unreadable(under, segment.name, error)
                self.order.pass_damage()
        if segments and not segments[-1].row_count:
            self.order.end(len(segments) - 1, segments[-1].base_offset)
        yield from self._concluded(segments)
        self.producers.forget()
        yield from self._beside(segments)

    # Segments

    def _segment(self, place: int, segment: SegmentUnderCheck) -> Iterator[Finding | int]:
        source = segment.segment
        segment.end = source.end
        self.summary.segments += 1
        self.order.begin(source.base_offset)
        holes = HoleMap(self.under.name, source, segment.next_base, self._next_offset)
        rows = self._kept.segment()
        future, placeholders = _Future(self.now_ms + DAY_MS), Placeholders()
        seconds = Seconds()
        damaged = _Damaged(segment)
        if self._statistics is not None:
            self._statistics.begin(source.path, source.base_offset)
        for item, facts in self._items_of(source):
            if isinstance(item, Disorder):
                continue
            if isinstance(item, Damage):
                self._note_holes(holes.add(item))
                if item.kind is DamageKind.OFFSET_ORDER:
                    yield from self._found(segment, damaged.end(item.position))
                    yield from self._found(segment, self._misplaced(segment, item))
                else:
                    yield from self._found(segment, damaged.add(item))
                if not segment.row_count and not segment.damages:
                    self.order.end(place, source.base_offset)
                segment.damages.append(item)
                self.order.pass_damage()
                yield item.length
                continue
            yield from self._found(segment, damaged.end(item.position))
            assert facts is not None
            first = int(facts.with_first_offsets(item.table)["base_offset"][0])
            self._note_holes(holes.add(item, first))
            yield from self._found(segment, self._run(place, segment, item, facts))
            future.add(item.table)
            seconds.add(item.table)
            placeholders.add(item.table)
            rows.add(item.table)
            yield item.end_position - item.position
        yield from self._found(segment, damaged.end(source.tail_end))
        self._note_holes(holes.end())
        if self._statistics is not None:
            self._statistics.end(source.tail_end)
        self._next_offset = max(self._next_offset, holes.next_offset)
        if rows.is_whole:
            segment.keep(rows)
        yield from self._found(segment, future.breaches())
        yield from self._found(segment, seconds.breaches())
        yield from self._found(segment, placeholders.breaches())

    def _run(
        self, place: int, segment: SegmentUnderCheck, run: BatchRun, facts: RecordFacts
    ) -> Iterator[Breach]:
        table = facts.with_first_offsets(run.table)
        yield from header_breaches(table, segment.base_offset, segment.next_base)
        yield from facts.breaches
        yield from self.order.feed(place, table)
        self.producers.feed(place, table)
        self.evidence.marked_to = max(self.evidence.marked_to, marked_to(table))
        if facts.wrappers is not None:
            self.evidence.marked_to = max(self.evidence.marked_to, facts.wrappers.thinned_to)
        if facts.keyless is not None and self.evidence.keyless is None:
            self.evidence.keyless = facts.keyless
        segment.take(run)
        self.summary.batches += len(table)
        self.summary.records += facts.count
        self.summary.size += run.end_position - run.position
        if self._statistics is not None and facts.summaries is not None:
            self._statistics.add(run.table, facts.summaries, run.next_offset)

    def _misplaced(self, segment: SegmentUnderCheck, damage: Damage) -> Iterator[Breach]:
        """Yield the breaches for good batches that are out of place."""
        source, end = segment.segment, damage.position + damage.length
        for table in tables(source.scan(damage.position, end, in_order=False)):
            breach = self.order.misplaced(table, damage, self._copies.find)
            outside = list(header_breaches(table, segment.base_offset, segment.next_base))
            if breach.rule == "offset-duplicate" or not outside:
                yield breach
            yield from outside

    def _note_holes(self, holes: Iterable[Hole]) -> None:
        for hole in holes:
            if len(self.summary.holes) < MOST_HOLES:
                self.summary.holes.append(hole)

    def _found(self, segment: SegmentUnderCheck, breaches: Iterable[Breach]) -> Iterator[Finding]:
        for breach in breaches:
            yield breach_finding(self._segment_of(segment, breach), breach)

    def _segment_of(self, segment: SegmentUnderCheck, breach: Breach) -> SegmentUnderCheck:
        """Return the segment of a breach: a batch out of place can be the last one of the segment before."""
        place = breach.facts.get("segmentPlace")
        return self.under.segments[place] if isinstance(place, int) else segment

    # The whole

    def _concluded(self, segments: Sequence[SegmentUnderCheck]) -> Iterator[Finding]:
        """Yield the findings that need the whole log: gaps and sequences."""
        evidence = self.evidence
        lost = [
            (hole.first_offset, hole.next_offset or self.order.next_offset)
            for hole in self.summary.holes
        ]
        # A broker forgets producers with a last batch below the log start, so their sequences may restart.
        start = self.under.log_start_offset
        self.producers.breaks = [each for each in self.producers.breaks if each.after >= start]
        evidence.breaks = self.producers.breaks
        known = known_evidence(self.under.view, evidence.policy)
        evidence.orphans, evidence.find_indexed = known.orphans, known.find_indexed
        yield from gap_findings(self.under, self.order.gaps, self.order.late, evidence)
        yield from producer_findings(
            self.under, self.producers, evidence, [*lost, *self.order.late], self.order.gaps
        )
        if segments and segments[0].base_offset < start and segments[0].row_count:
            first = segments[0].base_offset
            sentence = (
                f"records below the log start {start}, from offset {first} on, are still on disk"
            )
            yield self.under.found(
                "below-log-start",
                segments[0].name,
                sentence,
                first_offset=first,
                next_offset=start,
            )

    def _beside(self, segments: Sequence[SegmentUnderCheck]) -> Iterator[Finding | str]:
        """Check indexes and side files in threads, and yield the findings in a fixed order."""
        work: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
            (segment.name, partial(check, segment))
            for segment in segments
            for check in self.segment_checks
        ]
        work += [("", partial(check, self.under)) for check in self.partition_checks]

        def look(each: tuple[str, Callable[[], Iterator[Finding]]]) -> list[Finding]:
            name, check = each
            try:
                return bounded(check())
            except (OSError, KafkaStorageError) as error:
                return [unreadable(self.under, name, error)]

        is_known = not self.under.has_unreadable_end
        done = 0
        yield _beside_text(done, len(work))
        for _, findings in self.workers.map(look, work):
            yield from (each for each in findings if is_known or each.rule not in _OF_THE_END)
            done += 1
            if len(segments) > 1 or done == len(work):  # else the checks take no time
                yield _beside_text(done, len(work))


def _beside_text(done: int, count: int) -> str:
    return f"indexes, snapshots and checkpoints: {done} of {count} checks"


class _Damaged:
    """Joins adjacent damage of a segment: damage without a frame of its own belongs to the damage before."""

    def __init__(self, segment: SegmentUnderCheck) -> None:
        self._segment = segment
        self._open: Damage | None = None

    def add(self, damage: Damage) -> Iterator[Breach]:
        known = self._open
        if known is not None and DamageKind.UNREADABLE in (known.kind, damage.kind):
            if known.kind is damage.kind:
                self._open = _joined(known, damage)
                return
        elif known is not None and damage.kind is not DamageKind.CRC_MISMATCH:
            length = damage.position + damage.length - known.position
            self._open = known._replace(length=length)
            return
        yield from self.end(damage.position)
        self._open = damage

    def end(self, following: int) -> Iterator[Breach]:
        damage, self._open = self._open, None
        if damage is None:
            return
        breach = damage_breach(
            damage, self._segment.segment.file, following, self._segment.next_base
        )
        yield with_start(breach, damage, self._segment)


def _joined(one: Damage, other: Damage) -> Damage:
    """Join two adjacent unreadable places."""
    stretches = tuple(sorted({*one.stretches, *other.stretches}))
    reason = stretches[0].reason if stretches else one.reason
    if len(stretches) > 1:
        reason += f", and {len(stretches) - 1} more places"
    return one._replace(
        length=other.position + other.length - one.position,
        reason=reason,
        last_offset=other.last_offset,
        stretches=stretches,
        unproven=one.unproven + other.unproven,
    )


class _Future:
    """Batches of a segment with timestamps in the future."""

    def __init__(self, limit: Timestamp) -> None:
        self._limit = limit
        self._count = 0
        self._first: np.void | None = None
        self._largest = limit

    def add(self, table: Table) -> None:
        largest = table["max_timestamp"]
        if largest.max() <= self._limit:
            return
        rows = (largest > self._limit).nonzero()[0]
        self._count += len(rows)
        self._largest = max(self._largest, int(largest.max()))
        if self._first is None:
            self._first = table[rows[0]].copy()

    def breaches(self) -> Iterator[Breach]:
        if self._first is not None:
            sentence = (
                f"{self._count} batches have timestamps more than a day in the future,"
                f" the largest {self._largest}"
            )
            yield Breach.of(
                "timestamp-future",
                self._first,
                sentence,
                batches=self._count,
                largest=self._largest,
            )


def breach_finding(segment: SegmentUnderCheck, breach: Breach) -> Finding:
    """Return the finding for a breach in a segment."""
    facts = {name: fact for name, fact in breach.facts.items() if name != "segmentPlace"}
    return segment.partition.found(
        breach.rule,
        segment.name,
        breach.sentence,
        position=breach.position,
        length=breach.length,
        first_offset=breach.first_offset,
        next_offset=breach.next_offset,
        severity=breach.severity,
        advice=breach.advice,
        facts=facts,
    )
