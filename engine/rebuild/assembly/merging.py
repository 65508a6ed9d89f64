"""Merge the copies of a partition: salvage each, choose the leading one, and fill its holes from the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from engine.files.file_names import FileState
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import proven_end
from engine.log.view.stable_offset import leader_epochs
from engine.rebuild.assembly.cut import cut
from engine.rebuild.assembly.differing import Differing, differing_batches
from engine.rebuild.assembly.hole_filling import fill
from engine.rebuild.assembly.lineage import latest_epoch, lineage, reference
from engine.rebuild.assembly.pieces import (
    Dropped,
    Piece,
    coalesced,
    is_covered,
    same_batch,
    where_expected,
)
from engine.rebuild.assembly.salvage import Advance, Salvaged, salvage, salvage_leftovers
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import MAX_INT64, Offset


class MergedCopies:
    """The batches of all copies of a partition, as one log.

    Args:
        views: views of the copies, at least one.
        advance: called with the number of bytes read.

    Attributes:
        leading: index of the leading copy.
        epochs: leader epochs of the leading copy.
        proven_ends: proven log end of each copy.
        log_end_offset: log end of the leading copy by its records files.
        largest_end: largest log end of all copies by their records files.
        pieces: good batches, in offset order.
        dropped: parts of the copies that are left out.
        has_transactions: whether any batch is transactional.
        is_compacted: whether compaction removed records.
        copies: what each copy has.
        known_epochs: leader epochs of each copy.
        largest_producer_id: of all batches of all copies; -1 without a producer.
        diverged: good batches that are not in the result, since another leader wrote these offsets.
    """

    def __init__(self, views: Sequence[LogView], advance: Advance) -> None:
        self.views = views
        self._advance = advance
        copies = [
            salvage(view, at, advance, compares=len(views) > 1) for at, view in enumerate(views)
        ]
        self.proven_ends = [
            proven_end(view, each.log_end_offset) for view, each in zip(views, copies, strict=True)
        ]
        known = [
            leader_epochs(view, end.offset)
            for view, end in zip(views, self.proven_ends, strict=True)
        ]
        self.copies, self.known_epochs = copies, known
        self.dropped: list[Dropped] = []
        for each in copies:
            self.dropped += each.dropped
        if len(copies) > 1:
            self._drop_strays(copies)
        self.leading = reference(
            [(each.pieces, epochs) for each, epochs in zip(copies, known, strict=True)]
        )
        self.epochs: LeaderEpochCache = known[self.leading]
        self.log_end_offset = copies[self.leading].log_end_offset
        self.largest_end = max(each.log_end_offset for each in copies)
        # Where two copies of one leader differ, the source's own batches stay.
        latest = [latest_epoch(copies[at].pieces, known[at]) for at in (0, self.leading)]
        self._kept = 0 if latest[0] == latest[1] else self.leading
        self.pieces = list(copies[self._kept].pieces)
        self.has_transactions = any(each.has_transactions for each in copies)
        self.is_compacted = any(each.is_compacted for each in copies)
        self.largest_producer_id = max(each.largest_producer_id for each in copies)
        self.diverged: list[Piece] = []
        if len(copies) > 1:
            self._merge(copies)

    @property
    def view(self) -> LogView:
        """View of the leading copy."""
        return self.views[self.leading]

    def add_leftovers(self, log_start: Offset, *, deleted: bool) -> Offset:
        """Fill holes with the batches of .swap files, and of .deleted files; return the new log start.

        Args:
            log_start: log start of the result so far.
            deleted: whether to restore the batches of .deleted files, also below the log start.
        """
        states = {FileState.SWAP} | ({FileState.DELETED} if deleted else set())
        for at, view in enumerate(self.views):
            for found in salvage_leftovers(view, at, frozenset(states), self._advance):
                lowest = 0 if deleted else log_start
                log_start = min(log_start, self._add(found, lowest))
        return log_start

    def cut(self, start: Offset, stop: Offset, *, whole_batches: bool, kind: str) -> None:
        """Drop the records outside of [start, stop); see `cut.cut`."""
        made = cut(self.pieces, start, stop, whole_batches=whole_batches, kind=kind)
        self.pieces = made.pieces
        self.dropped += made.dropped

    def _drop_strays(self, copies: Sequence[Salvaged]) -> None:
        """Drop batches that another copy has at the batch's true offset: their base offset is damaged."""
        for each in copies:
            others = [other.pieces for other in copies if other is not each]
            for before, piece in list(pairwise([None, *each.pieces])):
                assert piece is not None
                expected = where_expected(piece, before)
                if piece.batches != 1 or expected is None or piece.base_offset <= expected:
                    continue
                belongs = piece._replace(base_offset=expected)
                if any(same_batch(pieces, belongs) for pieces in others):
                    each.pieces.remove(piece)
                    reason = "its offset differs from that in another replica"
                    self.dropped.append(piece.dropped("misplaced", reason))

    def _merge(self, copies: Sequence[Salvaged]) -> None:
        _, odd = lineage(self.pieces, self.epochs)
        if self._kept != self.leading:
            odd = [piece for piece in self.pieces if not _is_of_lineage(self.epochs, piece)]
        self.pieces = [piece for piece in self.pieces if piece not in odd]
        for at, each in enumerate(copies):
            if at == self._kept:
                continue
            filled = fill(self.pieces, each.pieces, fits=partial(_is_of_lineage, self.epochs))
            self.pieces = filled.pieces
            for piece in coalesced(filled.refused, across_gaps=True):
                self._note_divergence(piece)
        self.pieces = fill(self.pieces, odd, any_epoch=True).pieces
        if not self.is_compacted:  # compaction leaves other batches in each replica
            self._note_differing(copies)

    def _note_differing(self, copies: Sequence[Salvaged]) -> None:
        """Note the good batches that differ from those of the same leader in the result."""
        kept = copies[self._kept].fingerprints
        for at, each in enumerate(copies):
            if at == self._kept or kept is None or each.fingerprints is None:
                continue
            for bounds in kept.differing(each.fingerprints):
                fits = partial(_has_epoch, self.epochs)
                for found in differing_batches(each.pieces, self.pieces, bounds, fits):
                    self.dropped.append(_dropped_differing(found))

    def _note_divergence(self, piece: Piece) -> None:
        """Note the part of a piece that diverges from the leading copy."""
        first = piece.base_offset
        if _is_of_lineage(self.epochs, piece):
            after = self.epochs.next(piece.epoch)
            if piece.epoch < 0 or after is None or after.start_offset >= piece.next_offset:
                return
            first = after.start_offset
        self.diverged.append(piece)
        reason = "records that diverge from the newest leader's log"
        self.dropped.append(piece.dropped("diverged", reason)._replace(first_offset=first))

    def _add(self, found: Salvaged, lowest: Offset) -> Offset:
        """Add batches that fit; return the first added offset."""
        filled = fill(self.pieces, [*found.pieces, *found.spare], lowest=lowest)
        self.pieces = filled.pieces
        self.dropped += found.dropped
        self.has_transactions |= found.has_transactions
        self.dropped += [
            piece.dropped("diverged", "its offsets or its leader epoch do not fit")
            for piece in coalesced(filled.refused, across_gaps=True)
            if not is_covered(self.pieces, piece.base_offset, piece.next_offset - 1)
        ]
        return min((piece.base_offset for piece in filled.added), default=MAX_INT64)


def _dropped_differing(found: Differing) -> Dropped:
    reason = (
        "good batches of the same leader epoch that differ from those with the same offsets in"
        f" {found.taken}, which are kept"
    )
    dropped = found.piece.dropped("differs", reason)
    return dropped._replace(
        size=found.size, first_offset=found.first_offset, last_offset=found.last_offset
    )


def _is_of_lineage(known: LeaderEpochCache, piece: Piece) -> bool:
    return _has_epoch(known, piece.base_offset, piece.epoch)


def _has_epoch(known: LeaderEpochCache, offset: Offset, stated: int) -> bool:
    epoch = known.epoch_for(offset)
    return stated < 0 or epoch is None or epoch == stated
