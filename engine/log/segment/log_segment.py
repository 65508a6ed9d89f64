"""A segment for readers: look-ups by offset and by time.

An entry of the time index is a hint: a search starts at its batch when that batch has the entry's timestamp.
Otherwise the search starts at the segment's start, and the entry is added to the partition's problems.

Look-ups by time can leave out control records: a transaction's marker has the time of the broker's clock,
whatever the timestamps of its records. An index entry of a marker is then only an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.arrays import np
from engine.columns.batch_table import Problem, holds_control
from engine.errors import UnsupportedCodecError
from engine.log.segment.batch_search import LOOK_UP_CHUNK
from engine.log.segment.offset_look_ups import OffsetLookUps
from engine.log.segment.scan import CHUNK, BatchRun, tables
from engine.units import (
    MAX_INT64,
    NO_TIMESTAMP,
    FoundTimestamp,
    Offset,
    Position,
    Timestamp,
    TimestampOffset,
)

_MOST_STEPS_BACK = 3
_MOST_MARKERS = 64
"""Index entries to look at for one that is not a marker's."""


@dataclass(slots=True, eq=False, repr=False)
class LogSegment(OffsetLookUps):
    """One segment up to the end of its batches; immutable, safe from several threads.

    Args as for SegmentBytes. Look-ups raise FileNotFoundError once the file is gone, other OSError,
    SourceRefusedError.
    """

    # The largest timestamp, and the position that it is known up to.
    _largest: tuple[TimestampOffset, Position] | None = field(default=None, init=False)
    _largest_of_records: tuple[TimestampOffset, Position] | None = field(default=None, init=False)

    def grown_to(self, end: Position, tail_end: Position) -> LogSegment:
        """Return the same segment with more batches."""
        grown = LogSegment(self.files, end, tail_end, budgets=self.budgets)
        grown._largest = self._largest
        grown._largest_of_records = self._largest_of_records
        return grown

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of the first batch with it; (-1, base offset) without one."""
        return self.newest()

    def newest(self, *, records_only: bool = False) -> TimestampOffset:
        """Return `max_timestamp`, with `records_only` of batches that are not control batches."""
        if (stated := self.file.stated_end) is not None:
            return TimestampOffset(stated.max_timestamp, stated.next_offset - 1)
        known = self._largest_of_records if records_only else self._largest
        end = MAX_INT64 if self._end is None else self._end
        if known is None or known[1] < end:
            # A smaller segment is read faster than its indexes.
            if known is None and self.end > LOOK_UP_CHUNK:
                known = self._proven_record_entry() if records_only else self._proven_entry(None)
            known = self.largest_after(known, records_only=records_only), end
            if records_only:
                self._largest_of_records = known
            else:
                self._largest = known
        return known[0]

    def largest_after(
        self, before: tuple[TimestampOffset, Position] | None, *, records_only: bool = False
    ) -> TimestampOffset:
        """Return the largest timestamp, read on from the position that `before` is known up to."""
        nothing = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        largest, position = before or (nothing, 0)
        for table in tables(self.scan(position)):
            times = table["max_timestamp"]
            if records_only:
                times = np.where(holds_control(table), NO_TIMESTAMP, times)
            row = int(times.argmax())
            if times[row] > largest.timestamp:
                largest = TimestampOffset(int(times[row]), int(table["last_offset"][row]))
        return largest

    def find_timestamp(
        self, timestamp: Timestamp, start_offset: Offset, *, records_only: bool = False
    ) -> FoundTimestamp | None:
        """Return the first record, in offset order, at or after a time and at or above `start_offset`.

        Args:
            timestamp: time in milliseconds.
            start_offset: smallest offset to return.
            records_only: leave out control records.

        Raises:
            UnsupportedCodecError: the codec of a batch that may hold the record is not installed.
        """
        entry = self._proven_entry(timestamp)
        position = entry[1] if entry else 0
        if start_offset > self.base_offset:
            position = max(position, self.seek(start_offset).position)
        # Without an entry, as in an index of markers only, the search may be long.
        chunk = CHUNK if records_only and entry is None else LOOK_UP_CHUNK
        for item in self.scan(position, chunk=chunk):
            if not isinstance(item, BatchRun):
                continue
            fits = item.table["max_timestamp"] >= timestamp
            fits &= item.table["last_offset"] >= start_offset
            if records_only:
                fits &= ~holds_control(item.table)
            for row in fits.nonzero()[0].tolist():
                found = self._find_in_batch(item, row, timestamp, start_offset)
                if found is not None:
                    return found
            del item  # free it before the next read: a batch may be as large as the budget
        return None

    def _find_in_batch(
        self, run: BatchRun, row: int, timestamp: Timestamp, start_offset: Offset
    ) -> FoundTimestamp | None:
        columns = run.decoded(row, self.budgets)
        fits = ((columns.timestamp >= timestamp) & (columns.offset >= start_offset)).nonzero()[0]
        if len(fits):
            at = int(fits[0])
            epoch = int(run.table["leader_epoch"][row])
            return FoundTimestamp(int(columns.timestamp[at]), int(columns.offset[at]), epoch)
        for problem in columns.problems:
            if problem.code == Problem.CODEC_MISSING:
                raise UnsupportedCodecError(problem.detail)
            position = int(run.table["position"][row])
            self.files.problems.add("records", self.path, problem.detail, position=position)
        return None

    def _proven_entry(self, timestamp: Timestamp | None) -> tuple[TimestampOffset, Position] | None:
        """Return the time index's entry at or before a time (None: the last), and the position of its batch."""
        index = self.time_index()
        problems = self.files.problems
        try:
            entry = index.last_entry if timestamp is None else index.lookup(timestamp)
            for _ in range(_MOST_STEPS_BACK):
                if entry.timestamp == NO_TIMESTAMP:
                    return None
                landing = self.seek(entry.offset)
                if landing.batch is not None and landing.damage is None:
                    row = landing.batch[0]
                    if row["max_timestamp"] == entry.timestamp:
                        return entry, int(row["position"])
                if entry.offset < self.next_offset:  # else the entry is of a batch that came later
                    reason = (
                        f"no batch with offset {entry.offset} has the timestamp of the index entry"
                    )
                    problems.add("time_index", str(index.path), reason, expected=entry.timestamp)
                entry = index.lookup(entry.timestamp - 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            problems.add_error("time_index", str(index.path), error)
        return None

    def _proven_record_entry(self) -> tuple[TimestampOffset, Position] | None:
        """Return the time index's last entry that is not a control record's, and the position of its batch.

        No batch up to that position has a larger timestamp, control batches included.
        """
        index = self.time_index()
        try:
            entry = index.last_entry
            for _ in range(_MOST_MARKERS):
                if entry.timestamp == NO_TIMESTAMP:
                    return None
                landing = self.seek(entry.offset)
                batch = landing.batch
                if batch is not None and landing.damage is None:
                    is_proven = int(batch["max_timestamp"][0]) == entry.timestamp
                    if is_proven and not holds_control(batch)[0]:
                        return entry, int(batch["position"][0])
                entry = index.lookup(entry.timestamp - 1)
        except OSError:  # added to the problems by `_proven_entry`
            return None
        return None
