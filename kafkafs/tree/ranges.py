"""Offset ranges of a log for the ranges and periods in names of the tree."""

from __future__ import annotations

from engine.log.log_view import LogView
from engine.units import Offset, Timestamp
from kafkafs.tree.path_names import OffsetRange, Period


def offsets_of_range(view: LogView, offsets: OffsetRange) -> tuple[Offset, Offset]:
    """Return the range as [start, end) within the log; start == end if they do not overlap."""
    return offsets.within(view.log_start_offset, view.log_end_offset)


def offsets_of_period(view: LogView, period: Period) -> tuple[Offset, Offset]:
    """Return the offsets from the first record at or after the period's start up to the first at or after its end.

    "First" is in offset order; without such a record it is the log end. Control records do not count: a
    transaction's marker has the broker's clock, and would empty the period of records with older times.
    """
    start = view.log_start_offset
    if period.start_ms is not None:
        start = offset_at(view, period.start_ms)
    end = view.log_end_offset
    if period.end_ms is not None:
        end = offset_at(view, period.end_ms)
    return start, max(start, end)


def offset_at(view: LogView, timestamp: Timestamp) -> Offset:
    """Return the offset of the first data record at or after an instant, else the log end."""
    found = view.offset_for_time(timestamp, records_only=True)
    return view.log_end_offset if found is None else found.offset
