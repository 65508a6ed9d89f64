"""What one log has lost, for everybody who reads it.

The cheap part comes from names, sizes, indexes, checkpoints and epochs: segments missing at the start, between others and
at the end. While batches are read, `LogLosses.read` puts each loss between them, as damage of kind "missing" at its
place, so that lines, tables, searches and exports meet it as they meet wrong bytes. Whether missing offsets are lost or
were compacted is decided by `gaps.classify`, as in the check; the pass over the log that this can need is made once a view.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

from engine.budgets import MiB
from engine.errors import KafkaStorageError
from engine.log.segment.damage import Elsewhere
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, ScanItem
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import lost_end
from engine.units import MAX_INT64, Offset, Position
from engine.verdict.elsewhere import Holding, elsewhere, holdings_of
from engine.verdict.gap_causes.gap_evidence import (
    gap_at,
    gather,
    known_evidence,
    next_batch_after,
    orphans_without_log,
)
from engine.verdict.gap_causes.gaps import Evidence, OffsetGap, Verdict, classify
from engine.verdict.gap_causes.segment_ends import SegmentEnds
from engine.verdict.log_start import Certainty, lost_start
from engine.verdict.loss import Loss, LossKind
from engine.verdict.loss_reading import LossReading
from engine.verdict.source_evidence import evidence_of, source_of
from engine.verdict.words import offsets_are

_Lost = TypeVar("_Lost")

WHOLE_LOG = (0, MAX_INT64)
_LOOK_UP_BYTES = 64 * MiB
"""Size of a log up to which a look-up of one offset may read all of it, to explain why the offset is missing."""


def losses_of(view: LogView) -> LogLosses:
    """Return the losses of a log; the view keeps them."""
    known = view.losses
    if not isinstance(known, LogLosses):
        known = view.losses = LogLosses(view)
    return known


def wanted(view: LogView, start: Offset, stop: Offset) -> tuple[Offset, Offset]:
    """Return the wanted offsets [start, stop), without an end where they reach the log end: what it lost is wanted too."""
    return start, MAX_INT64 if stop >= view.log_end_offset else stop


class LogLosses:
    """The losses of a view. Facts are worked out at their first use; threads may do it twice, with the same result."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self.ends = SegmentEnds(view)

    # The cheap part

    @cached_property
    def start(self) -> Loss | None:
        """Segments lost before the first one."""
        source = source_of(self._view)
        is_tiered = source is not None and evidence_of(source).has_tiered_storage
        lost = self._confirmed(partial(lost_start, may_be_tiered=is_tiered))
        if lost is None or lost.certainty is Certainty.TIERED:
            return None
        return self._loss(
            LossKind.START,
            lost.first,
            lost.next,
            lost.sentence,
            file=lost.file,
            is_certain=lost.certainty is Certainty.CERTAIN,
        )

    @cached_property
    def end(self) -> Loss | None:
        """Batches or segments lost after the last one."""
        view, source = self._view, source_of(self._view)
        if source is not None and source.cut is not None:
            return None  # the view ends at a time
        lost = self._confirmed(lost_end)
        if lost is None:
            return None
        active = view.active_segment
        return self._loss(
            LossKind.END,
            lost.first,
            lost.end.offset,
            lost.sentence,
            file=lost.file,
            position=0 if active is None else active.end,
        )

    def note(self, lost: Damage, file: str | None = None) -> Damage:
        """Add what is lost to the problems of the partition, by default those of its own file; return it."""
        self._view.log.problems.add_damage(file or lost.path, lost)
        return lost

    def cheap(self) -> Iterator[Loss]:
        """Yield the losses that are known without reading batches, in log order.

        These are the start, the end, and segments that an index names.
        """
        if self.start is not None:
            yield self.start
        for orphan in self._orphans:
            loss = self._missing_segment(orphan)
            if loss is not None:
                yield loss
        if self.end is not None:
            yield self.end

    def _missing_segment(self, base: Offset) -> Loss | None:
        """Return the loss of a segment between others that has an index alone."""
        view, bases = self._view, self._view.base_offsets
        place = bisect_right(bases, base)
        if not 0 < place < len(bases) or bases[place - 1] == base:
            return None
        before = self.ends.before(place)
        if before is None or before.is_damaged or before.next_offset > base:
            return None
        gap = OffsetGap(before.next_offset, bases[place], 0)
        if gap.next_offset <= view.log_start_offset:
            return None
        return self._gap_loss(view.segment_at(place), gap, classify(gap, self._known))

    # Reading

    def read(
        self,
        segment: LogSegment,
        items: Iterable[ScanItem],
        start: Position,
        end: Position,
        next_offset: Offset | None,
        within: tuple[Offset, Offset] = WHOLE_LOG,
    ) -> Iterator[ScanItem]:
        """Yield the items of a scan of a segment, and each loss at its place between them.

        Args:
            segment: the segment.
            items: its scan of the bytes [start, end).
            start, end: whole batches.
            next_offset: the smallest offset that may follow at `start`; None if unknown.
            within: the wanted offsets [first, next), see `wanted`; losses that touch none of them are left out.
        """
        view, reading = self._view, LossReading(self, segment, within)
        place = bisect_right(view.base_offsets, segment.base_offset) - 1
        if start == 0:
            yield from reading.begin(place)
        elif next_offset is not None and next_offset >= 0:
            reading.expected = next_offset
        elif within[0] > segment.base_offset:
            reading.expected = within[0]
        yield from self._with_losses(reading, items, place)
        yield from reading.end(place, end)

    def between(
        self, segment: LogSegment, items: Iterable[ScanItem], next_offset: Offset | None
    ) -> Iterator[ScanItem]:
        """Yield the items of a scan of a segment, and between them each loss that is known without a pass over a long log.

        Args:
            segment: the segment.
            items: its scan from a batch on.
            next_offset: one past the last offset of the batch before; None if it does not matter.
        """
        reading = LossReading(self, segment, WHOLE_LOG, may_read=self.may_explain)
        reading.expected = next_offset
        place = bisect_right(self._view.base_offsets, segment.base_offset) - 1
        yield from self._with_losses(reading, items, place)

    def _with_losses(
        self, reading: LossReading, items: Iterable[ScanItem], place: int
    ) -> Iterator[ScanItem]:
        for item in items:
            if isinstance(item, BatchRun):
                yield from reading.run(item)
            elif isinstance(item, Damage):
                yield from reading.before_damage(item)
                told = reading.damage(item, place)
                placed = told if told.is_quiet else self.with_places(told)
                yield item if placed == item else self.note(placed, reading.segment.path)
            else:
                reading.disorder()
                yield item
            del item  # free it before the next read: a batch may be as large as the budget

    def with_places(self, damage: Damage) -> Damage:
        """Return damage of this log with the places that may still hold its records."""
        last = damage.last_offset
        places = self.elsewhere(damage.first_offset, None if last is None else last + 1)
        return damage._replace(elsewhere=places)

    @property
    def may_explain(self) -> bool:
        """Whether a look-up may read the log to explain why offsets are missing; not a long one, nor one that grows."""
        return not self._view.live and self._view.size <= _LOOK_UP_BYTES

    def at(self, offset: Offset, *, may_read: bool = True) -> Loss | None:
        """Return the loss that an offset without a record is in; None if it is in none.

        Args:
            offset: the offset.
            may_read: whether a small log may be read to explain why the offset is missing.
        """
        view = self._view
        if offset < view.log_start_offset:
            return self.start if self.start is not None and self.start.holds(offset) else None
        if offset >= view.log_end_offset:
            return self.end if self.end is not None and self.end.holds(offset) else None
        try:
            if next_batch_after(view, offset) <= offset:
                return None
            segment, gap, has_damage = gap_at(view, offset)
            if gap.next_offset <= offset or self._is_deleted(gap, is_beside_damage=has_damage):
                return None
            may_read = may_read and view.size <= _LOOK_UP_BYTES
            verdict = self._verdict(gap, may_read=may_read)
        except (KafkaStorageError, OSError):
            return None
        if has_damage:
            verdict = _beside_damage(verdict)
        if verdict is None or not verdict.is_loss:
            return None
        return self._gap_loss(segment, gap, verdict)

    def instead_of(self, start: Offset, stop: Offset) -> list[Loss]:
        """Return the losses in the place of a range of offsets [start, stop), if it has no batch; [] otherwise.

        A range that begins at the log start, or ends at the log end, has what the log lost there.
        """
        view = self._view
        found = [self.start] if self.start and start <= view.log_start_offset else []
        start, end = max(start, view.log_start_offset), min(stop, view.log_end_offset)
        while start < end:
            lost = self.at(start)
            if lost is None:
                return []
            found.append(lost)
            start = lost.next_offset or end
        if stop >= view.log_end_offset and self.end is not None:
            found += [self.end] if start < (self.end.next_offset or 0) else []
        return found

    # Between batches

    @cached_property
    def _orphans(self) -> tuple[Offset, ...]:
        return orphans_without_log(self._view.listing)

    @cached_property
    def _known(self) -> Evidence:
        view, source = self._view, source_of(self._view)
        policy = None if source is None else evidence_of(source).policy_of(view.partition.topic)
        return known_evidence(view, policy)

    @property
    def is_compacted(self) -> bool:
        """Whether there is a sign, without a read of the log, that it is compacted."""
        return self._known.is_compacted

    @cached_property
    def _gathered(self) -> list[tuple[OffsetGap, Verdict]]:
        """The gaps of the whole log with their causes, by a pass over it."""
        evidence, gaps = gather(self._view, self._known.policy)
        return [(gap, classify(gap, evidence)) for gap in gaps]

    @cached_property
    def _ends_of_gaps(self) -> list[Offset]:
        return [gap.next_offset for gap, _ in self._gathered]

    def _is_deleted(self, gap: OffsetGap, *, is_beside_damage: bool) -> bool:
        if gap.next_offset <= self._view.log_start_offset:
            return True
        if is_beside_damage:  # its header may have stated more offsets than it states now
            return False
        cleaned = self._view.log.checkpoints.cleaner_offset(self._view.partition)
        return cleaned is not None and gap.next_offset <= cleaned and not self._is_named(gap)

    def _is_named(self, gap: OffsetGap) -> bool:
        """Return whether an index names a segment or a batch in a gap."""
        known = self._known
        return any(gap.first_offset <= base < gap.next_offset for base in known.orphans) or (
            known.find_indexed is not None and known.find_indexed(gap) is not None
        )

    def _verdict(self, gap: OffsetGap, *, may_read: bool = True) -> Verdict | None:
        """Return the cause of a gap; None if a read of the log would be needed."""
        verdict = classify(gap, self._known)
        if verdict.is_certain:
            return verdict
        if "_gathered" not in self.__dict__ and not may_read:
            return verdict if verdict.rule != "gap-unexplained" else None
        place = bisect_right(self._ends_of_gaps, gap.first_offset)
        if place < len(self._gathered):
            known, cause = self._gathered[place]
            if known.first_offset < gap.next_offset:
                return cause
        return verdict

    def gap(
        self,
        segment: LogSegment,
        gap: OffsetGap,
        within: tuple[Offset, Offset],
        *,
        may_read: bool = True,
        is_beside_damage: bool = False,
    ) -> Loss | None:
        """Return the loss that a gap before a batch of a segment is; None if its offsets were deleted.

        Args:
            segment, gap: the gap.
            within: the wanted offsets, see `read`.
            may_read: whether the log may be read to explain the gap.
            is_beside_damage: whether damage is beside it: then it may be a loss, whatever else explains it.
        """
        if gap.first_offset >= within[1] or gap.next_offset <= within[0]:
            return None
        if gap.next_offset <= gap.first_offset:
            return None
        if self._is_deleted(gap, is_beside_damage=is_beside_damage):
            return None
        verdict = self._verdict(gap, may_read=may_read)
        if is_beside_damage:
            verdict = _beside_damage(verdict)
        return self._gap_loss(segment, gap, verdict) if verdict is not None else None

    def _gap_loss(self, segment: LogSegment, gap: OffsetGap, verdict: Verdict) -> Loss | None:
        if not verdict.is_loss:
            return None
        reason = f"{offsets_are(gap.first_offset, gap.next_offset)} missing; {verdict.sentence}"
        return self._loss(
            LossKind.GAP,
            gap.first_offset,
            gap.next_offset,
            reason,
            file=segment.path,
            position=gap.position,
            is_certain=verdict.is_certain and not self._known.is_compacted,
        )

    # Helpers

    @property
    def of_view(self) -> LogView:
        """The view whose losses these are."""
        return self._view

    def _confirmed(self, find: Callable[[LogView], _Lost | None]) -> _Lost | None:
        """Return what is found in the view; in a live log, what its newest view still shows.

        The checkpoints of a running broker may be newer than the view.
        """
        lost, view = find(self._view), self._view
        source = source_of(view) if lost is not None and view.live else None
        log = None if source is None else source.partitions().get(view.name)
        return lost if log is None else find(log.view(max_age=0))

    @cached_property
    def _holdings(self) -> list[Holding]:
        return holdings_of(self._view)

    def elsewhere(self, first: Offset | None, following: Offset | None) -> tuple[Elsewhere, ...]:
        """Return the places that may still hold the offsets [first, next).

        Args:
            first: the first one; None if any may be lost.
            following: one past the last one; None if only the first is known.
        """
        if first is None:
            return elsewhere(self._holdings, 0, MAX_INT64)
        return elsewhere(self._holdings, first, first + 1 if following is None else following)

    def placed(self, loss: Loss) -> Loss:
        """Return a loss of this log with the places that may still hold its records."""
        return replace(loss, elsewhere=self.elsewhere(loss.first_offset, loss.next_offset))

    def _loss(
        self,
        kind: LossKind,
        first: Offset,
        following: Offset,
        reason: str,
        *,
        file: str,
        position: Position = 0,
        is_certain: bool = True,
    ) -> Loss:
        return Loss(
            partition=self._view.name,
            kind=kind,
            first_offset=first,
            next_offset=following,
            file=self._view.log.relative(file) if file and "/" not in file else file,
            reason=reason,
            position=position,
            is_certain=is_certain,
            elsewhere=self.elsewhere(first, following),
        )


def _beside_damage(verdict: Verdict | None) -> Verdict:
    """Return the cause of a gap with damage beside it: no header that is damaged tells where its batch ended."""
    if verdict is not None and verdict.is_loss:
        return verdict
    return Verdict("gap-loss", False, "there is damage beside them")
