"""Plan a partition's log: its batches, their sources, and the missing offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from engine.files.file_names import (
    QUORUM_STATE,
    REPLICATION_OFFSET_CHECKPOINT,
    FileState,
    kraft_checkpoint_name,
)
from engine.log.log_view import LogView
from engine.log.proven_end import (
    EndProof,
    first_offset_without_records,
    proven_end,
)
from engine.log.segment.damage import DamageKind
from engine.log.stable_offset import leader_epochs
from engine.rebuild.assembly.cut import cut, first_at_or_after
from engine.rebuild.assembly.filling import fill
from engine.rebuild.assembly.layout import lay_out
from engine.rebuild.assembly.lineage import lineage, reference
from engine.rebuild.assembly.pieces import (
    Dropped,
    Piece,
    coalesced,
    is_covered,
    same_batch,
    where_expected,
)
from engine.rebuild.assembly.salvage import Advance, Salvaged, salvage, salvage_leftovers
from engine.rebuild.options import RebuildBound, RebuildOptions
from engine.rebuild.selection import Chosen
from engine.rebuild.writing import RebuiltLog
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT64, Offset


class MissingOffsets(NamedTuple):
    """Offsets [first_offset, next_offset) of no batch in the result."""

    first_offset: Offset
    next_offset: Offset


class PlannedLog(NamedTuple):
    """A log to write, with its report.

    Attributes:
        chosen: the partition and its copies.
        log: log to write.
        pieces: its batches, in offset order.
        dropped: parts of the copies that are left out.
        missing: offsets that may have had records, without those that compaction removed.
        notes: sentences for the report.
        high_watermark, cleaner_offset: for the checkpoints; None if unknown.
        has_transactions: whether any batch may be transactional.
    """

    chosen: Chosen
    log: RebuiltLog
    pieces: list[Piece]
    dropped: list[Dropped]
    missing: list[MissingOffsets]
    notes: list[str]
    high_watermark: Offset | None
    cleaner_offset: Offset | None
    has_transactions: bool

    @property
    def lost_something(self) -> bool:
        """Whether records may be lost that the user wanted."""
        return bool(self.missing) or any(each.is_loss for each in self.dropped)


_MOST_NOTES = 20
"""Most moved batches of a partition that are listed one by one."""


class _Planner:
    """Planner for one partition."""

    def __init__(self, chosen: Chosen, options: RebuildOptions, advance: Advance) -> None:
        self.chosen = chosen
        self.options = options
        self.advance = advance
        self.views = list(_views(chosen))
        self.salvaged = [salvage(view, at, advance) for at, view in enumerate(self.views)]
        self.ends = [
            proven_end(view, each.log_end_offset)
            for view, each in zip(self.views, self.salvaged, strict=True)
        ]
        self.known = [
            leader_epochs(view, end.offset) for view, end in zip(self.views, self.ends, strict=True)
        ]
        self.notes: list[str] = []
        self.dropped: list[Dropped] = []
        for each in self.salvaged:
            self.dropped += each.dropped
        if len(self.salvaged) > 1:
            self._drop_strays()
        copies = [
            (each.pieces, known) for each, known in zip(self.salvaged, self.known, strict=True)
        ]
        self.leading = reference(copies)
        self.pieces = list(self.salvaged[self.leading].pieces)
        self.has_transactions = any(each.has_transactions for each in self.salvaged)
        self.is_compacted = any(each.is_compacted for each in self.salvaged)

    @property
    def view(self) -> LogView:
        """View of the leading copy."""
        return self.views[self.leading]

    def plan(self) -> PlannedLog:
        """Return the plan."""
        self._merge()
        proof = self._proof_of_end()
        log_start = self._add_leftovers(self._log_start(proof))
        held = self._held_end(log_start)
        log_end = held if proof is None else max(held, proof.offset)
        self._cut_below(log_start)
        log_start, log_end = self._cut_to_bounds(log_start, log_end)
        if proof is not None and held < log_end:
            self.notes.append(self._note_on_end(held, log_end, proof))
        if self._is_end_unread(held):
            self.notes.append(
                f"the end of the log cannot be read: if the log had offset {log_end} or higher ones,"
                f" a broker assigns them again{self._way_out()}"
            )
        self.notes += self._notes_on_moved()
        epochs, odd = lineage(self.pieces, self._known_epochs())
        self.notes += [
            f"the batches of offsets {piece.base_offset} to {piece.next_offset - 1} state the"
            f" leader epoch {piece.epoch}, which is not between its neighbours'"
            for piece in odd
        ]
        new = RebuiltLog(
            self.chosen.partition,
            lay_out(
                self.pieces,
                log_start,
                log_end,
                epochs=epochs,
                ends_with_batch=self.chosen.partition.topic != CLUSTER_METADATA,
            ),
            log_start,
            log_end,
            epochs.entries_between(log_start, log_end),
            self._topic_id(),
            self._kraft_files(),
        )
        return self._described(new, held)

    # Log end

    def _held_end(self, log_start: Offset) -> Offset:
        """Return the log end by the records files."""
        ends = [self.salvaged[self.leading].log_end_offset, log_start]
        ends += [piece.next_offset for piece in self.pieces[-1:]]
        if self.chosen.partition.topic == CLUSTER_METADATA:
            ends += [each.end_offset for each in self.view.kraft_snapshots[-1:]]
        return max(ends)

    def _proof_of_end(self) -> EndProof | None:
        """Return the proof of a log end above that of all copies' records files, None without one.

        A copy that does not lead may have records that the leader dropped: only its high watermark
        counts, up to which all replicas agreed. A metadata log has none of these checkpoints, and
        its quorum knows its end.
        """
        if self.chosen.partition.topic == CLUSTER_METADATA:
            return None
        held = max(
            [
                self.salvaged[self.leading].log_end_offset,
                *(piece.next_offset for piece in self.pieces[-1:]),
            ]
        )
        proofs = [
            proof
            for at, end in enumerate(self.ends)
            for proof in end.proofs
            if at == self.leading or proof.file == REPLICATION_OFFSET_CHECKPOINT
        ]
        return max(
            (proof for proof in proofs if proof.offset > held),
            key=lambda proof: proof.offset,
            default=None,
        )

    def _is_end_unread(self, held: Offset) -> bool:
        """Return whether unreadable bytes follow all records, and nothing proves the log end."""
        if self.options.stop is not None or self.view.log.end_of_clean_stop() is not None:
            return False
        return any(
            each.kind == DamageKind.UNREADABLE
            and (each.first_offset is None or each.first_offset >= held)
            for each in self.dropped
        )

    def _notes_on_moved(self) -> list[str]:
        """Return notes on the batches that are in the result at other offsets than their headers state."""
        moved = [each for each in self.dropped if each.kind == "misplaced" and each.is_repaired]
        notes = [
            f"{each.path}, byte {each.position}: {each.reason}" for each in moved[:_MOST_NOTES]
        ]
        more = len(moved) - len(notes)
        return [*notes, f"and {more} more batches were moved"] if more else notes

    # Several copies

    def _drop_strays(self) -> None:
        """Drop batches that another copy has at the batch's true offset: their base offset is damaged."""
        for each in self.salvaged:
            others = [other.pieces for other in self.salvaged if other is not each]
            for before, piece in list(pairwise([None, *each.pieces])):
                assert piece is not None
                expected = where_expected(piece, before)
                if piece.batches != 1 or expected is None or piece.base_offset <= expected:
                    continue
                belongs = piece._replace(base_offset=expected)
                if any(same_batch(pieces, belongs) for pieces in others):
                    each.pieces.remove(piece)
                    reason = "its offset differs from that in another replica"
                    self.dropped.append(_dropped(piece, "misplaced", reason))

    def _merge(self) -> None:
        known = self._known_epochs()
        if len(self.salvaged) == 1:
            return
        _, odd = lineage(self.pieces, known)
        self.pieces = [piece for piece in self.pieces if piece not in odd]
        self._fill_from_others(known)
        self.pieces = fill(self.pieces, odd, any_epoch=True).pieces

    def _fill_from_others(self, known: LeaderEpochCache) -> None:
        for at, each in enumerate(self.salvaged):
            if at == self.leading:
                continue
            filled = fill(self.pieces, each.pieces, fits=partial(_is_of_lineage, known))
            self.pieces = filled.pieces
            for piece in coalesced(filled.refused, across_gaps=True):
                self._note_divergence(known, piece)

    def _note_divergence(self, known: LeaderEpochCache, piece: Piece) -> None:
        """Note the part of a piece that diverges from the leading copy."""
        first = piece.base_offset
        if _is_of_lineage(known, piece):
            after = known.next(piece.epoch)
            if piece.epoch < 0 or after is None or after.start_offset >= piece.next_offset:
                return
            first = after.start_offset
        reason = "records that diverge from the newest leader's log"
        self.dropped.append(_dropped(piece, "diverged", reason)._replace(first_offset=first))

    def _known_epochs(self) -> LeaderEpochCache:
        return self.known[self.leading]

    def _add_leftovers(self, log_start: Offset) -> Offset:
        """Fill holes with the batches of .swap files, and on request of .deleted files; return the new log start."""
        states = {FileState.SWAP} | ({FileState.DELETED} if self.options.deleted else set())
        for at, view in enumerate(self.views):
            for found in salvage_leftovers(view, at, frozenset(states), self.advance):
                log_start = min(log_start, self._add(found, log_start))
        return log_start

    def _add(self, found: Salvaged, log_start: Offset) -> Offset:
        """Add batches, and return the first added offset."""
        lowest = 0 if self.options.deleted else log_start
        filled = fill(self.pieces, [*found.pieces, *found.spare], lowest=lowest)
        self.pieces = filled.pieces
        self.dropped += found.dropped
        self.has_transactions |= found.has_transactions
        refused = coalesced(filled.refused, across_gaps=True)
        self.dropped += [
            _dropped(piece, "diverged", "its offsets or its leader epoch do not fit")
            for piece in refused
            if not is_covered(self.pieces, piece.base_offset, piece.next_offset - 1)
        ]
        return min((piece.base_offset for piece in filled.added), default=MAX_INT64)

    def _note_on_end(self, held: Offset, log_end: Offset, proof: EndProof) -> str:
        ends = "there is no records file"
        if any(view.base_offsets for view in self.views):
            ends = f"the records files end at offset {held}"
        return (
            f"{ends}, and {proof.says}: a batch without records has offsets {held} to"
            f" {log_end - 1}, so that a broker assigns none of them again{self._way_out()}"
        )

    def _way_out(self) -> str:
        return "" if len(self.views) > 1 else "; --merge takes them from a replica that has them"

    # Bounds

    def _log_start(self, proof: EndProof | None) -> Offset:
        end = max([each.log_end_offset for each in self.salvaged])
        end = end if proof is None else max(end, proof.offset)
        first = min(
            (view.base_offsets[0] for view in self.views if view.base_offsets),
            default=first_offset_without_records(self.view, end),
        )
        if self.options.below_log_start and self.pieces:
            return min(first, self.pieces[0].base_offset)
        known = [view.log.checkpoints.log_start_offset(view.partition) or 0 for view in self.views]
        right = [offset for offset in known if offset <= end]
        if len(right) < len(known):
            self.notes.append(
                f"the log start {max(known)} of the checkpoint is past the log end {end}, and is"
                " ignored: the result has records below it"
            )
        if not self.pieces and not self.view.base_offsets:
            return max([*right, self.view.log_start_offset, first])
        return max([*right, first])

    def _cut_below(self, log_start: Offset) -> None:
        made = cut(self.pieces, log_start, MAX_INT64, whole_batches=True, kind="below_log_start")
        self.pieces = made.pieces
        self.dropped += made.dropped

    def _cut_to_bounds(self, log_start: Offset, log_end: Offset) -> tuple[Offset, Offset]:
        options = self.options
        if options.start is None and options.stop is None:
            return log_start, log_end
        start = max(self._offset_of(options.start, log_start, log_end), log_start)
        stop = min(self._offset_of(options.stop, log_end, log_end), log_end)
        start = min(start, log_end)
        stop = max(start, stop)
        made = cut(self.pieces, start, stop, whole_batches=options.whole_batches, kind="outside")
        self.pieces = made.pieces
        self.dropped += made.dropped
        if options.whole_batches and self.pieces:
            start = max(log_start, min(start, self.pieces[0].base_offset))
            stop = max(stop, self.pieces[-1].next_offset)
        return start, stop

    def _offset_of(self, bound: RebuildBound | None, default: Offset, log_end: Offset) -> Offset:
        if bound is None:
            return default
        if bound.timestamp is not None:
            found = first_at_or_after(self.pieces, bound.timestamp)
            return log_end if found is None else found
        return default if bound.offset is None else bound.offset

    # Files beside the records

    def _topic_id(self) -> str | None:
        asked = self.options.topic_ids.get(self.chosen.partition.topic)
        if asked is not None:
            return asked
        ids = {view.topic_id for view in self.views} - {None}
        if len(ids) > 1:
            self.notes.append("the copies have different topic ids: they are not of one topic")
        found = self.view.topic_id or next(iter(ids), None)
        if found is None:
            self.notes.append(
                "no topic id is known: without partition.metadata a broker treats the log as stray"
            )
        return found

    def _kraft_files(self) -> dict[str, bytes]:
        if self.chosen.partition.topic != CLUSTER_METADATA:
            return {}
        names = [kraft_checkpoint_name(*each) for each in self.view.kraft_snapshots]
        files = {name: self.view.read_side_file(name) for name in names}
        if QUORUM_STATE in self.view.listing.files:
            files[QUORUM_STATE] = self.view.read_side_file(QUORUM_STATE)
        return files

    def _described(self, new: RebuiltLog, held: Offset) -> PlannedLog:
        dropped = [
            self._judged(each, new.log_start_offset, new.log_end_offset) for each in self.dropped
        ]
        checkpoints = self.view.log.checkpoints
        start, end = new.log_start_offset, new.log_end_offset
        high = checkpoints.high_watermark(self.view.partition)
        cleaned = checkpoints.cleaner_offset(self.view.partition)
        if any(view.live for view in self.views):
            self.notes.append(f"a broker writes to the source: consistent up to offset {end}")
        return PlannedLog(
            self.chosen,
            new,
            self.pieces,
            dropped,
            list(self._missing(dropped, start, end, min(held, end))),
            self.notes,
            None if high is None else min(max(high, start), end),
            cleaned if cleaned is not None and start <= cleaned <= end else None,
            self.has_transactions,
        )

    def _judged(self, dropped: Dropped, start: Offset, end: Offset) -> Dropped:
        """Return the drop with whether its offsets are restored from elsewhere or were not requested."""
        if dropped.kind == "misplaced" or dropped.first_offset is None:
            return dropped
        first = dropped.first_offset
        last = first if dropped.last_offset is None else dropped.last_offset
        is_outside = last < start or (first >= end and self.options.stop is not None)
        return dropped._replace(
            is_repaired=is_outside or last < first or is_covered(self.pieces, first, last)
        )

    def _missing(
        self, dropped: Sequence[Dropped], start: Offset, end: Offset, held: Offset
    ) -> Iterable[MissingOffsets]:
        """Yield the gaps; in a compacted log only those with damage inside, and those behind `held`."""
        at = start
        for piece in self.pieces:
            if piece.base_offset > at and (
                not (self.is_compacted or piece.is_legacy)
                or _touches(dropped, at, piece.base_offset)
            ):
                yield MissingOffsets(at, piece.base_offset)
            at = max(at, piece.next_offset)
        if self.is_compacted and not _touches(dropped, at, end):
            at = max(at, held)
        if end > at:
            yield MissingOffsets(at, end)


