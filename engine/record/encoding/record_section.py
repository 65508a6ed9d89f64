"""Records of a batch that is being built: encoded as they are added, then compressed."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from engine.coding.compression import Compression, CompressionType, compress
from engine.coding.layout import Buffer
from engine.errors import StateError
from engine.record.batch_frame import CURRENT_MAGIC, LOG_OVERHEAD
from engine.record.encoding.batch_encoding import (
    batch_overhead,
    encode_message,
    encode_record,
    message_size,
    size_of_record,
)
from engine.record.record import Header
from engine.units import MAX_INT32, NO_TIMESTAMP, Offset, Timestamp

RATIO_SAFETY = 1.05
"""Safety factor for estimates of compressed sizes."""


class RecordSection:
    """Part of a batch after its header.

    Args:
        magic: magic of the batch.
        compression: codec and level.
        base_offset: base offset of the batch.
        base_timestamp: base of the timestamp deltas; None for the timestamp of the first record.

    Attributes:
        data: encoded records.
        compressed: compressed records, once the section is closed.
        count: number of records.
        last_offset: offset of the last record, None without one.
        max_timestamp: largest timestamp, -1 without one and for magic 0.
        offset_of_max_timestamp: offset of the first record with that timestamp, -1 without one.
        base_timestamp: base of the timestamp deltas, None before the first record.
        is_one_batch: whether the result is one batch, not one message per record.
    """

    __slots__ = (
        "_base_offset",
        "_compression",
        "_has_relative_offsets",
        "_magic",
        "_overhead",
        "base_timestamp",
        "compressed",
        "count",
        "data",
        "is_one_batch",
        "last_offset",
        "max_timestamp",
        "offset_of_max_timestamp",
    )

    def __init__(
        self,
        magic: int,
        compression: Compression,
        base_offset: Offset,
        base_timestamp: Timestamp | None,
    ) -> None:
        is_compressed = compression.type is not CompressionType.NONE
        self._magic = magic
        self._compression = compression
        self._base_offset = base_offset
        self._has_relative_offsets = magic > 0 and is_compressed
        self._overhead = batch_overhead(magic, compression.type)
        self.is_one_batch = magic == CURRENT_MAGIC or is_compressed
        self.data = bytearray()
        self.compressed: Buffer | None = None
        self.count = 0
        self.last_offset: Offset | None = None
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp: Offset = -1
        self.base_timestamp = base_timestamp

    @property
    def next_offset(self) -> Offset:
        """Offset of the next record."""
        return self._base_offset if self.last_offset is None else self.last_offset + 1

    @property
    def is_closed(self) -> bool:
        """Whether no more records are accepted."""
        return self.compressed is not None

    def add_record(
        self,
        offset: Offset,
        timestamp: Timestamp,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
    ) -> None:
        """Add a record of magic 2. Raises StateError once closed, ValueError if the record does not fit."""
        base = timestamp if self.base_timestamp is None else self.base_timestamp
        delta = offset - self._base_offset
        self._add(offset, timestamp, encode_record(delta, timestamp - base, key, value, headers))
        self.base_timestamp = base

    def add_message(
        self,
        magic: int,
        offset: Offset,
        timestamp: Timestamp,
        key: Buffer | None,
        value: Buffer | None,
        attributes: int,
    ) -> None:
        """Add a message of magic 0 or 1. Raises StateError once closed, ValueError if the message does not fit."""
        inner = offset - self._base_offset if self._has_relative_offsets else offset
        encoded = encode_message(magic, inner, timestamp, key, value, attributes)
        self._add(offset, timestamp if magic else NO_TIMESTAMP, encoded)

    def _add(self, offset: Offset, timestamp: Timestamp, encoded: bytes) -> None:
        if self.compressed is not None:
            raise StateError("the builder takes no more records: it was closed or aborted")
        if offset - self._base_offset > MAX_INT32 or self.count == MAX_INT32:
            raise ValueError(
                f"the offset {offset} is too far from the batch's base, {self._base_offset}, "
                f"or there are {MAX_INT32} records"
            )
        self.data += encoded
        self.count += 1
        self.last_offset = offset
        if timestamp > self.max_timestamp and self._magic > 0:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = offset

    def size_of_next(
        self,
        timestamp: Timestamp,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[Header],
    ) -> int:
        """Return the encoded size in bytes of a record at the next offset."""
        if self._magic < CURRENT_MAGIC:
            return LOG_OVERHEAD + message_size(self._magic, key, value)
        base = timestamp if self.base_timestamp is None else self.base_timestamp
        delta = self.next_offset - self._base_offset
        return size_of_record(delta, timestamp - base, key, value, headers)

    @property
    def uncompressed_size(self) -> int:
        """Bytes of the batch header and of the records before compression."""
        return self._overhead + len(self.data)

    def estimated_size(self, ratio: float) -> int:
        """Return the bytes of header and records for a compression ratio; exact without a codec."""
        if self._compression.type is CompressionType.NONE:
            return self.uncompressed_size
        size = _float32(len(self.data) * ratio)
        return self._overhead + int(_float32(size * _float32(RATIO_SAFETY)))

    def close(self) -> Buffer:
        """Compress the records and return them. May be called twice."""
        if self.compressed is None:
            kind, level = self._compression.type, self._compression.level
            self.compressed = compress(kind, self.data, magic=self._magic, level=level)
        return self.compressed

    def discard(self) -> None:
        """Close the section without records."""
        self.compressed = b""


def _float32(value: float) -> float:
    """Return the nearest single-precision number, as Kafka computes here."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
