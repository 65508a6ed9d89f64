"""Searches for segments of a view by base offset, without creating all LogSegments: a long log has very many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from engine.log.log_view import LogView
from engine.log.segment.log_segment import LogSegment
from engine.units import Offset


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
