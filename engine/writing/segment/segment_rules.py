"""The rules by which a segment reads its records and its indexes: ours; a broker's differ, also by its version."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine import kernel
from engine.record.log_input_stream import Walk, walk_batches
from engine.units import MAX_INT32, BatchPosition, Offset, Position
from engine.writing.disk import Disk
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.records.writable_file_records import WritableFileRecords

_SCRATCH = 256


class SegmentRules(NamedTuple):
    """What a segment makes of files that may be damaged.

    Attributes:
        walk: finds the batches of the records file.
        find: finds the first batch that reaches an offset, from a position on or further; None when all lie below.
        check_transactions: raises CorruptIndexError for a transaction index that contradicts itself.
        wrap: turns the number after an offset into an offset, also after the largest offset of all.
    """

    walk: Walk
    find: Callable[
        [WritableFileRecords, WritableOffsetIndex, Offset, Position], BatchPosition | None
    ]
    check_transactions: Callable[[WritableTransactionIndex, Disk], None]
    wrap: Callable[[int], Offset]


def find_batch(
    records: WritableFileRecords, index: WritableOffsetIndex, offset: Offset, start: Position
) -> BatchPosition | None:
    """Find the first batch whose last offset is `offset` or more, in the kernel; None when all lie below."""
    begin = max(index.lookup(offset).position, start)
    scratch = bytearray(_SCRATCH)
    found = kernel.locate(records.fileno(), begin, records.end, offset, scratch, largest=MAX_INT32)
    if found is None:
        return None
    position, size, base_offset, last_offset, *_ = found
    return BatchPosition(base_offset, last_offset, position, size)


OUR_SEGMENT_RULES = SegmentRules(
    walk_batches, find_batch, lambda index, _disk: index.sanity_check(), int
)
