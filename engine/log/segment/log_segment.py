"""A segment as a reader sees it: look-ups by offset and by time.

The time index says where to begin. An entry is taken when the batch with its offset has its timestamp;
else the search begins at the segment's start, and the partition's problems say so.

Each question about time can be asked of records alone, without control records: a transaction's marker has the
broker's clock, whatever the time of its records. An entry of the index may be a marker's; it is then a bound only.
"""

from __future__ import annotations

import numpy as np

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.columns.batch_table import Problem, holds_control
from engine.errors import UnsupportedCodecError
from engine.log.segment.batch_search import LOOK_UP_CHUNK
from engine.log.segment.offset_look_ups import OffsetLookUps
from engine.log.segment.open_segments import SegmentFiles
from engine.log.segment.scan import CHUNK, BatchRun
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
"""Entries of an index that are looked at for one that is no marker's."""


class LogSegment(OffsetLookUps):
    """One segment up to where its batches end; never changes, safe from several threads.

    Args as for SegmentBytes. Look-ups raise FileNotFoundError once the file is gone, other OSError,
    SourceRefusedError.
    """

    __slots__ = ("_largest", "_largest_of_records")

    def __init__(
        self,
        files: SegmentFiles,
        end: Position | None = None,
        tail_end: Position | None = None,
        *,
        budgets: Budgets = DEFAULT_BUDGETS,
    ) -> None:
        super().__init__(files, end, tail_end, budgets=budgets)
        # The largest timestamp, and up to which position it is known.
        self._largest: tuple[TimestampOffset, Position] | None = None
        self._largest_of_records: tuple[TimestampOffset, Position] | None = None

    def grown_to(self, end: Position, tail_end: Position) -> LogSegment:
        """The same segment with more batches in it."""
        grown = LogSegment(self.files, end, tail_end, budgets=self.budgets)
        grown._largest = self._largest
        grown._largest_of_records = self._largest_of_records
        return grown

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the first batch that has it; (-1, base) if none."""
        return self.newest()

    def newest(self, *, records_only: bool = False) -> TimestampOffset:
        """`max_timestamp`, of control records too or not. Two threads may both read it."""
        known = self._largest_of_records if records_only else self._largest
        end = MAX_INT64 if self._end is None else self._end
        if known is None or known[1] < end:
            if (
                known is None and self.end > LOOK_UP_CHUNK
            ):  # a smaller one is read faster than its indexes
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
        """The largest timestamp, when it is known up to a position; read from there on."""
        nothing = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        largest, position = before or (nothing, 0)
        for item in self.scan(position):
            if isinstance(item, BatchRun):
                times = item.table["max_timestamp"]
                if records_only:
                    times = np.where(holds_control(item.table), NO_TIMESTAMP, times)
                row = int(times.argmax())
                if times[row] > largest.timestamp:
                    last = int(item.table["last_offset"][row])
                    largest = TimestampOffset(int(times[row]), last)
            del item  # before the next one is read: a batch may be as large as the budget
        return largest

    def find_timestamp(
        self, timestamp: Timestamp, start_offset: Offset, *, records_only: bool = False
    ) -> FoundTimestamp | None:
        """The first record, in offset order, at or after a time and at or above `start_offset`.

        With `records_only`, no control record.

        Raises:
            UnsupportedCodecError: the record may lie in a batch whose codec is not installed.
        """
        entry = self._proven_entry(timestamp)
        position = entry[1] if entry else 0
        if start_offset > self.base_offset:
            position = max(position, self.seek(start_offset).position)
        # Without an entry, as where all of them are markers', the way may be long.
        chunk = CHUNK if records_only and entry is None else LOOK_UP_CHUNK
        for item in self.scan(position, chunk=chunk):
            if not isinstance(item, BatchRun):
                continue
            fits = item.table["max_timestamp"] >= timestamp
            fits &= item.table["last_offset"] >= start_offset
            if records_only:
                fits &= ~holds_control(item.table)
            for row in np.flatnonzero(fits).tolist():
                found = self._find_in_batch(item, row, timestamp, start_offset)
                if found is not None:
                    return found
            del item  # before the next one is read: a batch may be as large as the budget
        return None

    def _find_in_batch(
        self, run: BatchRun, row: int, timestamp: Timestamp, start_offset: Offset
    ) -> FoundTimestamp | None:
        columns = kernel.decode(
            run.buffer,
            run.table,
            row,
            row + 1,
            start_position=run.start_position,
            budgets=self.budgets,
        )
        fits = np.flatnonzero((columns.timestamp >= timestamp) & (columns.offset >= start_offset))
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
        """The time index's entry at or before a time (None: the last), and where its batch starts."""
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
                if entry.offset < self.next_offset:  # else a growing segment is known to end before
                    reason = (
                        f"no batch with offset {entry.offset} has the timestamp that the index says"
                    )
                    problems.add("time_index", str(index.path), reason, expected=entry.timestamp)
                entry = index.lookup(entry.timestamp - 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            problems.add_error("time_index", str(index.path), error)
        return None

    def _proven_record_entry(self) -> tuple[TimestampOffset, Position] | None:
        """The time index's last entry that is no control record's, and where its batch starts.

        No batch up to there has a larger timestamp, a marker's neither.
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
        except OSError:  # told where the whole segment's largest timestamp is asked for
            return None
        return None
