"""Look-ups by time in one segment: its largest timestamp, and the first record at or after a time.

The time index says where to begin. An entry is taken when the batch with its offset has its timestamp;
else the search begins at the segment's start, and the partition's problems say so.

Each question can be asked of records alone, without control records: a transaction's marker has the broker's
clock, whatever the time of its records. An entry of the index may be a marker's; it is then a bound only.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.columns.batch_table import Problem
from engine.errors import UnsupportedCodecError
from engine.log.segment.scan import CHUNK, BatchRun
from engine.record.attributes import CONTROL_MASK
from engine.units import (
    NO_TIMESTAMP,
    FoundTimestamp,
    Offset,
    Position,
    Timestamp,
    TimestampOffset,
)

if TYPE_CHECKING:
    from engine.log.log_view import LogView
    from engine.log.segment.log_segment import LogSegment

_CHUNK = 64 * 1024
_MOST_STEPS_BACK = 3
_MOST_MARKERS = 64
"""Entries of an index that are looked at for one that is no marker's."""
FACTS = ("max_timestamp", "max_record_timestamp")
"""What a segment that grows learns on from what it knew."""


def first_batch_timestamp(segment: LogSegment) -> Timestamp | None:
    """The first good batch's largest timestamp; None when there is no batch or no timestamp."""
    for item in segment.scan(chunk=_CHUNK):
        if isinstance(item, BatchRun):
            found = int(item.table["max_timestamp"][0])
            return found if found >= 0 else None
    return None


def max_record_timestamp(segment: LogSegment) -> Timestamp:
    """The largest timestamp of batches that hold no control records; -1 if there is none."""
    before = segment.fact("max_record_timestamp_before", lambda: None)
    found = segment.fact(
        "max_record_timestamp", lambda: max_timestamp(segment, before, records_only=True)
    )
    return found.timestamp


def newest_in(segment: LogSegment, records_only: bool) -> Timestamp:
    """The largest timestamp of a segment, of control records too or not; -1 if there is none."""
    return max_record_timestamp(segment) if records_only else segment.max_timestamp.timestamp


def max_timestamp(
    segment: LogSegment,
    before: tuple[TimestampOffset, Position] | None = None,
    *,
    records_only: bool = False,
) -> TimestampOffset:
    """The largest timestamp and the last offset of the first batch that has it; (-1, base) if none.

    Args:
        segment: where to look.
        before: what is known up to a position, as of an earlier state of the segment.
        records_only: leave out control records.
    """
    nothing = TimestampOffset(NO_TIMESTAMP, segment.base_offset)
    if before is None and segment.end > _CHUNK:  # a smaller one is read faster than its indexes
        before = proven_record_entry(segment) if records_only else proven_entry(segment, None)
    largest, position = before or (nothing, 0)
    for item in segment.scan(position):
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


def proven_entry(
    segment: LogSegment, timestamp: Timestamp | None
) -> tuple[TimestampOffset, Position] | None:
    """The time index's entry at or before a time (None: the last), and where its batch starts."""
    index = segment.time_index()
    problems = segment.files.problems
    try:
        entry = index.last_entry if timestamp is None else index.lookup(timestamp)
        for _ in range(_MOST_STEPS_BACK):
            if entry.timestamp == NO_TIMESTAMP:
                return None
            landing = segment.seek(entry.offset)
            if landing.batch is not None and landing.damage is None:
                row = landing.batch[0]
                if row["max_timestamp"] == entry.timestamp:
                    return entry, int(row["position"])
            if entry.offset < segment.next_offset:  # else a growing segment is known to end before
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


def proven_record_entry(segment: LogSegment) -> tuple[TimestampOffset, Position] | None:
    """The time index's last entry that is no control record's, and where its batch starts.

    No batch up to there has a larger timestamp, a marker's neither.
    """
    index = segment.time_index()
    try:
        entry = index.last_entry
        for _ in range(_MOST_MARKERS):
            if entry.timestamp == NO_TIMESTAMP:
                return None
            landing = segment.seek(entry.offset)
            batch = landing.batch
            if batch is not None and landing.damage is None:
                is_proven = int(batch["max_timestamp"][0]) == entry.timestamp
                if is_proven and not holds_control(batch)[0]:
                    return entry, int(batch["position"][0])
            entry = index.lookup(entry.timestamp - 1)
    except OSError:  # told where the whole segment's largest timestamp is asked for
        return None
    return None


def holds_control(table: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Which batches of a table hold control records."""
    found: npt.NDArray[np.bool_] = (table["magic"] >= 2) & (table["attributes"] & CONTROL_MASK != 0)
    return found


def find_timestamp(
    segment: LogSegment, timestamp: Timestamp, start_offset: Offset, *, records_only: bool = False
) -> FoundTimestamp | None:
    """The first record, in offset order, at or after a time and at or above `start_offset`.

    With `records_only`, no control record.

    Raises:
        UnsupportedCodecError: the record may lie in a batch whose codec is not installed.
    """
    entry = proven_entry(segment, timestamp)
    position = entry[1] if entry else 0
    if start_offset > segment.base_offset:
        position = max(position, segment.seek(start_offset).position)
    # Without an entry, as where all of them are markers', the way may be long.
    chunk = CHUNK if records_only and entry is None else _CHUNK
    for item in segment.scan(position, chunk=chunk):
        if not isinstance(item, BatchRun):
            continue
        fits = item.table["max_timestamp"] >= timestamp
        fits &= item.table["last_offset"] >= start_offset
        if records_only:
            fits &= ~holds_control(item.table)
        for row in np.flatnonzero(fits).tolist():
            found = _find_in_batch(segment, item, row, timestamp, start_offset)
            if found is not None:
                return found
        del item  # before the next one is read: a batch may be as large as the budget
    return None


def _find_in_batch(
    segment: LogSegment, run: BatchRun, row: int, timestamp: Timestamp, start_offset: Offset
) -> FoundTimestamp | None:
    columns = kernel.decode(
        run.buffer,
        run.table,
        row,
        row + 1,
        start_position=run.start_position,
        budgets=segment.budgets,
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
        segment.files.problems.add("records", segment.path, problem.detail, position=position)
    return None


def max_timestamp_of(view: LogView) -> FoundTimestamp | None:
    """The first record of a log that has the largest timestamp; None when no record has one."""
    first = max(bisect_right(view.base_offsets, view.log_start_offset) - 1, 0)
    best: tuple[Timestamp, int] | None = None
    for place in range(first, len(view)):
        segment = view.segment_at(place)
        largest = segment.max_timestamp
        if place == first and segment.base_offset < view.log_start_offset:
            position = segment.seek(view.log_start_offset).position
            nothing = TimestampOffset(NO_TIMESTAMP, segment.base_offset)
            largest = max_timestamp(segment, (nothing, position))
        if largest.timestamp >= 0 and (best is None or largest.timestamp > best[0]):
            best = largest.timestamp, place
    if best is None:
        return None
    return view.segment_at(best[1]).find_timestamp(best[0], view.log_start_offset)
