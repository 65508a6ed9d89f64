"""Reading as a fetch request does: bytes of whole batches from an offset on, up to where a reader may see.

The same for a log that is looked at and for one that is written: both give their segments and their end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol, TypeVar

from engine.log.segment.fetched import FetchDataInfo, position_of_bound
from engine.units import LogOffsetMetadata, Offset, Position


class FetchIsolation(Enum):
    """Up to where a reader sees."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class FetchedSegment(Protocol):
    """What a fetch needs of a segment."""

    @property
    def base_offset(self) -> Offset:
        """The first offset that may be in it."""

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        max_position: Position | None,
        min_one_message: bool,
    ) -> FetchDataInfo | None:
        """Batches from the first on that reaches an offset; None when all offsets lie below."""


S = TypeVar("S", bound=FetchedSegment)


def read_up_to(
    segments_from: Callable[[Offset], Iterator[S]],
    log_end: LogOffsetMetadata,
    start_offset: Offset,
    max_size: int,
    bound: LogOffsetMetadata,
    *,
    min_one_message: bool = False,
) -> tuple[FetchDataInfo, S | None]:
    """Read batches of one segment, from the first batch on that reaches an offset, and return the segment.

    Args:
        segments_from: gives the segment that may hold an offset, and those after it.
        log_end: the offset that comes next, with its place.
        start_offset: where to begin; at most the log end.
        max_size: bytes to give at most.
        bound: where to stop; without a position nothing is given that could lie above its offset.
        min_one_message: give the first batch whole, whatever its size.

    Raises:
        ValueError: `max_size` is negative.
    """
    if start_offset == bound.offset:
        return FetchDataInfo(bound), None
    if start_offset > bound.offset:
        return FetchDataInfo(offset_metadata(segments_from, log_end, start_offset)), None
    for segment in segments_from(start_offset):
        most = position_of_bound(segment.base_offset, bound)
        fetched = segment.read(start_offset, max_size, most, min_one_message)
        if fetched is not None:
            return fetched, segment
    return FetchDataInfo(log_end), None


def offset_metadata(
    segments_from: Callable[[Offset], Iterator[S]], log_end: LogOffsetMetadata, offset: Offset
) -> LogOffsetMetadata:
    """Return the place of the first batch that reaches an offset of the log; at its end, the log end's."""
    return read_up_to(segments_from, log_end, offset, 1, log_end)[0].fetch_offset_metadata
