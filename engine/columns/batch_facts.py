"""Facts about the batches of one append, for a look at all of them at once."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from engine.coding.checksums import crc32c
from engine.coding.compression import LAST_CODEC
from engine.coding.layout import Buffer
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    CURRENT_MAGIC,
    HEAD,
    HEADER,
    LOG_OVERHEAD,
    SMALLEST_BATCH,
    SMALLEST_LENGTH,
    UP_TO_MAGIC,
)
from engine.units import MAX_INT32, MAX_INT64, NO_PRODUCER_ID, NO_TIMESTAMP, Offset, Timestamp

BatchHead: TypeAlias = tuple[Offset, Timestamp, int]
"""Last offset, largest timestamp and size in bytes of a batch."""
EpochStart: TypeAlias = tuple[int, Offset]
"""A leader epoch, and the base offset of its first batch."""


class RunFacts(NamedTuple):
    """Facts about one batch or several in a row, all of magic 2.

    Attributes:
        size: bytes of the batches.
        largest: bytes of the largest batch.
        first_offset, last_offset: of all batches.
        max_timestamp: the largest of the headers, at least -1.
        codec_id: codec of the last compressed batch, 0 without one.
        attributes: the bits that any of the batches has.
        has_producer: whether a batch has a producer id.
        heads: head of each batch.
        epochs: the leader epochs, in order; one that comes again later is there again.
    """

    size: int
    largest: int
    first_offset: Offset
    last_offset: Offset
    max_timestamp: Timestamp
    codec_id: int
    attributes: int
    has_producer: bool
    heads: list[BatchHead]
    epochs: list[EpochStart]


def batch_facts(buffer: Buffer) -> RunFacts | None:
    """Return facts about the whole batches of a buffer; the beginning of another may follow them.

    None without a batch, or if anything is unusual: another magic, an impossible frame, a wrong checksum, an
    unknown codec, negative offsets, or offsets that do not ascend from batch to batch.
    """
    view = memoryview(buffer)
    position, end, newest = 0, -1, NO_TIMESTAMP
    largest = codec = bits = 0
    has_producer = False
    heads: list[BatchHead] = []
    epochs: list[EpochStart] = []
    while True:
        left = len(view) - position
        if left < UP_TO_MAGIC:
            if left >= LOG_OVERHEAD:
                return None
            break
        _, length, _, magic = HEAD.unpack_from(view, position)
        size = length + LOG_OVERHEAD
        if length < SMALLEST_LENGTH or size < SMALLEST_BATCH.get(magic, MAX_INT32 + 1):
            return None
        if size > MAX_INT32:
            return None
        if size > left:
            break
        if magic != CURRENT_MAGIC:
            return None
        header = HEADER.plain.unpack_from(view, position)
        base, _, epoch, _, crc, attributes, delta, _, timestamp, producer_id = header[:10]
        last = base + delta
        codec_id = attributes & COMPRESSION_MASK
        covered = view[position + CRC_COVERS_FROM[CURRENT_MAGIC] : position + size]
        is_ascending = base > end and delta >= 0 and last <= MAX_INT64
        if not is_ascending or codec_id > LAST_CODEC or crc32c(covered) != crc:
            return None
        heads.append((last, timestamp, size))
        if not epochs or epochs[-1][0] != epoch:
            epochs.append((epoch, base))
        end = last
        newest, largest, codec = max(newest, timestamp), max(largest, size), codec_id or codec
        bits |= attributes
        has_producer |= producer_id > NO_PRODUCER_ID
        position += size
    if not heads:
        return None
    first = epochs[0][1]
    return RunFacts(position, largest, first, end, newest, codec, bits, has_producer, heads, epochs)
