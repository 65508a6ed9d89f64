"""What an append needs to know of each batch, without an object per batch."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from engine.record.memory_records import MemoryRecords
from engine.units import Offset, Timestamp

BatchHead: TypeAlias = tuple[Offset, Timestamp, int]
"""Last offset, largest timestamp and bytes of a batch."""
Heads: TypeAlias = Iterable[BatchHead] | None
"""Those of some batches, if they are known."""

_HEAD = struct.Struct(">qi4xb6xi8xq")
_HEADER_SIZE = 61
_LOG_OVERHEAD = 12


def batch_heads(records: MemoryRecords) -> Iterator[BatchHead]:
    """The head of each whole batch.

    Raises:
        CorruptRecordError: the frame of a batch cannot be.
    """
    buffer = records.buffer
    end = len(buffer)
    position = 0
    while end - position >= _HEADER_SIZE:
        base, length, magic, delta, max_timestamp = _HEAD.unpack_from(buffer, position)
        size = length + _LOG_OVERHEAD
        if magic != 2 or not _HEADER_SIZE <= size <= end - position:
            break
        yield base + delta, max_timestamp, size
        position += size
    if position < end:
        for batch in records.slice(records.start + position, end - position).batches():
            yield batch.last_offset, batch.max_timestamp, batch.size
