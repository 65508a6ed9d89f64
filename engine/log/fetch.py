"""Reading as a fetch request does: bytes of whole batches from an offset on, up to where a reader may see."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from engine.errors import OffsetOutOfRangeError
from engine.log.log_offset_metadata import is_offset_only
from engine.log.segment.fetched_records import NO_RECORDS, WHOLE, FetchedRecords
from engine.units import LogOffsetMetadata, Offset, Position

if TYPE_CHECKING:
    from engine.log.log_view import LogView
    from engine.log.segment.log_segment import LogSegment


class FetchIsolation(Enum):
    """Up to where a reader sees."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


def upper_bound(view: LogView, isolation: FetchIsolation) -> Offset:
    """The first offset that a reader does not see."""
    if isolation is FetchIsolation.LOG_END:
        return view.log_end_offset
    if isolation is FetchIsolation.HIGH_WATERMARK:
        return view.high_watermark
    return view.first_unstable_offset(view.high_watermark)


def read_up_to(
    view: LogView,
    start_offset: Offset,
    max_size: int,
    bound: LogOffsetMetadata,
    *,
    at_least_one: bool = False,
) -> FetchedRecords:
    """Records from the first batch on that reaches an offset, in one segment.

    Args:
        view: the log.
        start_offset: where to begin.
        max_size: bytes to give at most.
        bound: where to stop; without a position nothing is given that could lie above its offset.
        at_least_one: give the first batch whole, whatever its size.

    Raises:
        OffsetOutOfRangeError: the log begins above or ends below the offset.
        ValueError: `max_size` is negative.
    """
    if start_offset > view.log_end_offset or view.segment_for(start_offset) is None:
        raise OffsetOutOfRangeError(
            f"{view.name} has offsets {view.log_start_offset} to {view.log_end_offset},"
            f" not {start_offset}"
        )
    if start_offset == bound.offset:
        return FetchedRecords(bound, NO_RECORDS)
    if start_offset > bound.offset:
        return FetchedRecords(offset_metadata(view, start_offset), NO_RECORDS)
    for segment in view.segments_from(start_offset):
        fetched = segment.read(
            start_offset,
            max_size=max_size,
            max_position=_max_position(segment, bound),
            at_least_one=at_least_one,
        )
        if fetched is not None:
            return fetched
    return FetchedRecords(offset_metadata(view, view.log_end_offset), NO_RECORDS)


def offset_metadata(view: LogView, offset: Offset) -> LogOffsetMetadata:
    """An offset with its segment and position; at the log end, where the next batch will be.

    In a gap it is where the batch after the gap starts.
    """
    if offset < view.log_end_offset:
        for segment in view.segments_from(offset):
            found = segment.locate(offset)
            if found is not None:
                return LogOffsetMetadata(offset, segment.base_offset, found.position)
    active = view.active_segment
    if active is None:
        return LogOffsetMetadata(offset)
    return LogOffsetMetadata(offset, active.base_offset, active.end)


def _max_position(segment: LogSegment, bound: LogOffsetMetadata) -> Position | None:
    """Up to where a segment may be read; None when that is not known."""
    if segment.base_offset < bound.segment_base_offset:
        return WHOLE
    if segment.base_offset == bound.segment_base_offset and not is_offset_only(bound):
        return bound.position
    return None
