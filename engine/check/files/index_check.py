"""Compare an offset index with its segment: every entry, in time linear in both.

An entry has a batch's position and its last offset. Brokers before 4.1 wrote one for the first batch of an append with
the last offset of the whole append, and so did compaction; so the offset may be that of a later batch. No batch before
the position may reach the offset: a look-up would miss it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from engine.check.files.index_entries import (
    EntryFindings,
    IndexEntries,
    Table,
    damaged_spans,
    looked_at,
    read_entries,
    severity_of,
    size_findings,
    unreadable,
    within,
)
from engine.check.partition_under_check import SegmentUnderCheck
from engine.check.rules.finding import Finding
from engine.check.rules.finding_limit import MOST, at_slots
from engine.files.file_names import offset_index_name
from engine.index.offset_index import ENTRY
from engine.units import MAX_INT64

_SMALL_SEGMENT = 1 << 20


def check_offset_index(segment: SegmentUnderCheck) -> Iterator[Finding]:
    """Yield findings about a segment's offset index."""
    name = offset_index_name(segment.base_offset)
    try:
        entries = read_entries(segment, name, ENTRY.dtype)
    except OSError as error:
        yield from unreadable(segment, name, error)
        return
    if entries is None:
        if segment.partition.view.log.only is None and segment.end:
            yield segment.partition.found(
                "index-missing",
                name,
                "the file is missing: a broker rebuilds it from the whole segment",
            )
        return
    yield from _check_size(segment, name, entries)
    if len(entries.table):
        yield from _OffsetIndexCheck(_Entries(segment, name, entries.table)).run()


def _check_size(segment: SegmentUnderCheck, name: str, entries: IndexEntries) -> Iterator[Finding]:
    yield from size_findings(segment, name, entries, ENTRY.size)
    if not len(entries.table) and segment.end > _SMALL_SEGMENT and segment.row_count > 1:
        yield segment.partition.found(
            "index-empty", name, f"no entries for {segment.end} bytes of batches"
        )


class _Contradiction(IntEnum):
    """How an entry contradicts the log."""

    NOTHING = 0
    NO_BATCH = 1
    """The entry's position is inside the batch at `first`."""
    MISSES = 2
    """Offsets up to `first` are before the entry's position."""
    OTHER_OFFSET = 3
    """The batch at the entry's position has offsets `first` to `last`."""
    NO_OFFSET = 4
    """No batch from the entry's position on has the entry's offset."""


class _Entries:
    """Entries of an offset index, as absolute numbers."""

    def __init__(self, segment: SegmentUnderCheck, name: str, table: Table) -> None:
        self.segment = segment
        self.offsets = table["relative_offset"].astype("i8") + segment.base_offset
        self.positions = table["position"].astype("i8")
        self.findings = EntryFindings(segment, name, ENTRY.size, self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)

    def _served_from(self, slot: int) -> int:
        """Return the first offset looked up with an entry: the one after the previous entry's."""
        before = int(self.offsets[slot - 1]) + 1 if slot else self.segment.base_offset
        return min(max(before, self.segment.base_offset), int(self.offsets[slot]))

    def found(
        self,
        rule: str,
        slot: int,
        sentence: str,
        *,
        next_offset: int | None = None,
        **facts: object,
    ) -> Finding:
        """Return a finding about an entry."""
        return self.findings.found(
            rule,
            slot,
            sentence,
            first_offset=self._served_from(slot),
            next_offset=next_offset,
            **facts,
        )


