"""Compare a time index with its segment: every entry, in time linear in both.

An entry has a batch's max timestamp and an offset of that batch; no batch before it has a larger timestamp. The last
entry of a complete segment has its largest timestamp: a broker chooses the segment by it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from engine.check.files.index_entries import (
    EntryFindings,
    IndexEntries,
    Table,
    read_entries,
    size_findings,
    unreadable,
)
from engine.check.partition_under_check import SegmentUnderCheck
from engine.check.rules.finding import Finding
from engine.check.rules.finding_limit import at_slots
from engine.files.file_names import time_index_name
from engine.index.time_index import ENTRY
from engine.topics.topic_names import CLUSTER_METADATA


def check_time_index(segment: SegmentUnderCheck) -> Iterator[Finding]:
    """Yield findings about a segment's time index."""
    name = time_index_name(segment.base_offset)
    try:
        entries = read_entries(segment, name, ENTRY.dtype)
    except OSError as error:
        yield from unreadable(segment, name, error)
        return
    found = segment.partition.found
    if entries is None:
        if segment.partition.view.log.only is None and segment.max_timestamp >= 0:
            yield found("time-index-missing", name, "the file is missing")
        return
    yield from size_findings(segment, name, entries, ENTRY.size)
    if len(entries.table):
        yield from _TimeIndexCheck(segment, name, entries.table).run()
    elif segment.max_timestamp >= _least(entries) and is_complete(segment):
        yield found(
            "time-index-missing",
            name,
            f"the file has no entries, but the segment has timestamps up to {segment.max_timestamp}",
        )


def _least(entries: IndexEntries) -> int:
    """Return the least timestamp with a visible entry: timestamp 0 at the base offset is twelve zeros, like padding."""
    return 1 if entries.byte_size else 0


def is_complete(segment: SegmentUnderCheck) -> bool:
    """Return whether the segment's largest timestamp must be in its time index.

    From 4.4 on, a clean stop leaves the active indexes of the metadata log preallocated and without the last
    time entry: only LogManager prepares active segments for their close, and it does not have that log. Each
    start recovers all of the metadata log and makes its indexes again.
    """
    partition = segment.partition
    if not partition.is_served:
        return False
    if not segment.is_active:
        return True
    is_metadata = partition.partition.topic == CLUSTER_METADATA
    return partition.has_clean_shutdown and not partition.is_live and not is_metadata


class _TimeIndexCheck:
    def __init__(self, segment: SegmentUnderCheck, name: str, table: Table) -> None:
        self.segment = segment
        self.name = name
        self.times = table["timestamp"].astype("i8")
        self.offsets = table["relative_offset"].astype("i8") + segment.base_offset
        self.entries = EntryFindings(segment, name, ENTRY.size, self.offsets)
        self.bad = np.zeros(len(table), np.bool_)

    def run(self) -> Iterator[Finding]:
        yield from self._order()
        order = np.argsort(self.offsets, kind="stable")
        order = order[~self.bad[order]]
        first, reached, largest = 0, -1, -1
        disordered = False
        for rows in self.segment.chunks():
            last = np.maximum.accumulate(np.maximum(rows["last_offset"], reached))
            before = np.concatenate(([reached], last[:-1]))
            disordered |= bool((rows["base_offset"] <= before).any())
            count = first + int(self.offsets[order[first:]].searchsorted(last[-1], "right"))
            running = np.maximum.accumulate(np.concatenate(([largest], rows["max_timestamp"])))
            if not disordered:
                yield from self._against(rows, order[first:count], running[:-1])
            first, reached, largest = count, int(last[-1]), int(running[-1])
        yield from self._past_end(order[first:])
        yield from self._last(largest)

    def _order(self) -> Iterator[Finding]:
        negative = self.offsets < self.segment.base_offset
        yield from at_slots(
            negative.nonzero()[0],
            lambda slot: self.entries.found(
                "time-index-order", slot, "an entry with a negative relative offset"
            ),
        )
        self.bad |= negative
        times, offsets = self.times, self.offsets
        back = (times[1:] <= times[:-1]) | (offsets[1:] < offsets[:-1])
        back &= ~(self.bad[1:] | self.bad[:-1])
        yield from at_slots(back.nonzero()[0], self._not_above)

    def _not_above(self, slot: int) -> Finding:
        sentence = (
            f"the entry ({self.times[slot + 1]}, offset {self.offsets[slot + 1]}) is not above the one"
            f" before it ({self.times[slot]}, offset {self.offsets[slot]})"
        )
        return self.entries.not_above("time-index-order", slot, sentence)

    def _against(self, rows: Table, slots: Table, before: Table) -> Iterator[Finding]:
        """Compare entries with the batches of their offsets; `before` is the largest timestamp before each row."""
        if not len(slots):
            return
        row = rows["last_offset"].searchsorted(self.offsets[slots], "left")
        known = rows["base_offset"][row] <= self.offsets[slots]
        misses = before[row] > self.times[slots]
        wrong = known & ~misses & (rows["max_timestamp"][row] != self.times[slots])
        yield from at_slots(
            misses.nonzero()[0],
            lambda at: self._missing(int(slots[at]), int(before[row[at]])),
        )
        yield from at_slots(
            wrong.nonzero()[0],
            lambda at: self._mismatch(int(slots[at]), int(rows["max_timestamp"][row[at]])),
        )
        if not self.segment.had_damage:
            yield from at_slots(
                slots[~known & ~misses],
                lambda slot: self.entries.found(
                    "time-index-entry", slot, f"no batch has offset {self.offsets[slot]}"
                ),
            )

    def _past_end(self, slots: npt.NDArray[np.int64]) -> Iterator[Finding]:
        segment = self.segment
        if segment.partition.is_live and segment.is_active:
            return
        if self.segment.had_damage:
            return
        yield from at_slots(
            slots,
            lambda slot: self.entries.found(
                "index-past-end",
                slot,
                f"the entry has offset {self.offsets[slot]}, but the segment ends at {segment.next_offset}",
                expected=f"below {segment.next_offset}",
                found=int(self.offsets[slot]),
            ),
        )

    def _last(self, largest: int) -> Iterator[Finding]:
        """Check the last entry: a broker chooses the segment for a look-up by it."""
        if self.bad[-1] or not is_complete(self.segment) or self.times[-1] >= largest:
            return
        slot = len(self.times) - 1
        yield self.segment.partition.found(
            "time-index-misses-records",
            self.name,
            f"the last entry has timestamp {self.times[-1]}, but the segment's largest is {largest}:"
            " look-ups of times in between skip the segment",
            position=slot * ENTRY.size,
            length=ENTRY.size,
            first_offset=self.segment.base_offset,
            next_offset=self.segment.next_offset,
            expected=largest,
            found=int(self.times[-1]),
        )

    def _missing(self, slot: int, before: int) -> Finding:
        return self.entries.found(
            "time-index-misses-records",
            slot,
            f"look-ups of times from {self.times[slot]} to {before} begin at offset {self.offsets[slot]},"
            f" after a batch with timestamp {before}",
            expected=f"at least {before}",
            found=int(self.times[slot]),
        )

    def _mismatch(self, slot: int, actual: int) -> Finding:
        return self.entries.found(
            "time-index-entry",
            slot,
            f"the entry has timestamp {self.times[slot]}, but the batch with offset {self.offsets[slot]} has {actual}",
            expected=actual,
            found=int(self.times[slot]),
        )
