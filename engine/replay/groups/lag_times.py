"""The lag of a group as time: how old the next record is that it has not read."""

from __future__ import annotations

from typing import NamedTuple

from engine.arrays import np
from engine.columns.batch_table import holds_control
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.units import NO_TIMESTAMP, Offset, Timestamp, TimestampOffset


class LagTime(NamedTuple):
    """Times of records behind a committed offset.

    Attributes:
        next_offset, next_timestamp: the next record at or above the offset; None without one, or without a timestamp.
        newest_timestamp: largest timestamp of the log; None without one.
        is_below_log_start: whether the offset is below the log start: the records up to there are gone for the group.
    """

    next_offset: Offset | None
    next_timestamp: Timestamp | None
    newest_timestamp: Timestamp | None
    is_below_log_start: bool

    @property
    def behind(self) -> int | None:
        """Milliseconds from the next record to the newest one; 0 if everything is read, None if unknown."""
        if self.next_offset is None:
            return 0
        if self.next_timestamp is None or self.newest_timestamp is None:
            return None
        return max(self.newest_timestamp - self.next_timestamp, 0)

    def age(self, now: Timestamp) -> int | None:
        """Return the milliseconds from the next record to a time; None without such a record or timestamp."""
        return None if self.next_timestamp is None else max(now - self.next_timestamp, 0)


def lag_time(view: LogView, committed: Offset) -> LagTime:
    """Return the times of the records behind a committed offset.

    Raises OSError, UnsupportedCodecError.
    """
    found = next_record(view, committed)
    newest = view.max_timestamp
    return LagTime(
        None if found is None else found.offset,
        None if found is None or found.timestamp == NO_TIMESTAMP else found.timestamp,
        None if newest is None or newest.timestamp == NO_TIMESTAMP else newest.timestamp,
        committed < view.log_start_offset,
    )


def next_record(view: LogView, offset: Offset) -> TimestampOffset | None:
    """Return the first record at or above an offset that is no control record; None without one.

    Records of aborted transactions count. Raises OSError.
    """
    for _, item in view.runs(max(offset, view.log_start_offset), view.log_end_offset):
        if not isinstance(item, BatchRun):
            continue
        fits = (item.table["last_offset"] >= offset) & ~holds_control(item.table)
        for row in fits.nonzero()[0].tolist():
            columns = item.decoded(row, view.log.budgets)
            places = np.flatnonzero(columns.offset >= max(offset, view.log_start_offset))
            if len(places):
                at = int(places[0])
                return TimestampOffset(int(columns.timestamp[at]), int(columns.offset[at]))
        del item  # free it before the next read: a batch may be as large as the budget
    return None
