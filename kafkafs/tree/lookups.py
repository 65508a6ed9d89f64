"""Look-ups in a log's view: segments by base offset, and offsets of the ranges and periods in names of the tree.

Segments are searched in the list of base offsets, without creating all LogSegments: a long log has very many.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_bound import LogBound, LogRange
from engine.log.view.log_view import LogView
from engine.units import Offset
from kafkafs.tree.path_names import OffsetRange, Period


def segment_with_base(view: LogView, base: Offset) -> LogSegment | None:
    """Return the segment with exactly this base offset."""
    place = bisect_left(view.base_offsets, base)
    if place == len(view.base_offsets) or view.base_offsets[place] != base:
        return None
    return view.segment_at(place)


def next_base(view: LogView, base: Offset) -> Offset | None:
    """Return the first base offset above an offset; None after the last segment."""
    place = bisect_right(view.base_offsets, base)
    return view.base_offsets[place] if place < len(view.base_offsets) else None


def end_offset(view: LogView, base: Offset) -> Offset:
    """Return the end offset of the segment with a base offset: the next base offset, or the log end."""
    following = next_base(view, base)
    return view.log_end_offset if following is None else following


def first_on_disk(view: LogView) -> Offset:
    """Return the first segment's base offset, which can be below the log start; the log start without segments."""
    return view.base_offsets[0] if view.base_offsets else view.log_start_offset


def offsets_of_range(view: LogView, offsets: OffsetRange) -> tuple[Offset, Offset]:
    """Return the range as [start, end) within the log; start == end if they do not overlap."""
    return offsets.within(view.log_start_offset, view.log_end_offset)


def offsets_of_period(view: LogView, period: Period) -> tuple[Offset, Offset]:
    """Return the offsets from the first record at or after the period's start up to the first at or after its end.

    "First" is in offset order; without such a record it is the log end. Control records do not count: a
    transaction's marker has the broker's clock, and would empty the period of records with older times.
    """
    bounds = (
        None if ms is None else LogBound(timestamp=ms) for ms in (period.start_ms, period.end_ms)
    )
    return LogRange(*bounds).offsets_in(view, view.log_start_offset, view.log_end_offset)
