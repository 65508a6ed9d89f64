"""The offsets that a rebuilt log lacks: which, why, how sure that is, and from about when they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.files.file_names import FileState, log_file_name, offset_index_name, time_index_name
from engine.log.log_view import LogView
from engine.log.proven_end import last_indexed, orphan_indexes
from engine.rebuild.assembly.merging import MergedCopies
from engine.rebuild.assembly.pieces import Dropped, Piece, is_covered
from engine.rebuild.beside.source_facts import SourceFacts
from engine.units import MAX_INT32, Offset, Timestamp
from engine.verdict.log_start import Certainty, LostStart, lost_start
from engine.verdict.time_span import time_span


class MissingOffsets(NamedTuple):
    """Offsets [first_offset, next_offset) of no batch in the result.

    Attributes:
        reason: why they are missing, in words.
        is_certain: whether all of them had records; in a compacted log some may never have been there.
        before, after: timestamps in milliseconds of the records around them; None if unknown.
    """

    first_offset: Offset
    next_offset: Offset
    reason: str
    is_certain: bool = True
    before: Timestamp | None = None
    after: Timestamp | None = None


def first_segments_lost(views: Sequence[LogView], facts: SourceFacts) -> LostStart | None:
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
        merged: the copies as one log.
        dropped: parts of the copies that are left out.
        lost_start: first segments that are lost.
        end_says: proof of the log end in words; "" without one.
    """

    merged: MergedCopies
    dropped: Sequence[Dropped]
    lost_start: LostStart | None
    end_says: str

    def missing(self, start: Offset, end: Offset, held: Offset) -> list[MissingOffsets]:
        """Return the offsets of [start, end) that are missing, with the times around them.

        In a compacted log these are gaps with bytes inside that are no good batches, gaps in which an index names
        batches or a segment, and all from `held` on.
        """
        view = self.merged.view
        found = []
        for each in [*self._below(start), *self._gaps(start, end, held)]:
            span = time_span(view, each.first_offset, each.next_offset)
            found.append(each._replace(before=span.before, after=span.after))
        return found

    def _below(self, start: Offset) -> Iterator[MissingOffsets]:
        """Yield first segments that are probably lost, below the log start."""
        lost, pieces = self.lost_start, self.merged.pieces
        if lost is None or lost.next > start or is_covered(pieces, lost.first, lost.next - 1):
            return
        yield MissingOffsets(lost.first, lost.next, _why(lost), is_certain=False)

    def _gaps(self, start: Offset, end: Offset, held: Offset) -> Iterator[MissingOffsets]:
        at, is_compacted = start, self.merged.is_compacted
        named = self._named_batches()
        for piece in self.merged.pieces:
            following = piece.base_offset
            if following > at:
                yield from self._gap(at, following, named, is_compacted or piece.is_legacy)
            at = max(at, piece.next_offset)
        if is_compacted and self._damage_in(at, end) is None:
            at = max(at, held)
        if end > at:
            damage = self._damage_in(at, end)
            reason = self.end_says or "no batch has them"
            yield MissingOffsets(at, end, reason if damage is None else _words(damage))

    def _gap(
        self, at: Offset, following: Offset, named: dict[Offset, str], may_be_empty: bool
    ) -> Iterator[MissingOffsets]:
        damage = self._damage_in(at, following)
        if self.lost_start is not None and self.lost_start.next == following:
            yield MissingOffsets(at, following, _why(self.lost_start), not may_be_empty)
        elif damage is not None:
            yield MissingOffsets(at, following, _words(damage), not may_be_empty)
        else:
            lost = next((base for base in named if at <= base < following), None)
            if lost is not None:
                yield MissingOffsets(
                    lost if may_be_empty else at, following, named[lost], not may_be_empty
                )
            elif not may_be_empty:
                yield MissingOffsets(at, following, "no batch has them")

    def _damage_in(self, start: Offset, stop: Offset) -> Dropped | None:
        for each in self.dropped:
            if each.is_loss and each.first_offset is not None:
                last = each.first_offset if each.last_offset is None else each.last_offset
                if each.first_offset < stop and last >= start:
                    return each
        return None

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
            for name in (offset_index_name(base), time_index_name(base)):
                last = last_indexed(view, name, base) if view.listing.has_file(name) else None
                if last is not None and end <= last < following:
                    found[end] = f"{name} has an entry for offset {last}"
        return found


def _why(lost: LostStart) -> str:
    """Return the evidence of a loss, without the offsets."""
    return lost.sentence.partition(": ")[2]


def _words(damage: Dropped) -> str:
    return f"{damage.size} bytes from byte {damage.position} of {damage.path}: {damage.reason}"
