"""Read the header fields of batches that an append needs, without an object per batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from engine.columns.batch_facts import BatchHead
from engine.record.batch_frame import HEADER, LOG_OVERHEAD
from engine.record.memory_records import MemoryRecords

Heads: TypeAlias = Iterable[BatchHead] | None
"""Heads of batches, None if unknown."""

_HEAD = HEADER.subset("base_offset", "length", "magic", "last_offset_delta", "max_timestamp")


def batch_heads(records: MemoryRecords) -> Iterator[BatchHead]:
    """Yield the head of each whole batch.

    Raises:
        CorruptRecordError: the frame of a batch is impossible.
    """
    buffer = records.buffer
    end = len(buffer)
    position = 0
    while end - position >= HEADER.size:
        base, length, magic, delta, max_timestamp = _HEAD.unpack_from(buffer, position)
        size = length + LOG_OVERHEAD
        if magic != 2 or not HEADER.size <= size <= end - position:
            break
        yield base + delta, max_timestamp, size
        position += size
    if position < end:
        for batch in records.slice(records.start + position, end - position).batches():
            yield batch.last_offset, batch.max_timestamp, batch.size
