"""What a fetch takes of one segment: a slice of its records file, from a batch that was found up to a bound."""

from __future__ import annotations

from typing import NamedTuple

from engine.index.transaction_index import AbortedTxn
from engine.log.segment.log_offset_metadata import is_offset_only
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT64, BatchPosition, LogOffsetMetadata, Offset, Position

WHOLE: Position = MAX_INT64
"""As a position to read up to: as far as the segment goes."""
EMPTY_RECORDS = MemoryRecords(b"")


class FetchDataInfo(NamedTuple):
    """Batches as they lie in one segment.

    Attributes:
        fetch_offset_metadata: the first batch's base offset, its segment and its position there.
        records: the bytes, which may end inside a batch.
        first_entry_incomplete: whether not even the first batch fits into the size asked for.
        aborted_transactions: those that touch the records; None when they were not asked for.
    """

    fetch_offset_metadata: LogOffsetMetadata
    records: MemoryRecords | FileRecords = EMPTY_RECORDS
    first_entry_incomplete: bool = False
    aborted_transactions: list[AbortedTxn] | None = None

    @classmethod
    def empty(cls, fetch_offset: Offset) -> FetchDataInfo:
        """Return nothing, from an offset whose place is not known."""
        return cls(LogOffsetMetadata(fetch_offset))


def fetch_slice(
    records: FileRecords,
    base_offset: Offset,
    found: BatchPosition | None,
    max_size: int,
    max_position: Position | None = WHOLE,
    *,
    min_one_message: bool = False,
) -> FetchDataInfo | None:
    """Take batches of a segment from one on that was found; None when none was.

    Args:
        records: all batches of the segment.
        base_offset: of the segment.
        found: the first batch.
        max_size: bytes to give at most.
        max_position: where to stop in the file; None when that is not known: no bytes come.
        min_one_message: give the first batch whole, whatever its size.

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
    # Where offsets go back on disk, a bound may lie before the first batch.
    part = records.slice(found.position, max(size, 0))
    return FetchDataInfo(begin, part, first_entry_incomplete=most < found.size)


def position_of_bound(base_offset: Offset, bound: LogOffsetMetadata) -> Position | None:
    """Return up to where the segment of a base offset may be read; None when that is not known."""
    if base_offset < bound.segment_base_offset:
        return WHOLE
    if base_offset == bound.segment_base_offset and not is_offset_only(bound):
        return bound.position
    return None