class _Contradictions:
    """Entries that contradict the log, by slot; an index may have millions."""

    def __init__(self, entries: _Entries) -> None:
        self._entries = entries
        self._segment = entries.segment
        self._offsets, self._positions = entries.offsets, entries.positions
        self._kinds = np.zeros(len(entries), np.uint8)
        self._first = np.zeros(len(entries), "i8")
        self._last = np.zeros(len(entries), "i8")

    def note(
        self,
        slots: Table,
        row: Table,
        chosen: npt.NDArray[np.bool_],
        kind: _Contradiction,
        first: Table,
        last: Table | None = None,
    ) -> None:
        """Note that chosen slots contradict their rows; `first` and `last` are facts of all rows."""
        slots, row = slots[chosen], row[chosen]
        self._kinds[slots] = kind
        self._first[slots] = first[row]
        if last is not None:
            self._last[slots] = last[row]

    def note_no_offset(self, slots: Table) -> None:
        """Note that the offsets of slots are in no batch from their positions on."""
        self._kinds[slots] = _Contradiction.NO_OFFSET

    def findings(self) -> Iterator[Finding]:
        """Report contradictions. If all entries to the end are off by the same distance, the log is wrong."""
        slots = self._kinds.nonzero()[0]
        if len(slots) > 1 and slots[-1] == len(self._entries) - 1:
            moved = self._positions[slots] - self._actual_positions(slots)
            same = (moved == moved[-1]) & (slots - slots[-1] == np.arange(1 - len(slots), 1))
            count = len(same) if same.all() else int(same[::-1].argmin())
            if count > 1 and abs(int(moved[-1])) < MAX_INT64 // 2 and moved[-1]:
                yield self._log_has_moved(int(slots[-count]), int(moved[-1]))
                slots = slots[:-count]
        if len(slots) <= MOST:
            yield from map(self._finding, slots.tolist())
            return
        for kind in _Contradiction:
            yield from at_slots(slots[self._kinds[slots] == kind], self._finding)

    def _finding(self, slot: int) -> Finding:
        """Return the finding for an entry that contradicts the log."""
        kind, first, last = self._kinds[slot], int(self._first[slot]), int(self._last[slot])
        if kind == _Contradiction.NO_BATCH:
            return self._no_batch(slot, first)
        if kind == _Contradiction.MISSES:
            return self._missing(slot, first)
        if kind == _Contradiction.OTHER_OFFSET:
            return self._other_offset(slot, first, last)
        return self._entries.found(
            "index-entry",
            slot,
            f"no batch from position {self._positions[slot]} on has offset {self._offsets[slot]}",
        )

    def _actual_positions(self, slots: Table) -> Table:
        """Return the positions of the batches with these slots' offsets; a meaningless number without such a batch."""
        found = np.full(len(slots), -MAX_INT64, "i8")
        offsets = self._offsets[slots]
        for rows in self._segment.chunks():
            row = rows["last_offset"].searchsorted(offsets, "left")
            row = np.minimum(row, len(rows) - 1)
            is_it = rows["last_offset"][row] == offsets
            found[is_it] = rows["position"][row[is_it]]
        return found

    def _log_has_moved(self, slot: int, distance: int) -> Finding:
        """Return the finding for bytes added or removed between two entries."""
        start = int(self._positions[slot - 1]) if slot else 0
        first = int(self._offsets[slot - 1]) + 1 if slot else self._segment.base_offset
        end = int(self._positions[slot]) - distance
        what = f"{distance} bytes are missing" if distance > 0 else f"{-distance} bytes were added"
        return self._segment.partition.found(
            "log-moved",
            self._segment.name,
            f"{what} between offsets {first} and {self._offsets[slot]}: all entries of the offset index from"
            f" {self._offsets[slot]} on are off by as many",
            position=start,
            length=max(end - start, 0),
            first_offset=first,
            next_offset=int(self._offsets[slot]) + 1,
            severity=severity_of(self._segment, "log-moved"),
            expected=int(self._positions[slot]),
            found=end,
        )

    def _no_batch(self, slot: int, start: int) -> Finding:
        return self._entries.found(
            "index-position",
            slot,
            f"the entry points to position {self._positions[slot]}, inside the batch at {start}",
            expected=start,
            found=int(self._positions[slot]),
        )

    def _missing(self, slot: int, reached: int) -> Finding:
        return self._entries.found(
            "index-misses-records",
            slot,
            f"look-ups of offset {self._offsets[slot]} begin at position {self._positions[slot]}, after offset"
            f" {reached}",
            next_offset=max(reached + 1, int(self._offsets[slot]) + 1),
            expected=f"above {reached}",
            found=int(self._offsets[slot]),
        )

    def _other_offset(self, slot: int, base: int, last: int) -> Finding:
        return self._entries.found(
            "index-entry",
            slot,
            f"the entry has offset {self._offsets[slot]}, but the batch at {self._positions[slot]} has {base} to {last}",
            expected=last,
            found=int(self._offsets[slot]),
        )


