"""Find the batch at a position of a buffer, of any magic; what all batches are."""

from __future__ import annotations

from typing import TypeAlias

from engine.coding.fixed_width import read_int32
from engine.coding.layout import Buffer
from engine.errors import CorruptRecordError
from engine.record import default_records, legacy_records
from engine.record.batch_body import Load
from engine.record.batch_frame import (
    CURRENT_MAGIC,
    HEADER,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    SMALLEST_BATCH,
)

_LENGTH_AND_MAGIC = HEADER.subset("length", "magic")
MINIMUM_LENGTH = {magic: size - LOG_OVERHEAD for magic, size in SMALLEST_BATCH.items()}
"""Smallest length field of each magic: a header, and in magic 0 and 1 the sizes of a null key and value."""


RecordBatch: TypeAlias = default_records.DefaultRecordBatch | legacy_records.LegacyRecordBatch
"""A batch of records as in a log: magic 2, or a message of magic 0 or 1 with its inner messages.

Decodes nothing before it is needed; only `ensure_valid` and `records` check anything.
"""


def batch_size(
    buffer: Buffer,
    position: int,
    *,
    file_position: int = 0,
    path: str | None = None,
    largest: int | None = None,
) -> int | None:
    """Return the size of the batch at a position, from its first bytes.

    Args:
        buffer: bytes of the batch from `position` on; its size is known once they reach the magic.
        position: position of the batch in the buffer.
        file_position, path: position and file of the batch, for errors.
        largest: largest allowed length field.

    Returns:
        Bytes of the batch with its offset and length fields; None when the buffer ends before the magic.

    Raises:
        CorruptRecordError: the length is below the minimum or above `largest`, or the magic is unknown.
    """
    left = len(buffer) - position
    if left > MAGIC_POSITION:
        length, magic = _LENGTH_AND_MAGIC.unpack_from(buffer, position)
        if length >= MINIMUM_LENGTH.get(magic, length + 1) and (
            largest is None or length <= largest
        ):
            return LOG_OVERHEAD + int(length)
    if left < LOG_OVERHEAD:
        return None
    length = read_int32(buffer, position + LENGTH_POSITION)
    magic = buffer[position + MAGIC_POSITION] if left > MAGIC_POSITION else None
    minimum = MINIMUM_LENGTH[0] if magic is None else MINIMUM_LENGTH.get(magic, MINIMUM_LENGTH[0])
    if length < minimum:
        reason, expected = "the length of a batch is too small", f"at least {minimum}"
    elif largest is not None and length > largest:
        reason, expected = "the length of a batch is too large", f"at most {largest}"
    elif magic is None:
        return None
    else:
        raise CorruptRecordError(
            "the magic of a batch is unknown",
            path=path,
            position=file_position,
            expected="0, 1 or 2",
            found=magic if magic < 128 else magic - 256,
        )
    raise CorruptRecordError(
        reason, path=path, position=file_position, expected=expected, found=length
    )


def batch_at(
    buffer: Buffer,
    position: int = 0,
    *,
    file_position: int = 0,
    path: str | None = None,
    largest: int | None = None,
) -> RecordBatch | None:
    """Return the batch at a position of a buffer; None when the buffer ends before the batch does.

    `file_position` is the position of the batch in its file. Raises as `batch_size` does.
    """
    size = batch_size(buffer, position, file_position=file_position, path=path, largest=largest)
    if size is None or size > len(buffer) - position:
        return None
    view = memoryview(buffer)
    if position or size < len(view):
        view = view[position : position + size]
    return make_batch(view, file_position=file_position, path=path)


def make_batch(
    head: Buffer, *, file_position: int, path: str | None, load: Load | None = None
) -> RecordBatch:
    """Return the batch that begins with `head`; `load` returns the bytes of the whole batch."""
    kind = (
        default_records.DefaultRecordBatch
        if head[MAGIC_POSITION] == CURRENT_MAGIC
        else legacy_records.LegacyRecordBatch
    )
    return kind(head, file_position=file_position, path=path, load=load)
