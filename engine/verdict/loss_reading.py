"""Follow the batches of one read of a segment, and put the losses of the log between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, ScanItem
from engine.log.view.log_view import LogView
from engine.units import MAX_INT64, Offset, Position
from engine.verdict.gap_causes.gap_evidence import gaps_within, next_batch_after
from engine.verdict.gap_causes.gaps import OffsetGap
from engine.verdict.gap_causes.segment_ends import BatchesEnd, SegmentEnds
from engine.verdict.gap_causes.wrappers import first_offset_of, wrappers_of
from engine.verdict.loss import Loss
from engine.verdict.words import offsets_are


class KnownLosses(Protocol):
    """What a read has to know of the losses of its log: `LogLosses`.

    Attributes:
        ends: the ends of the segments.
    """

    ends: SegmentEnds

    @property
    def start(self) -> Loss | None:
        """Segments lost before the first one."""

    @property
    def end(self) -> Loss | None:
        """Batches or segments lost after the last one."""

    @property
    def of_view(self) -> LogView:
        """The view of the log."""

    def note(self, lost: Damage) -> Damage:
        """Add what is lost to the problems of the partition; return it."""

    def gap(
        self,
        segment: LogSegment,
        gap: OffsetGap,
        within: tuple[Offset, Offset],
        *,
        may_read: bool = True,
        is_beside_damage: bool = False,
    ) -> Loss | None:
        """Return the loss that a gap before a batch of a segment is; None if its offsets were deleted."""


class LossReading:
    """Follows the batches of one read of a segment.

    Attributes:
        segment: the segment.
        expected: one past the last offset so far; None if unknown.
    """

    def __init__(
        self,
        losses: KnownLosses,
        segment: LogSegment,
        within: tuple[Offset, Offset],
        *,
        may_read: bool = True,
    ) -> None:
        self.expected: Offset | None = None
        self.segment = segment
        self._losses = losses
        self._within = within
        self._may_read = may_read
        self._is_after_damage = False
        self._ends_in_damage = False
        self._is_after_disorder = False
        self._damaged_to: Offset | None = None  # after damage, one past the last offset it states

    def disorder(self) -> None:
        """Note that offsets go back: the batch that follows is out of place, so offsets around it are not missing."""
        self._is_after_damage = self._is_after_disorder = True

    def begin(self, place: int) -> Iterator[Damage]:
        """Begin at the start of the segment; yield what the log lost before it."""
        losses, base = self._losses, self.segment.base_offset
        self.expected = base
        start, within = losses.start, self._within
        if (
            start is not None
            and within[0] <= (start.next_offset or 0)
            and (start.first_offset or 0) < within[1]
            and self._is_first(place)
        ):
            yield losses.note(start.damage())
        before = losses.ends.before(place)
        if before is not None and not before.is_damaged and before.next_offset < base:
            yield from self._gap(base, 0, before.next_offset)

    def run(self, run: BatchRun) -> Iterator[ScanItem]:
        """Take a run; yield it in pieces, with the losses between them."""
        expected, self.expected = self.expected, max(run.next_offset, self.expected or 0)
        is_after_damage, self._is_after_damage = self._is_after_damage, False
        damaged_to, self._damaged_to = self._damaged_to, None
        self._ends_in_damage = False
        table = run.table
        if self._is_after_disorder:
            self._is_after_disorder, self._is_after_damage = False, len(table) == 1
            yield run.with_table(table[:1])
            if len(table) > 1:
                self._is_after_damage = True
                yield from self.run(run.with_table(table[1:]))
            return
        if damaged_to is not None and int(table["base_offset"][0]) > damaged_to:
            yield from self._beside_damage(damaged_to, first_offset_of(run), run.position)
        follows = is_after_damage or expected is None or int(table["base_offset"][0]) <= expected
        base, last = table["base_offset"], table["last_offset"]
        if follows and not (base[1:] > last[:-1] + 1).any():
            yield run
            return
        wrappers = wrappers_of(run)
        stated = table if wrappers is None else wrappers.with_first_offsets(table)
        if not follows and expected is not None and int(stated["base_offset"][0]) > expected:
            yield from self._gap(int(stated["base_offset"][0]), run.position, expected)
        first = 0
        for gap in gaps_within(stated):
            lost = self._loss_of(gap)
            if lost is not None:
                row = int(table["position"].searchsorted(gap.position))
                yield run.with_table(table[first:row])
                yield self._losses.note(lost.damage())
                first = row
        yield run if not first else run.with_table(table[first:])

    def before_damage(self, damage: Damage) -> Iterator[Damage]:
        """Yield what the log lost between the last offset so far and the first one that damage states."""
        before = self._damaged_to if self._is_after_damage else self.expected
        if damage.first_offset is not None and before is not None and not damage.is_quiet:
            yield from self._beside_damage(before, damage.first_offset, damage.position)

    def _beside_damage(
        self, first: Offset, following: Offset, position: Position
    ) -> Iterator[Damage]:
        """Yield the loss of offsets between damage and what it stands beside; compaction may have taken them."""
        if first < following:
            gap = OffsetGap(first, following, position)
            lost = self._loss_of(gap, is_beside_damage=True)
            if lost is not None:
                yield self._losses.note(lost.damage())

    def damage(self, damage: Damage, place: int) -> Damage:
        """Take damage; zeros where batches were are no harmless tail."""
        if damage.kind is not DamageKind.ZERO_TAIL:
            self._is_after_damage = self._ends_in_damage = True
            if damage.last_offset is None:
                self._damaged_to = None
            else:
                self._damaged_to = max(damage.last_offset + 1, self._damaged_to or 0)
            return damage
        view, expected = self._losses.of_view, self.expected
        if expected is None:
            expected = damage.first_offset or self.segment.base_offset
        bases = view.base_offsets
        if place + 1 < len(bases):
            if bases[place + 1] <= expected:
                return damage
            following, why = bases[place + 1], f"segment {bases[place + 1]} follows"
        else:
            end = self._losses.end
            following = 0 if end is None else end.next_offset or 0
            if end is None or following <= expected:
                return damage
            why = end.reason
        self._is_after_damage = self._ends_in_damage = True
        self._damaged_to = following
        are = offsets_are(expected, following)
        return damage._replace(
            kind=DamageKind.ZEROS,
            reason=f"zeros up to the end of the file, where {are} expected: {why}",
            first_offset=expected,
            last_offset=following - 1,
        )

    def end(self, place: int, end: Position) -> Iterator[Damage]:
        """End the read of the segment; yield what the log lost behind it, if nobody reads on."""
        segment, view, within = self.segment, self._losses.of_view, self._within
        expected = self.expected
        if expected is None:
            return
        bases, damaged_to = view.base_offsets, self._damaged_to
        is_whole = end >= (segment.tail_end if place + 1 == len(bases) else segment.size)
        if is_whole and self._ends_in_damage and damaged_to is not None and place + 1 < len(bases):
            yield from self._beside_damage(damaged_to, bases[place + 1], end)
        if is_whole and end:
            self._losses.ends.note(segment, BatchesEnd(expected, self._is_after_damage))
        is_last = self._is_last(place)
        if is_whole and is_last:
            has_following = place + 1 < len(bases)
            first = bases[place + 1] if has_following and self._ends_in_damage else expected
            if has_following and first < bases[-1]:
                yield from self._gap(bases[-1], end, first)
            lost = self._losses.end if within[1] == MAX_INT64 else None
            if lost is not None and self._ends_in_damage and not has_following:
                # Damage at the end of the last segment tells what the log lost from there on, up to what it states.
                is_told = damaged_to is None or damaged_to >= (lost.next_offset or 0)
                rest = replace(lost, first_offset=damaged_to, position=end)
                lost = None if is_told else rest
            if lost is not None:
                yield self._losses.note(lost.damage())
        elif self._ends_in_damage or expected >= within[1]:
            return
        elif is_whole:
            if within[1] <= bases[place + 1]:
                yield from self._gap(bases[place + 1], end)
        else:
            following = next_batch_after(view, expected)
            if following > expected:
                yield from self._gap(following, end)

    def _is_last(self, place: int) -> bool:
        """Return whether no segment behind one has bytes to read, so that nobody reads on."""
        view = self._losses.of_view
        bases = view.base_offsets
        return place + 1 == len(bases) or (
            view.lost_segment is None
            and all(
                bases[each] >= view.log_end_offset or not _has_bytes(view, each)
                for each in range(place + 1, len(bases))
            )
        )

    def _is_first(self, place: int) -> bool:
        """Return whether no segment before one has bytes to read."""
        view = self._losses.of_view
        return not any(_has_bytes(view, each) for each in reversed(range(place)))

    def _gap(
        self, following: Offset, position: Position, expected: Offset | None = None
    ) -> Iterator[Damage]:
        first = self.expected if expected is None else expected
        assert first is not None
        lost = self._loss_of(OffsetGap(first, following, position))
        if lost is not None:
            yield self._losses.note(lost.damage())

    def _loss_of(self, gap: OffsetGap, *, is_beside_damage: bool = False) -> Loss | None:
        return self._losses.gap(
            self.segment,
            gap,
            self._within,
            may_read=self._may_read,
            is_beside_damage=is_beside_damage,
        )


def _has_bytes(view: LogView, place: int) -> bool:
    """Return whether a segment has bytes to read; so counts one that was deleted meanwhile: its own reader says so."""
    try:
        return view.segment_at(place).size > 0
    except OSError:
        return True
