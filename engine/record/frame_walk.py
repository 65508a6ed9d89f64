"""Walk the batches of a records file by their lengths alone, as Kafka's FileLogInputStream does.

Kafka reads a batch with a magic above 2 as one of magic 2, and one with a negative magic as a message. No
checksum of a batch covers its magic, so such a batch may be valid to Kafka. Readers refuse it, see `walk_batches`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.fixed_width import read_int32
from engine.errors import CorruptRecordError
from engine.record.batch_frame import (
    CRC_POSITION,
    CURRENT_MAGIC,
    HEADER,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    SMALLEST_LENGTH,
    UP_TO_MAGIC,
)
from engine.record.default_records import DefaultRecordBatch
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.log_input_stream import ReadableFile, read_batch
from engine.record.record_batch import RecordBatch
from engine.units import Position

_CRC = CRC_POSITION[0]


class BatchFrame(NamedTuple):
    """Position, size and magic (a signed byte) of a batch, and its first bytes: as many as a header of magic 2 has."""

    position: Position
    size: int
    magic: int
    head: bytes


def frames(file: ReadableFile, position: Position, end: Position) -> Iterator[BatchFrame]:
    """Yield the batches from a position on, by their length fields alone.

    Raises:
        CorruptRecordError: a length is too small for a batch.
        ValueError: the position is negative.
    """
    if position < 0:
        raise ValueError(f"a batch of {file.path} at the negative position {position}")
    while position < end - UP_TO_MAGIC:
        head = file.read_at(position, HEADER.size)
        if len(head) < UP_TO_MAGIC:
            raise CorruptRecordError("the file ends in a header", path=file.path, position=position)
        length = read_int32(head, LENGTH_POSITION)
        if length < SMALLEST_LENGTH:
            raise CorruptRecordError(
                "the length of a batch is too small",
                path=file.path,
                position=position,
                expected=f"at least {SMALLEST_LENGTH}",
                found=length,
            )
        if position > end - LOG_OVERHEAD - length:
            return
        size, magic = LOG_OVERHEAD + length, head[MAGIC_POSITION]
        yield BatchFrame(position, size, magic if magic < 128 else magic - 256, head)
        position += size


def batch_in(
    file: ReadableFile, frame: BatchFrame, budgets: Budgets = DEFAULT_BUDGETS
) -> RecordBatch:
    """Return the batch in a frame, which reads its bytes later.

    Raises CorruptRecordError if the file ends inside the header.
    """
    head = frame.head
    if frame.magic < CURRENT_MAGIC:
        if frame.magic < 0:
            head = _load_as_known(file, frame, budgets)[: HEADER.size]  # with another checksum
        return LegacyRecordBatch(
            head,
            file_position=frame.position,
            path=file.path,
            load=partial(_load_as_known, file, frame, budgets),
        )
    if len(head) < HEADER.size:
        raise CorruptRecordError(
            "the batch is smaller than its header",
            path=file.path,
            position=frame.position,
            expected=f"at least {HEADER.size} bytes",
            found=frame.size,
        )
    return DefaultRecordBatch(
        _as_known(head),
        file_position=frame.position,
        path=file.path,
        load=partial(_load_as_known, file, frame, budgets),
    )


def _load_as_known(file: ReadableFile, frame: BatchFrame, budgets: Budgets) -> bytes:
    data = read_batch(file, frame.position, frame.size, budgets)
    if frame.magic >= 0:
        return _as_known(data)
    # The checksum of a message covers its magic: a wrong checksum must stay wrong.
    wrong = int.from_bytes(data[_CRC:MAGIC_POSITION], "big") ^ zlib.crc32(data[MAGIC_POSITION:])
    known = _as_known(data)
    crc = zlib.crc32(known[MAGIC_POSITION:]) ^ wrong
    return known[:_CRC] + crc.to_bytes(4, "big") + known[MAGIC_POSITION:]


def _as_known(data: bytes) -> bytes:
    """Return the batch with a known magic: 2 instead of a larger one, 1 instead of a negative one."""
    magic = data[MAGIC_POSITION]
    if magic <= CURRENT_MAGIC:
        return data
    return (
        data[:MAGIC_POSITION]
        + bytes((CURRENT_MAGIC if magic < 128 else 1,))
        + data[MAGIC_POSITION + 1 :]
    )


def walk_frames(
    file: ReadableFile, position: Position, end: Position, budgets: Budgets = DEFAULT_BUDGETS
) -> Iterator[RecordBatch]:
    """Yield the batches of a file as a broker does. Raises what `frames` and `batch_in` raise."""
    for frame in frames(file, position, end):
        yield batch_in(file, frame, budgets)