class _OffsetIndexCheck:
    """Checks the entries for themselves, then against the batches of the segment in one pass."""

    def __init__(self, entries: _Entries) -> None:
        self.entries = entries
        self.segment = entries.segment
        self.offsets, self.positions = entries.offsets, entries.positions
        self.contradictions = _Contradictions(entries)
        self.bad = np.zeros(len(entries), np.bool_)
        """Entries that have a finding."""
        self.pending = np.zeros(0, "i8")
        """Slots with an offset of a later batch, by offset."""

    def run(self) -> Iterator[Finding]:
        yield from self._signs()
        yield from self._order()
        yield from self._ends()
        order = np.argsort(self.positions, kind="stable")
        order = order[~self.bad[order]]
        reached = -1
        first = 0
        disordered = False
        for rows in self.segment.chunks():
            stop = int(rows["position"][-1] + rows["size"][-1])
            last = first + int(self.positions[order[first:]].searchsorted(stop, "left"))
            running = np.maximum.accumulate(np.concatenate(([reached], rows["last_offset"])))
            disordered |= bool((rows["base_offset"] <= running[:-1]).any())
            before = np.full(len(rows), -1, "i8") if disordered else running[:-1]
            self._against(rows, order[first:last], before)
            self._resolve(rows, disordered)
            first, reached = last, int(running[-1])
        if not disordered and not self.segment.had_damage:
            self.contradictions.note_no_offset(self.pending)
        yield from self.contradictions.findings()

    def _signs(self) -> Iterator[Finding]:
        yield from at_slots(
            self._new((self.offsets < self.segment.base_offset) | (self.positions < 0)),
            lambda slot: self.entries.found("index-order", slot, "an entry with negative numbers"),
        )

    def _order(self) -> Iterator[Finding]:
        offsets, positions = self.offsets, self.positions
        back = (offsets[1:] <= offsets[:-1]) | (positions[1:] <= positions[:-1])
        back &= ~(self.bad[1:] | self.bad[:-1])
        yield from at_slots(back.nonzero()[0], self._not_above)

    def _not_above(self, slot: int) -> Finding:
        sentence = (
            f"the entry (offset {self.offsets[slot + 1]} at {self.positions[slot + 1]}) is not above the one"
            f" before it (offset {self.offsets[slot]} at {self.positions[slot]})"
        )
        return self.entries.findings.not_above("index-order", slot, sentence)

    def _ends(self) -> Iterator[Finding]:
        """Report entries beyond the segment's end; a live log may have grown since it was read."""
        behind = self.positions >= looked_at(self.segment)
        if self.segment.partition.is_live and self.segment.is_active:
            self.bad |= behind
            return
        yield from at_slots(
            self._new(behind),
            lambda slot: self.entries.found(
                "index-past-end",
                slot,
                f"the entry points to position {self.positions[slot]}, but the segment ends at {self.segment.end}",
                expected=f"below {self.segment.end}",
                found=int(self.positions[slot]),
            ),
        )

    def _against(self, rows: Table, slots: Table, reached: Table) -> None:
        """Compare entries with the batches they point to; `reached` is the largest offset before each row."""
        if not len(slots):
            return
        row = rows["position"].searchsorted(self.positions[slots], "right") - 1
        inside = row >= 0
        slots, row = slots[inside], row[inside]
        offsets, positions = self.offsets[slots], self.positions[slots]
        exact = rows["position"][row] == positions
        starts, ends = damaged_spans(self.segment)
        lost = ~exact & within(positions, starts, ends)
        self.contradictions.note(
            slots, row, ~exact & ~lost, _Contradiction.NO_BATCH, rows["position"]
        )
        misses = exact & (reached[row] >= offsets)
        self.contradictions.note(slots, row, misses, _Contradiction.MISSES, reached)
        last, base = rows["last_offset"], rows["base_offset"]
        below = exact & ~misses & (offsets < last[row])
        below &= ~self._may_be_inside(rows, row, offsets)
        self.contradictions.note(slots, row, below, _Contradiction.OTHER_OFFSET, base, last)
        later = exact & ~misses & (offsets > last[row])
        self._wait_for(slots[later])

    @staticmethod
    def _may_be_inside(rows: Table, row: Table, offsets: Table) -> npt.NDArray[np.bool_]:
        """Return whether the offset may be inside the batch: older compaction indexed the last remaining record's offset."""
        base, held = rows["base_offset"], rows["record_count"]
        shrunk = (held >= 0) & (held < rows["last_offset"] - base + 1)
        inside: npt.NDArray[np.bool_] = shrunk[row] & (offsets >= base[row])
        return inside

    def _wait_for(self, slots: Table) -> None:
        if len(slots):
            pending = np.concatenate((self.pending, slots))
            self.pending = pending[np.argsort(self.offsets[pending], kind="stable")]

    def _resolve(self, rows: Table, disordered: bool) -> None:
        """Resolve the slots that wait for later batches, as far as `rows` reach."""
        if not len(self.pending):
            return
        offsets = self.offsets[self.pending]
        last = np.maximum.accumulate(rows["last_offset"])
        count = int(offsets.searchsorted(last[-1], "right"))
        slots, self.pending = self.pending[:count], self.pending[count:]
        row = last.searchsorted(offsets[:count], "left")
        known = rows["base_offset"][row] <= offsets[:count]
        if not disordered and not self.segment.had_damage:
            self.contradictions.note_no_offset(slots[~known])

    def _new(self, chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        slots = (chosen & ~self.bad).nonzero()[0]
        self.bad |= chosen
        return slots
