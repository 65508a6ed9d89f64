"""Find the batch at a position of a buffer, of any magic; the interface of all batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.compression import CompressionType
from engine.coding.fixed_width import read_int32
from engine.coding.layout import Buffer
from engine.errors import CorruptRecordError
from engine.record import default_records, legacy_records
from engine.record.attributes import TimestampType
from engine.record.batch_body import Load
from engine.record.batch_frame import (
    CURRENT_MAGIC,
    HEADER,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    SMALLEST_BATCH,
)
from engine.record.record import Record

_LENGTH_AND_MAGIC = HEADER.subset("length", "magic")
MINIMUM_LENGTH = {magic: size - LOG_OVERHEAD for magic, size in SMALLEST_BATCH.items()}
"""Smallest length field of each magic: a header, and in magic 0 and 1 the sizes of a null key and value."""


@runtime_checkable
class RecordBatch(Protocol):
    """A batch of records as in a log: magic 2, or a message of magic 0 or 1 with its inner messages.

    Decodes nothing before it is needed; only `ensure_valid` and `records` check anything.
    """

    path: str | None
    file_position: int

    @property
    def magic(self) -> int:
        """Version of the format: 0, 1 or 2."""

    @property
    def size(self) -> int:
        """Bytes in the file, with the offset and length fields."""

    @property
    def crc(self) -> int:
        """Checksum that the header states."""

    @property
    def computed_crc(self) -> int:
        """Checksum computed from the bytes that it covers."""

    @property
    def attributes(self) -> int:
        """Attribute bits."""

    @property
    def codec_id(self) -> int:
        """Number of the codec, perhaps an unknown one."""

    @property
    def compression(self) -> CompressionType:
        """Codec. Raises InvalidRecordError when its number is unknown."""

    @property
    def timestamp_type(self) -> TimestampType:
        """Type of the timestamps."""

    @property
    def base_offset(self) -> int:
        """First offset. A compressed message of magic 0 or 1 is decoded for it, which may raise."""

    @property
    def last_offset(self) -> int:
        """Last offset, inclusive."""

    @property
    def next_offset(self) -> int:
        """Offset after the last."""

    @property
    def max_timestamp(self) -> int:
        """Largest timestamp, as the header states it; -1 for magic 0."""

    @property
    def record_count(self) -> int | None:
        """Number of records that the header states; None for magic 0 and 1."""

    @property
    def producer_id(self) -> int:
        """Id of the idempotent or transactional producer, or -1."""

    @property
    def producer_epoch(self) -> int:
        """Producer's epoch, or -1."""

    @property
    def base_sequence(self) -> int:
        """Producer's sequence number of the first record, or -1."""

    @property
    def last_sequence(self) -> int:
        """Producer's sequence number of the last record, or -1."""

    @property
    def leader_epoch(self) -> int:
        """Epoch of the leader that wrote the batch, or -1."""

    @property
    def is_compressed(self) -> bool:
        """Whether the batch has a codec."""

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""

    @property
    def is_control(self) -> bool:
        """Whether the records are control records."""

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time after which the cleaner may remove the batch's tombstones; None if not set."""

    @property
    def raw(self) -> memoryview:
        """Bytes of the whole batch, as in the file."""

    def ensure_valid(self) -> None:
        """Check the size and the checksum. Raises CorruptRecordError."""

    def records(self, budgets: Budgets = DEFAULT_BUDGETS) -> Iterator[Record]:
        """Yield the records, in order.

        Records before damage come first, then the error: InvalidRecordError, DecompressionError,
        LimitExceededError or UnsupportedCodecError.
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
