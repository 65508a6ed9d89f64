"""Plan a partition's log: its batches, their sources, and the missing offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from engine.cut.cluster_cut import CutEnd
from engine.files.file_names import PARTITION_METADATA, REPLICATION_OFFSET_CHECKPOINT
from engine.log.segment.damage import DamageKind
from engine.log.view.log_bound import LogBound
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import (
    EndProof,
    first_offset_without_records,
)
from engine.rebuild.assembly.cut import first_at_or_after
from engine.rebuild.assembly.end_markers import end_pieces
from engine.rebuild.assembly.layout import lay_out
from engine.rebuild.assembly.lineage import lineage
from engine.rebuild.assembly.merging import MergedCopies
from engine.rebuild.assembly.pieces import (
    Dropped,
    Piece,
    is_covered,
)
from engine.rebuild.assembly.salvage import Advance
from engine.rebuild.beside.known_facts import KnownFacts
from engine.rebuild.beside.kraft_files import KRaftFiles, kraft_files
from engine.rebuild.losses import (
    Holes,
    first_segments_lost,
    log_start_with,
)
from engine.rebuild.options import RebuildOptions
from engine.rebuild.selection import Chosen, LeftOut
from engine.rebuild.writing import RebuiltLog
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT64, Offset
from engine.verdict.log_losses import losses_of
from engine.verdict.log_start import LostStart
from engine.verdict.loss import Loss


class PlannedLog(NamedTuple):
    """A log to write, with its report.

    Attributes:
        chosen: the partition and its copies.
        log: log to write.
        pieces: its batches, in offset order.
        dropped: parts of the copies that are left out.
        missing: offsets that may have had records, without those that compaction removed.
        notes: sentences for the report.
        high_watermark, cleaner_offset: entries in the source's checkpoints; None without one.
        has_transactions: whether any batch may be transactional.
        left_out: files beside the records that are left out.
        merged: the copies that it is made of, as one log.
    """

    chosen: Chosen
    log: RebuiltLog
    pieces: list[Piece]
    dropped: list[Dropped]
    missing: list[Loss]
    notes: list[str]
    high_watermark: Offset | None
    cleaner_offset: Offset | None
    has_transactions: bool
    left_out: list[LeftOut]
    merged: MergedCopies

    @property
    def lost_something(self) -> bool:
        """Whether records may be lost that the user wanted."""
        lost_bytes = any(each.is_loss for each in self.dropped)
        return bool(self.missing) or lost_bytes or any(each.is_loss for each in self.left_out)


_MOST_NOTES = 20
"""Most moved batches of a partition that are listed one by one."""


class _Planner:
    """Planner for one partition."""

    def __init__(
        self, chosen: Chosen, options: RebuildOptions, advance: Advance, facts: KnownFacts
    ) -> None:
        self.chosen = chosen
        self.facts = facts
        self.options = options
        if chosen.then is not None:
            stop = LogBound(chosen.then.offset)
            self.options = replace(options, stop=stop, whole_batches=True)
        self.merged = MergedCopies(list(_views(chosen)), advance)
        self.notes: list[str] = []
        if chosen.taken_from is not None:
            self.notes.append(
                f"only {chosen.taken_from} has this partition: it is taken from there"
            )
        self.end_says = ""
        self.lost_start: LostStart | None = None
        self.beside = KRaftFiles({}, [])
        if self.is_metadata:
            self.beside = kraft_files(self.merged.views, self.merged.leading)
        else:
            self.lost_start = first_segments_lost(self.merged.views, facts)

    @property
    def view(self) -> LogView:
        """View of the leading copy."""
        return self.merged.view

    @property
    def is_metadata(self) -> bool:
        """Whether the log is the metadata log."""
        return self.chosen.partition.topic == CLUSTER_METADATA

    def plan(self) -> PlannedLog:
        """Return the plan."""
        merged = self.merged
        proof = self._proof_of_end()
        log_start = merged.add_leftovers(self._log_start(proof), deleted=self.options.deleted)
        held = self._held_end(log_start)
        log_end = held if proof is None else max(held, proof.offset)
        merged.cut(log_start, MAX_INT64, whole_batches=True, kind="below_log_start")
        log_start, log_end = self._cut_to_bounds(log_start, log_end)
        if self.chosen.then is not None and merged.has_transactions:
            log_end = self._end_transactions(self.chosen.then, log_end)
        self.end_says = "" if proof is None else proof.says
        if proof is not None and held < log_end:
            self.notes.append(self._note_on_end(held, log_end, proof))
        unknown = self._why_end_unknown(held, log_end)
        if unknown is not None:
            self.notes.append(
                f"the end of the log {unknown}: if the log had offset {log_end} or higher ones,"
                f" a broker assigns them again{self._way_out()}"
            )
        self.notes += self._notes_on_moved()
        epochs, odd = lineage(merged.pieces, merged.epochs)
        self.notes += [
            f"the batches of offsets {piece.base_offset} to {piece.next_offset - 1} state the"
            f" leader epoch {piece.epoch}, which is not between its neighbours'"
            for piece in odd
        ]
        new = RebuiltLog(
            self.chosen.partition,
            lay_out(
                merged.pieces,
                log_start,
                log_end,
                epochs=epochs,
                ends_with_batch=not self.is_metadata,
            ),
            log_start,
            log_end,
            epochs.entries_between(log_start, log_end),
            self._topic_id(),
            self.beside.files,
        )
        return self._described(new, held)

    # Log end

    @property
    def _records_end(self) -> Offset:
        """Log end by the leading copy's files and the batches of all copies."""
        pieces = self.merged.pieces
        return max([self.merged.log_end_offset, *(piece.next_offset for piece in pieces[-1:])])

    def _held_end(self, log_start: Offset) -> Offset:
        """Return the log end by the records files."""
        return max(self._records_end, log_start, self.beside.end)

    def _proof_of_end(self) -> EndProof | None:
        """Return the proof of a log end above that of all copies' records files, None without one.

        A copy that does not lead may have records that the leader dropped: only its high watermark
        counts, up to which all replicas agreed. A metadata log has none of these checkpoints, and
        its quorum knows its end.
        """
        if self.is_metadata:
            return None
        held = self._records_end
        proofs = [
            proof
            for at, end in enumerate(self.merged.proven_ends)
            for proof in end.proofs
            if at == self.merged.leading or proof.file == REPLICATION_OFFSET_CHECKPOINT
        ]
        return max(
            (proof for proof in proofs if proof.offset > held),
            key=lambda proof: proof.offset,
            default=None,
        )

    def _why_end_unknown(self, held: Offset, log_end: Offset) -> str | None:
        """Return what follows all records if nothing proves the log end: unreadable bytes or a damaged batch."""
        if self.options.stop is not None or self.view.log.end_of_clean_stop() is not None:
            return None
        after = {
            each.kind
            for each in self.merged.dropped
            if each.first_offset is None or each.first_offset >= held
        }
        if DamageKind.UNREADABLE in after:
            return "cannot be read"
        return "is damaged" if DamageKind.CRC_MISMATCH in after and held == log_end else None

    def _notes_on_moved(self) -> list[str]:
        """Return notes on the batches that are in the result at other offsets than their headers state."""
        moved = [
            each for each in self.merged.dropped if each.kind == "misplaced" and each.is_repaired
        ]
        notes = [
            f"{each.path}, byte {each.position}: {each.reason}" for each in moved[:_MOST_NOTES]
        ]
        more = len(moved) - len(notes)
        return [*notes, f"and {more} more batches were moved"] if more else notes

    def _note_on_end(self, held: Offset, log_end: Offset, proof: EndProof) -> str:
        ends = "there is no records file"
        if any(view.base_offsets for view in self.merged.views):
            ends = f"the records files end at offset {held}"
        return (
            f"{ends}, and {proof.says}: a batch without records has offsets {held} to"
            f" {log_end - 1}, so that a broker does not assign them again{self._way_out()}"
        )

    def _way_out(self) -> str:
        return (
            ""
            if len(self.merged.views) > 1
            else "; --merge takes them from a replica that has them"
        )

    # Bounds

    def _log_start(self, proof: EndProof | None) -> Offset:
        end = self.merged.largest_end
        end = end if proof is None else max(end, proof.offset)
        first = min(
            (view.base_offsets[0] for view in self.merged.views if view.base_offsets),
            default=first_offset_without_records(self.view, end),
        )
        if self.options.below_log_start and self.merged.pieces:
            return min(first, self.merged.pieces[0].base_offset)
        known = [
            view.log.checkpoints.log_start_offset(view.partition) or 0 for view in self.merged.views
        ]
        right = [offset for offset in known if offset <= end]
        if len(right) < len(known):
            self.notes.append(
                f"the log start {max(known)} of the checkpoint is past the log end {end}, and is"
                " ignored: the result has records below it"
            )
        if not self.merged.pieces and not self.view.base_offsets:
            return max([*right, self.view.log_start_offset, first])
        return max([*right, log_start_with(self.lost_start, first, self.merged.pieces)])

    def _cut_to_bounds(self, log_start: Offset, log_end: Offset) -> tuple[Offset, Offset]:
        options = self.options
        if options.start is None and options.stop is None:
            return log_start, log_end
        start = max(self._offset_of(options.start, log_start, log_end), log_start)
        stop = min(self._offset_of(options.stop, log_end, log_end), log_end)
        start = min(start, log_end)
        stop = max(start, stop)
        self.merged.cut(start, stop, whole_batches=options.whole_batches, kind="outside")
        if options.whole_batches and self.merged.pieces:
            start = max(log_start, min(start, self.merged.pieces[0].base_offset))
            stop = max(stop, self.merged.pieces[-1].next_offset)
        return start, stop

    def _end_transactions(self, then: CutEnd, log_end: Offset) -> Offset:
        """Append the end markers that a moment is before; return the log end behind them."""
        if then.gone is not None:
            self.notes.append(f"gone since the moment: {then.gone}")
        made = end_pieces(self.merged.pieces, log_end, then)
        self.merged.pieces += made
        if made:
            self.notes.append(
                f"offsets {log_end} to {made[-1].next_offset - 1} are end markers of the transactions that"
                " were open there"
            )
        return made[-1].next_offset if made else log_end

    def _offset_of(self, bound: LogBound | None, default: Offset, log_end: Offset) -> Offset:
        if bound is None:
            return default
        if bound.timestamp is not None:
            found = first_at_or_after(self.merged.pieces, bound.timestamp)
            return log_end if found is None else found
        if bound.before_end is not None:
            return bound.before(log_end)
        return default if bound.offset is None else bound.offset

    # Files beside the records

    def _topic_id(self) -> str | None:
        asked = self.options.topic_ids.get(self.chosen.partition.topic)
        if asked is not None:
            return asked
        ids = {view.topic_id for view in self.merged.views} - {None}
        if len(ids) > 1:
            self.notes.append("the copies have different topic ids: they are not of one topic")
        found = self.view.topic_id or next(iter(ids), None)
        if found is not None:
            return found
        name, source = PARTITION_METADATA, self.view.partition.topic
        state = "cannot be read" if self.view.listing.has_file(name) else "is missing"
        stated = self.facts.topic_id(source)
        if stated is None:
            self.notes.append(
                f"{name} {state} and no topic id is known: without it a broker treats the log as"
                f" stray; --topic-id {self.chosen.partition.topic}=ID gives it one"
            )
            return None
        self.notes.append(
            f"{name} {state}: it is made anew with the topic id {stated.topic_id}, {stated.where}"
        )
        return stated.topic_id

    def _described(self, new: RebuiltLog, held: Offset) -> PlannedLog:
        dropped = [
            self._judged(each, new.log_start_offset, new.log_end_offset)
            for each in self.merged.dropped
        ]
        checkpoints = self.view.log.checkpoints
        start, end = new.log_start_offset, new.log_end_offset
        if self.options.start is not None:
            self.lost_start = None  # the offsets below are not asked for
        if any(view.live for view in self.merged.views):
            self.notes.append(f"a broker writes to the source: consistent up to offset {end}")
        holes = Holes(
            str(self.chosen.partition),
            self.merged,
            dropped,
            self.lost_start,
            self.end_says,
            self.options.deleted,
        )
        missing = holes.missing(start, end, min(held, end))
        return PlannedLog(
            self.chosen,
            new,
            self.merged.pieces,
            dropped,
            [*missing, *(self._lost_metadata(end) if self.is_metadata else ())],
            self.notes,
            checkpoints.high_watermark(self.view.partition),
            checkpoints.cleaner_offset(self.view.partition),
            self.merged.has_transactions,
            self.beside.left_out,
            self.merged,
        )

    def _lost_metadata(self, end: Offset) -> Iterator[Loss]:
        """Yield what a metadata log lost at its start and its end, which are not restored: its quorum knows the end."""
        losses = losses_of(self.view)
        if losses.start is not None and self.options.start is None:
            yield losses.start
        lost = losses.end if self.options.stop is None else None
        if lost is not None and (lost.next_offset or 0) > end:
            yield replace(lost, first_offset=max(lost.first_offset or 0, end))

    def _judged(self, dropped: Dropped, start: Offset, end: Offset) -> Dropped:
        """Return the drop with whether its offsets are restored from elsewhere or were not requested."""
        if dropped.kind in ("misplaced", "differs") or dropped.first_offset is None:
            return dropped
        first = dropped.first_offset
        last = first if dropped.last_offset is None else dropped.last_offset
        is_outside = last < start or (first >= end and self.options.stop is not None)
        return dropped._replace(
            is_repaired=is_outside or last < first or is_covered(self.merged.pieces, first, last)
        )


def plan_log(
    chosen: Chosen, options: RebuildOptions, advance: Advance, facts: KnownFacts
) -> PlannedLog:
    """Read a partition's copies and return the plan of its log; nothing is written.

    Args:
        chosen: the partition and its copies.
        options: options of the rebuild.
        advance: called with the number of bytes read.
        facts: facts of all the sources.

    Raises:
        OSError: a copy cannot be read.
    """
    return _Planner(chosen, options, advance, facts).plan()


def _views(chosen: Chosen) -> Iterator[LogView]:
    """Return views of the readable copies. Raises the error of the first if none is readable."""
    views = [log.view_or_none() for log in chosen.copies]
    if not any(views):
        yield chosen.copies[0].view()
    yield from (view for view in views if view is not None)
