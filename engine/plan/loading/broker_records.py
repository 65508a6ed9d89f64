"""Walk the batches of a records file as a broker does.

A broker treats a magic above 2 as 2; no checksum covers it.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.compression import CompressionType
from engine.coding.fixed_width import read_int32
from engine.coding.varint import to_int32
from engine.errors import CorruptRecordError, InvalidRecordError
from engine.plan.loading.broker_failure import stops
from engine.record.batch_frame import (
    CRC_POSITION,
    CURRENT_MAGIC,
    HEADER,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_HEADERS,
    SMALLEST_LENGTH,
    UP_TO_MAGIC,
)
from engine.record.default_records import DefaultRecordBatch
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.log_input_stream import ReadableFile, read_batch
from engine.record.record_batch import RecordBatch
from engine.units import BatchPosition, Offset, Position

_CRC = CRC_POSITION[0]
_LARGEST_CODEC = max(CompressionType)


class BrokerFrame(NamedTuple):
    """Position, size and magic (a signed byte) of a batch."""

    position: Position
    size: int
    magic: int


def frames(file: ReadableFile, position: Position, end: Position) -> Iterator[BrokerFrame]:
    """Yield the batches from a position on, by their length fields alone.

    Raises:
        CorruptRecordError: a length is too small for a batch.
        ValueError: the position is negative.
    """
    if position < 0:
        raise ValueError(f"a batch of {file.path} at the negative position {position}")
    while position < end - UP_TO_MAGIC:
        head = file.read_at(position, UP_TO_MAGIC)
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
        magic = head[MAGIC_POSITION]
        yield BrokerFrame(position, LOG_OVERHEAD + length, magic if magic < 128 else magic - 256)
        position += LOG_OVERHEAD + length


def batch_in(
    file: ReadableFile, frame: BrokerFrame, budgets: Budgets = DEFAULT_BUDGETS
) -> RecordBatch:
    """Return the batch in a frame, which reads its bytes later.

    Raises CorruptRecordError if the file ends inside the header.
    """
    head = file.read_at(frame.position, HEADER.size)
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


def _load_as_known(file: ReadableFile, frame: BrokerFrame, budgets: Budgets) -> bytes:
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


def find_offset(
    file: ReadableFile, target: Offset, position: Position, end: Position
) -> BatchPosition | None:
    """Return the batch that a broker finds for an offset: by base offsets, and the last offset of the last batch.

    Raises what `frames` and `batch_in` raise.
    """
    previous: RecordBatch | None = None
    for frame in frames(file, position, end):
        batch = batch_in(file, frame)
        base_offset = _base_offset(batch, frame.magic)
        if base_offset > target and previous is not None and previous.last_offset >= target:
            return _place(previous)
        if base_offset >= target:
            return _place(batch)
        previous = batch
    if previous is not None and previous.last_offset >= target:
        return _place(previous)
    return None


def check_codec(batch: RecordBatch) -> None:
    """Raise BrokerFailure for a batch with an unknown codec, which a broker cannot decompress."""
    if batch.codec_id > _LARGEST_CODEC:
        where = f"the batch at byte {batch.file_position} of {batch.path}"
        raise stops("IllegalArgumentException", f"{where} has the unknown codec {batch.codec_id}")


def _check_value(batch: LegacyRecordBatch) -> None:
    """Raise BrokerFailure if the value of a wrapper is not inside of it."""
    message = batch.raw[LOG_OVERHEAD:]
    at = MESSAGE_HEADERS[batch.magic].size - LOG_OVERHEAD
    where = f"the value of the batch at byte {batch.file_position} of {batch.path}"
    for _ in ("key", "value"):
        if not 0 <= at <= len(message) - 4:
            raise stops("IndexOutOfBoundsException", f"{where} has no length in it")
        size = read_int32(message, at)
        at = to_int32(at + 4 + max(size, 0))
    if size > 0 and not 0 <= at <= len(message):
        raise stops("IllegalArgumentException", f"{where} has {size} bytes, more than the batch")


def _base_offset(batch: RecordBatch, magic: int) -> Offset:
    """Return the first offset of a batch; a wrapper is decompressed whole, which verifies a checksum at its end."""
    if isinstance(batch, LegacyRecordBatch) and batch.is_compressed:
        check_codec(batch)
        if magic < 0:
            raise batch.invalid("a wrapper has an unknown magic", found=magic)
        if batch.compression is not CompressionType.ZSTD:  # no old batch can have that
            _check_value(batch)
        with suppress(InvalidRecordError):  # a broker reads only the first message
            deque(batch.messages(), 0)
    return batch.base_offset


def find_last_offset(
    file: ReadableFile, target: Offset, position: Position, end: Position
) -> BatchPosition | None:
    """Return the batch that a broker before 4.1 finds for an offset: the first with its last offset at or above it."""
    for batch in walk_frames(file, position, end):
        if batch.last_offset >= target:
            return _place(batch)
    return None


def _place(batch: RecordBatch) -> BatchPosition:
    return BatchPosition(batch.base_offset, batch.last_offset, batch.file_position, batch.size)
