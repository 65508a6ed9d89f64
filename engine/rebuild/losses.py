"""The offsets that a rebuilt log lacks: which, why, how sure that is, and from about when they were.

A loss is not certain where compaction or retention may have removed some of the offsets.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from engine.files.file_names import FileState, log_file_name
from engine.log.segment.damage import DamageKind, Elsewhere, ElsewhereKind
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import last_indexed, orphan_indexes
from engine.rebuild.assembly.merging import MergedCopies
from engine.rebuild.assembly.pieces import Dropped, Piece, is_covered
from engine.rebuild.beside.known_facts import KnownFacts
from engine.units import MAX_INT32, Offset
from engine.verdict.gap_causes.gaps import OffsetGap
from engine.verdict.log_losses import WHOLE_LOG, losses_of
from engine.verdict.log_start import Certainty, LostStart, lost_start
from engine.verdict.loss import Loss, LossKind
from engine.verdict.source_evidence import source_of
from engine.verdict.time_span import with_times

_NO_BATCH = "no batch has them"
_MOST_TIMED = 1000
"""Losses whose time span is looked up."""


def first_segments_lost(views: Sequence[LogView], facts: KnownFacts) -> LostStart | None:
    """Return the offsets below the first records file of all copies that no file shows as deleted.

    None where nothing shows a loss, or tiered storage holds the records.
    """
    first = min((view.base_offsets[0] for view in views if view.base_offsets), default=None)
    found = [
        lost
        for view in views
        if (lost := lost_start(view, may_be_tiered=facts.has_tiered_storage)) is not None
        and lost.certainty is not Certainty.TIERED
    ]
    found = [lost for lost in found if first is not None and lost.first < first <= lost.next]
    return min(
        found, key=lambda lost: (lost.certainty is Certainty.LIKELY, lost.first), default=None
    )


def log_start_with(lost: LostStart | None, start: Offset, pieces: Sequence[Piece]) -> Offset:
    """Return the log start of a log that surely lost its first segments: they stay a gap, as damage in it does."""
    if lost is None or lost.certainty is not Certainty.CERTAIN or lost.first >= start:
        return start
    is_far = bool(pieces) and pieces[0].next_offset - lost.first > MAX_INT32
    return start if is_far else lost.first


class Holes(NamedTuple):
    """What is known of the places where offsets may be missing.

    Attributes:
        name: name of the partition in the result.
        merged: the copies as one log.
        dropped: parts of the copies that are left out.
        lost_start: first segments that are lost.
        end_says: proof of the log end in words; "" without one.
        deleted: whether the .deleted files were looked through, too.
    """

    name: str
    merged: MergedCopies
    dropped: Sequence[Dropped]
    lost_start: LostStart | None
    end_says: str
    deleted: bool

    def missing(self, start: Offset, end: Offset, held: Offset) -> list[Loss]:
        """Return the offsets of [start, end) that are missing, with the times around them.

        In a compacted log these are gaps with bytes inside that are no good batches, gaps in which an index names
        batches or a segment, and all from `held` on.
        """
        found = [*self._below(start), *self._gaps(start, end, held)]
        timed = [self._placed(each) for each in found[:_MOST_TIMED]]
        return timed + found[_MOST_TIMED:]

    def _placed(self, loss: Loss) -> Loss:
        """Return a loss with its times, and the places that were not looked through."""
        view = self.merged.view
        loss = losses_of(view).placed(with_times(view, loss))
        return replace(loss, elsewhere=tuple(each for each in loss.elsewhere if self._is_new(each)))

    def _is_new(self, place: Elsewhere) -> bool:
        if place.kind is ElsewhereKind.LEFTOVER and "/" in place.name:
            is_tried = place.name.endswith(FileState.SWAP.value)
            return not (is_tried or (self.deleted and place.name.endswith(FileState.DELETED.value)))
        copies = [view for view in self.merged.views if view is not self.merged.view]
        if place.kind is ElsewhereKind.REPLICA:
            sources = filter(None, map(source_of, copies))
            metas = [meta for source in sources for meta in source.meta_properties if meta]
            return place.name not in {str(meta.node_id) for meta in metas}
        return place.name not in {view.log.root.display(view.log.folder) for view in copies}

    def _loss(
        self,
        kind: LossKind,
        first: Offset,
        following: Offset,
        reason: str,
        *,
        is_certain: bool = True,
        bytes_in: Dropped | None = None,
    ) -> Loss:
        return Loss(
            partition=self.name,
            kind=kind if bytes_in is None else LossKind.BYTES,
            first_offset=first,
            next_offset=following,
            file="" if bytes_in is None else bytes_in.path,
            position=0 if bytes_in is None else bytes_in.position,
            length=0 if bytes_in is None else bytes_in.size,
            reason=reason if bytes_in is None else _words(bytes_in),
            is_certain=is_certain,
        )

    def _below(self, start: Offset) -> Iterator[Loss]:
        """Yield first segments that are probably lost, below the log start."""
        lost, pieces = self.lost_start, self.merged.pieces
        if lost is None or lost.next > start or is_covered(pieces, lost.first, lost.next - 1):
            return
        yield self._loss(LossKind.START, lost.first, lost.next, _why(lost), is_certain=False)

    def _gaps(self, start: Offset, end: Offset, held: Offset) -> Iterator[Loss]:
        at, is_compacted = start, self.merged.is_compacted
        named, before = self._named_batches(), None
        for piece in self.merged.pieces:
            following = piece.base_offset
            if following > at:
                other = None if before is None else self._other_between(before, piece)
                may_be_empty = is_compacted or piece.is_legacy
                yield from self._gap(at, following, named, may_be_empty, other)
            at, before = max(at, piece.next_offset), piece
        if is_compacted and self._damage_in(at, end) is None and held > at:
            yield from self._gap(at, held, named, is_compacted)
            at = held
        if end > at:
            damage = self._damage_in(at, end)
            reason = self.end_says or self._why_lost(at, end)
            if damage is not None or reason:
                yield self._loss(LossKind.END, at, end, reason, bytes_in=damage)
        yield from self._past(end)

    def _past(self, end: Offset) -> Iterator[Loss]:
        """Yield what damaged bytes after all records state, but nothing proves: the log may have ended later."""
        for each in self.dropped:
            stated = each.first_offset, each.last_offset
            if each.kind == DamageKind.CRC_MISMATCH and each.is_loss and stated[0] == end:
                following = end if stated[1] is None else stated[1] + 1
                if following > end:
                    yield self._loss(
                        LossKind.BYTES, end, following, "", is_certain=False, bytes_in=each
                    )

    def _gap(
        self,
        at: Offset,
        following: Offset,
        named: dict[Offset, str],
        may_be_empty: bool,
        other: Dropped | None = None,
    ) -> Iterator[Loss]:
        sure = not self.merged.is_compacted
        if self.lost_start is not None and at < self.lost_start.next <= following:
            reason, first = _why(self.lost_start), self.lost_start.next
            yield self._loss(LossKind.START, at, first, reason, is_certain=sure)
            if first == following:
                return
            at = first  # the first records file has lost its records, too
        damage = self._damage_in(at, following) or other
        if damage is not None:
            base = self._segment_of(damage, at)
            if base > at:  # what is missing before the damaged segment has a cause of its own
                yield from self._gap(at, base, named, may_be_empty)
            yield self._loss(LossKind.BYTES, base, following, "", is_certain=sure, bytes_in=damage)
            return
        lost = next((base for base in named if at <= base < following), None)
        if lost is not None:
            first = lost if may_be_empty else at
            yield self._loss(LossKind.GAP, first, following, named[lost], is_certain=sure)
        elif not may_be_empty and (reason := self._why_lost(at, following)):
            yield self._loss(LossKind.GAP, at, following, reason)

    def _segment_of(self, damage: Dropped, at: Offset) -> Offset:
        """Return the base offset of the segment that damage behind an offset is in; `at` if it begins below that."""
        bases = self.merged.view.base_offsets
        place = bisect_right(bases, damage.first_offset or at) - 1
        return max(at, bases[place]) if place >= 0 else at

    def _why_lost(self, at: Offset, following: Offset) -> str:
        """Return what shows to the verdict on the leading copy that a gap is a loss, in words; "" if nothing does."""
        view = self.merged.view
        if not view.base_offsets:
            return _NO_BATCH
        place = max(bisect_right(view.base_offsets, following) - 1, 0)
        gap = OffsetGap(at, following, 0)
        found = losses_of(view).gap(view.segment_at(place), gap, WHOLE_LOG)
        return "" if found is None else found.reason.partition("; ")[2]

    def _damage_in(self, start: Offset, stop: Offset) -> Dropped | None:
        for each in self.dropped:
            if each.is_loss and each.first_offset is not None:
                last = each.first_offset if each.last_offset is None else each.last_offset
                if each.first_offset < stop and last >= start:
                    return each
        return None

    def _other_between(self, before: Piece, piece: Piece) -> Dropped | None:
        """Return a batch that stands between two pieces and is not from there: it was written over other bytes, or hit."""
        origin = piece.origin
        if origin is None or before.origin is not origin:
            return None
        others = (each for each in self.dropped if each.kind in ("duplicate", "misplaced"))
        between = (each for each in others if before.end <= each.position < piece.position)
        return next((each for each in between if each.path == origin.path), None)

    def _named_batches(self) -> dict[Offset, str]:
        """Return offsets from which an index names a segment or batches that no records file has, ascending."""
        found: dict[Offset, str] = {}
        for view in self.merged.views:
            for base, name in orphan_indexes(view.listing).items():
                if not view.listing.has_file(log_file_name(base, FileState.DELETED)):
                    found.setdefault(base, f"{name} has no records file")
            if self.merged.is_compacted and not view.live:
                found |= self._indexed_batches(view)
        return dict(sorted(found.items()))

    def _indexed_batches(self, view: LogView) -> dict[Offset, str]:
        """Return the ends of segments whose indexes go on where the records file ends before the next segment."""
        ends: dict[Offset, Offset] = {}
        for piece in self.merged.pieces:
            if piece.origin is not None:
                ends[piece.origin.base_offset] = piece.next_offset
        found = {}
        for base, following in zip(view.base_offsets, view.base_offsets[1:], strict=False):
            end = ends.get(base, base)
            if end >= following:
                continue
            for name, last in last_indexed(view, base):
                if end <= last < following:
                    found[end] = f"{name} has an entry for offset {last}"
        return found


def _why(lost: LostStart) -> str:
    """Return the evidence of a loss, without the offsets."""
    return lost.sentence.partition(": ")[2]


def _words(damage: Dropped) -> str:
    return f"{damage.size} bytes from byte {damage.position} of {damage.path}: {damage.reason}"
