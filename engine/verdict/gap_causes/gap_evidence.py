"""Gather what explains the gaps of a log, from its batch headers and the files beside it.

Costs a pass over the log, so it is done when a gap was met that cheaper facts do not explain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from engine import kernel
from engine.arrays import npt
from engine.columns.batch_table import holds_control
from engine.errors import KafkaStorageError
from engine.files.file_names import FileKind, FileState, log_file_name, parse_file_name
from engine.log.folder_listing import FolderListing
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import last_indexed, orphan_indexes
from engine.units import MAX_INT64, Offset
from engine.verdict.gap_causes.compaction_marks import marked_to
from engine.verdict.gap_causes.gaps import Evidence, OffsetGap, classify
from engine.verdict.gap_causes.producer_sequences import Producers
from engine.verdict.gap_causes.repeated_keys import first_repeated_key
from engine.verdict.gap_causes.wrappers import wrappers_of

Table: TypeAlias = "npt.NDArray[Any]"

MOST_GAPS = 100_000
"""Gaps that are kept one by one."""
_MANY = 10
"""Number of gaps above which unique keys are a sign of compaction."""


def orphans_without_log(listing: FolderListing) -> tuple[Offset, ...]:
    """Return base offsets of indexes whose records file is not there, not even renamed for deletion, and of ``.swap``
    files that a start deletes as parts of an unfinished replacement, without the records file that they replace."""
    found = set(orphan_indexes(listing))
    for file, _ in listing.leftovers:
        name = parse_file_name(file)
        if name is not None and name.kind is FileKind.LOG and name.state is FileState.SWAP:
            found.add(int(file[:20]))
    return tuple(
        base
        for base in sorted(found)
        if base not in listing.base_offsets
        and not listing.has_file(log_file_name(base, FileState.DELETED))
    )


def known_evidence(view: LogView, policy: frozenset[str] | None) -> Evidence:
    """Return the evidence that needs no read of the log."""
    return Evidence(
        view.partition.topic,
        view.log_start_offset,
        policy,
        view.log.checkpoints.cleaner_offset(view.partition),
        orphans=orphans_without_log(view.listing),
        find_indexed=IndexedBatches(view).inside,
    )


class IndexedBatches:
    """What the indexes of segments state of batches that the records files do not have.

    A broker closes the indexes of a segment when the next one begins, and compaction writes them anew. So the last
    entry of an index is of a batch that its segment once had.

    Args:
        view: the log.
    """

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._known: dict[Offset, list[tuple[str, Offset]]] = {}

    def inside(self, gap: OffsetGap) -> str | None:
        """Return which index has an entry for a batch in a gap at the end of a segment; None if none has."""
        if self._view.live:
            return None  # the indexes may be newer than the view
        if gap.next_offset > self._view.log_end_offset:
            return None  # the base offset of the batch behind it is wrong
        bases = self._view.base_offsets
        first = max(bisect_right(bases, gap.first_offset) - 1, 0)
        following = bisect_right(bases, gap.next_offset) - 1
        for base in bases[first:following]:
            for name, last in self._last_entries(base):
                if gap.first_offset <= last < gap.next_offset:
                    return f"{name} has an entry for offset {last}"
        return None

    def _last_entries(self, base: Offset) -> list[tuple[str, Offset]]:
        known = self._known.get(base)
        if known is None:
            known = self._known[base] = list(last_indexed(self._view, base))
        return known


def gather(view: LogView, policy: frozenset[str] | None) -> tuple[Evidence, list[OffsetGap]]:
    """Return the evidence of a whole log, and its gaps in order, at most MOST_GAPS.

    Damage is no gap: offsets that are missing beside it are its own. Raises OSError.
    """
    evidence, producers = known_evidence(view, policy), Producers()
    gaps: list[OffsetGap] = []
    bases = view.base_offsets
    expected, is_after_damage, at = (bases[0] if bases else 0), False, 0
    for segment, item in view.runs(bases[0] if bases else 0, view.log_end_offset):
        place = bisect_right(bases, segment.base_offset) - 1
        if place != at and is_after_damage:  # it took no offset from the base offset on
            expected, is_after_damage = max(expected, segment.base_offset), False
        at = place
        if isinstance(item, BatchRun):
            table, wrappers = item.table, wrappers_of(item)
            if wrappers is not None:
                table = wrappers.with_first_offsets(table)
                evidence.marked_to = max(evidence.marked_to, wrappers.thinned_to)
            producers.feed(place, table)
            evidence.marked_to = max(evidence.marked_to, marked_to(table))
            if not is_after_damage:
                gaps += _gap_before(table, expected)
            gaps += gaps_within(table)
            del gaps[MOST_GAPS:]
            expected, is_after_damage = max(expected, item.next_offset), False
        elif isinstance(item, Damage) and not item.is_quiet:
            is_after_damage = True
        del item  # free it before the next read: a batch may be as large as the budget
    evidence.breaks = [each for each in producers.breaks if each.after >= view.log_start_offset]
    evidence.find_keyless = lambda: first_keyless(view)
    compare_keys(view, gaps, evidence)
    return evidence, gaps


def compare_keys(view: LogView, gaps: Iterable[OffsetGap], evidence: Evidence) -> None:
    """Look for repeated keys where the cause of some gaps is not certain, and note them in the evidence."""
    unsure: list[OffsetGap] = []
    losses: list[OffsetGap] = []
    for gap in gaps:
        verdict = classify(gap, evidence)
        if not verdict.is_certain:
            (losses if verdict.is_loss else unsure).append(gap)
    if len(losses) >= _MANY and evidence.first_keyless() is None:
        unsure += losses
    if unsure:
        evidence.repeated = first_repeated_key(view, max(gap.first_offset for gap in unsure))
        evidence.has_unique_keys = evidence.repeated is None and len(unsure) >= _MANY


def first_keyless(view: LogView) -> Offset | None:
    """Return the offset of the first data record without a key; None if all have one, or cannot be read."""
    if not view.base_offsets:
        return None
    try:
        for _, item in view.runs(view.base_offsets[0], view.log_end_offset):
            if isinstance(item, BatchRun):
                data = item.table[~holds_control(item.table)]
                summaries, _ = kernel.summarize(
                    item.buffer,
                    data,
                    start_position=item.start_position,
                    budgets=view.log.budgets,
                )
                rows = (summaries["without_key"] > 0).nonzero()[0]
                if len(rows):
                    return int(summaries["first_without_key"][rows[0]])
            del item  # free it before the next read
    except (OSError, KafkaStorageError):
        return None
    return None


def gaps_within(table: Table) -> Iterator[OffsetGap]:
    """Yield the gaps between the batches of a run, whose offsets ascend."""
    base, last = table["base_offset"], table["last_offset"]
    for row in (base[1:] > last[:-1] + 1).nonzero()[0].tolist():
        position = int(table["position"][row + 1])
        yield OffsetGap(int(last[row]) + 1, int(base[row + 1]), position)


def _gap_before(table: Table, expected: Offset) -> Iterator[OffsetGap]:
    base = int(table["base_offset"][0])
    if base > expected:
        yield OffsetGap(expected, base, int(table["position"][0]))


def next_batch_after(view: LogView, offset: Offset) -> Offset:
    """Return the first offset of the batch at or after an offset, the log end without one. Raises OSError."""
    found = view.locate(max(offset, view.log_start_offset))
    if found is None:
        return min(max(offset, view.log_end_offset), MAX_INT64)
    return max(offset, found[1].base_offset)


def gap_at(view: LogView, offset: Offset) -> tuple[LogSegment, OffsetGap, bool]:
    """Return the missing offsets around one, and the segment with the batch behind them, as a reader meets them.

    There are none if a batch has the offset. The last is whether damage is among them. Raises OSError.
    """
    place = max(bisect_right(view.base_offsets, offset) - 1, 0)
    segment = view.segment_at(place)
    first, has_damage = segment.base_offset, False
    for item in segment.scan_from(offset):
        if isinstance(item, BatchRun):
            table, wrappers = item.table, wrappers_of(item)
            stated = table if wrappers is None else wrappers.with_first_offsets(table)
            reaching = (table["last_offset"] >= offset).nonzero()[0]
            row = int(reaching[0]) if len(reaching) else len(table)
            if row:
                first = max(first, int(table["last_offset"][row - 1]) + 1)
                has_damage = False
            if row < len(table):
                following, position = (
                    int(stated[each][row]) for each in ("base_offset", "position")
                )
                return segment, OffsetGap(first, following, position), has_damage
        elif isinstance(item, Damage) and not item.is_quiet:
            has_damage = True
        del item  # free it before the next read: a batch may be as large as the budget
    if place + 1 < len(view.base_offsets):
        gap = OffsetGap(first, view.base_offsets[place + 1], 0)
        return view.segment_at(place + 1), gap, has_damage
    return segment, OffsetGap(first, view.log_end_offset, segment.end), has_damage
