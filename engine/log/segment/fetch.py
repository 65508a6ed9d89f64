"""Read as a fetch request does: the bytes of whole batches from an offset on, up to a bound.

`LogView` and the log that is written both fetch through `read_up_to`, and their segments through `fetch_slice`.
An offset may come without its segment and position, as one from a checkpoint does until it is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar

from engine.index.transaction_index import AbortedTxn
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT64, BatchPosition, LogOffsetMetadata, Offset, Position

WHOLE: Position = MAX_INT64
"""The position to read up to for the whole segment."""
EMPTY_RECORDS = MemoryRecords(b"")
UNKNOWN_OFFSET_METADATA = LogOffsetMetadata(-1)


class FetchIsolation(Enum):
    """The bound that a reader reads up to."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "last stable offset"


class FetchDataInfo(NamedTuple):
    """Batches of one segment.

    Attributes:
        fetch_offset_metadata: base offset of the first batch, its segment and its position there.
        records: the bytes, which may end inside a batch.
        first_entry_incomplete: whether the first batch is larger than the size asked for.
        aborted_transactions: those that touch the records; None when they were not asked for.
    """

    fetch_offset_metadata: LogOffsetMetadata
    records: MemoryRecords | FileRecords = EMPTY_RECORDS
    first_entry_incomplete: bool = False
    aborted_transactions: list[AbortedTxn] | None = None

    @classmethod
    def empty(cls, fetch_offset: Offset) -> FetchDataInfo:
        """Return no records, for an offset without a known position."""
        return cls(LogOffsetMetadata(fetch_offset))


# One segment


def fetch_slice(
    records: FileRecords,
    base_offset: Offset,
    found: BatchPosition | None,
    max_size: int,
    max_position: Position | None = WHOLE,
    *,
    min_one_message: bool = False,
) -> FetchDataInfo | None:
    """Return the batches of a segment from a given batch on; None without a batch.

    Args:
        records: all batches of the segment.
        base_offset: of the segment.
        found: the first batch to return.
        max_size: largest number of bytes to return.
        max_position: position in the file to stop at; None when it is not known: no bytes are returned.
        min_one_message: return the first batch whole, whatever its size.

    Raises:
        ValueError: `max_size` is negative.
    """
    if max_size < 0:
        raise ValueError(f"cannot read {max_size} bytes of {records.path}")
    if found is None:
        return None
    begin = LogOffsetMetadata(found.base_offset, base_offset, found.position)
    most = max(max_size, found.size) if min_one_message else max_size
    if most == 0 or max_position is None:
        return FetchDataInfo(begin)
    size = min(min(max_position, records.end) - found.position, most)
    # Where offsets go back in the file, the bound may be before the first batch.
    part = records.slice(found.position, max(size, 0))
    return FetchDataInfo(begin, part, first_entry_incomplete=most < found.size)


# The segments of a log


class FetchedSegment(Protocol):
    """The part of a segment that a fetch uses."""

    @property
    def base_offset(self) -> Offset:
        """Base offset of the segment."""

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        max_position: Position | None,
        min_one_message: bool,
    ) -> FetchDataInfo | None:
        """Return batches from the first that reaches an offset; None when all batches are below it."""


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
    """Read batches of one segment from the first that reaches an offset; return them and the segment.

    Args:
        segments_from: yields the segment that may hold an offset, and those after it.
        log_end: the next offset of the log, with its position.
        start_offset: at most the log end.
        max_size: largest number of bytes to return.
        bound: offset to stop at; without a position nothing is returned that could be above it.
        min_one_message: return the first batch whole, whatever its size.

    Raises:
        ValueError: `max_size` is negative.
    """
    if start_offset == bound.offset:
        return FetchDataInfo(bound), None
    if start_offset > bound.offset:
        return FetchDataInfo(offset_metadata(segments_from, log_end, start_offset)), None
    for segment in segments_from(start_offset):
        most = _position_of_bound(segment.base_offset, bound)
        fetched = segment.read(start_offset, max_size, most, min_one_message)
        if fetched is not None:
            return fetched, segment
    return FetchDataInfo(log_end), None


def _position_of_bound(base_offset: Offset, bound: LogOffsetMetadata) -> Position | None:
    """Return the position that a segment may be read up to; None when it is not known."""
    if base_offset < bound.segment_base_offset:
        return WHOLE
    if base_offset == bound.segment_base_offset and not is_offset_only(bound):
        return bound.position
    return None


def offset_metadata(
    segments_from: Callable[[Offset], Iterator[S]], log_end: LogOffsetMetadata, offset: Offset
) -> LogOffsetMetadata:
    """Return the position of the first batch that reaches an offset of the log.

    Below the log end there is none only if the log was cut off in the meantime: then the position is not known.
    """
    found = read_up_to(segments_from, log_end, offset, 1, log_end)[0].fetch_offset_metadata
    return LogOffsetMetadata(offset) if found is log_end and offset < log_end.offset else found


# Offsets with their segment and position


def is_offset_only(metadata: LogOffsetMetadata) -> bool:
    """Return whether the segment and position of the offset are unknown."""
    return metadata.segment_base_offset == -1 and metadata.position == -1


def is_on_older_segment(metadata: LogOffsetMetadata, other: LogOffsetMetadata) -> bool:
    """Return whether the first offset is known to be in an earlier segment than the second."""
    if is_offset_only(metadata) or is_offset_only(other):
        return False
    return metadata.segment_base_offset < other.segment_base_offset


def is_on_same_segment(metadata: LogOffsetMetadata, other: LogOffsetMetadata) -> bool:
    """Return whether both offsets are known to be in one segment."""
    if is_offset_only(metadata) or is_offset_only(other):
        return False
    return metadata.segment_base_offset == other.segment_base_offset


def position_difference(metadata: LogOffsetMetadata, other: LogOffsetMetadata) -> int:
    """Return the bytes from the second offset to the first.

    Raises:
        ValueError: the offsets are in different segments, or a position is not known.
    """
    if is_offset_only(metadata) or is_offset_only(other):
        raise ValueError(f"the position of {metadata} or of {other} is not known")
    if not is_on_same_segment(metadata, other):
        raise ValueError(f"{metadata} and {other} are in different segments")
    return metadata.position - other.position
