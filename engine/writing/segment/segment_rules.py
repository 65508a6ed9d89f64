"""Rules of a segment to read its records and indexes: ours; those of a broker differ, also by version."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine import kernel
from engine.disk.disk import Disk
from engine.errors import CorruptRecordError
from engine.record.file_records import FileRecords
from engine.record.frame_walk import walk_frames
from engine.record.log_input_stream import Walk, walk_batches
from engine.units import MAX_INT32, BatchPosition, Offset, Position
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.segment.writable_file_records import WritableFileRecords

_SCRATCH = 256


class SegmentRules(NamedTuple):
    """Rules of a segment for files that may be damaged.

    Attributes:
        walk: yields the batches of the records file.
        find: returns the first batch that ends at or above an offset, from a position on; None without one.
        check_transactions: raises CorruptIndexError for a transaction index that contradicts itself.
        wrap: returns the offset for the sum of an offset and 1, also for the largest offset.
        smallest_base: smallest base offset of a segment.
    """

    walk: Walk
    find: Callable[
        [WritableFileRecords, WritableOffsetIndex, Offset, Position], BatchPosition | None
    ]
    check_transactions: Callable[[WritableTransactionIndex, Disk], None]
    wrap: Callable[[int], Offset]
    smallest_base: Offset = 0


def find_batch(
    records: WritableFileRecords, index: WritableOffsetIndex, offset: Offset, start: Position
) -> BatchPosition | None:
    """Return the first batch that ends at or above `offset`; None without one.

    The kernel finds it. Behind a batch that the kernel does not know, the lengths lead to it.
    """
    begin = max(index.lookup(offset).position, start)
    fd, end, scratch = records.fileno(), records.end, bytearray(_SCRATCH)
    try:
        found = kernel.locate(fd, begin, end, offset, scratch, largest=MAX_INT32)
    except CorruptRecordError:
        by_length = FileRecords(records.file, 0, end, True, walk=walk_frames)
        return by_length.search_for_offset(offset, begin)
    if found is None:
        return None
    position, size, base_offset, last_offset, *_ = found
    return BatchPosition(base_offset, last_offset, position, size)


OUR_SEGMENT_RULES = SegmentRules(
    walk_batches, find_batch, lambda index, _disk: index.sanity_check(), int
)