def plan_log(chosen: Chosen, options: RebuildOptions, advance: Advance) -> PlannedLog:
    """Read a partition's copies and return the plan of its log; nothing is written.

    Raises:
        OSError: a copy cannot be read.
    """
    return _Planner(chosen, options, advance).plan()


def _views(chosen: Chosen) -> Iterator[LogView]:
    """Return views of the readable copies. Raises the error of the first if none is readable."""
    views = [log.view_or_none() for log in chosen.copies]
    if not any(views):
        yield chosen.copies[0].view()
    yield from (view for view in views if view is not None)


def _is_of_lineage(known: LeaderEpochCache, piece: Piece) -> bool:
    epoch = known.epoch_for(piece.base_offset)
    return piece.epoch < 0 or epoch is None or epoch == piece.epoch


def _touches(dropped: Iterable[Dropped], start: Offset, stop: Offset) -> bool:
    for each in dropped:
        if each.is_loss and each.first_offset is not None:
            last = each.first_offset if each.last_offset is None else each.last_offset
            if each.first_offset < stop and last >= start:
                return True
    return False


def _dropped(piece: Piece, kind: str, reason: str) -> Dropped:
    path = "" if piece.origin is None else piece.origin.path
    return Dropped(
        path,
        piece.position,
        piece.size,
        kind,
        reason,
        piece.base_offset,
        piece.next_offset - 1,
    )
