"""Look up offsets in a records file as a broker does: its batches are found as in `engine.record.frame_walk`."""

from __future__ import annotations

from collections import deque
from contextlib import suppress

from engine.coding.compression import CompressionType
from engine.coding.fixed_width import read_int32
from engine.coding.varint import to_int32
from engine.errors import InvalidRecordError
from engine.plan.loading.broker_failure import stops
from engine.record.batch_frame import LOG_OVERHEAD, MESSAGE_HEADERS
from engine.record.frame_walk import batch_in, frames, walk_frames
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.log_input_stream import ReadableFile
from engine.record.record_batch import RecordBatch
from engine.units import BatchPosition, Offset, Position

_LARGEST_CODEC = max(CompressionType)


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
