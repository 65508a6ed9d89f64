"""Encode records, messages and batch headers, with the layouts of the readers.

Sizes are in bytes. A key or value of None is null. Numbers wrap as in Java, so an offset or
timestamp delta that overflows is read back as the original value.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.coding.checksums import crc32, crc32c
from engine.coding.compression import CompressionType
from engine.coding.layout import Buffer
from engine.coding.varint import (
    SMALL_VARINTS,
    encode_varint,
    encode_varlong,
    size_of_varint,
    size_of_varlong,
    to_int32,
    to_int64,
)
from engine.record.attributes import TimestampType, compute_attributes
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    CURRENT_MAGIC,
    HEADER,
    LOG_OVERHEAD,
    MESSAGE_HEADERS,
    SMALLEST_BATCH,
    BatchHeader,
    MessageHeader0,
    MessageHeader1,
)
from engine.record.record import Header
from engine.units import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, Offset, Timestamp

BATCH_OVERHEAD = HEADER.size
_NULL = encode_varint(-1)
_NO_HEADERS = encode_varint(0)
_SMALL = len(SMALL_VARINTS)
_NULL_SIZE = (-1).to_bytes(4, "big", signed=True)
_CRC = HEADER.field_struct("crc")
_CRC_PLACE = HEADER.position_of("crc")


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header] = (),
) -> bytes:
    """Return a record of magic 2 with its length. Raises ValueError for a null header key."""
    body = b"".join(
        (
            b"\0",
            SMALL_VARINTS[timestamp_delta]
            if 0 <= timestamp_delta < _SMALL
            else encode_varlong(to_int64(timestamp_delta)),
            SMALL_VARINTS[offset_delta]
            if 0 <= offset_delta < _SMALL
            else encode_varint(to_int32(offset_delta)),
            _size_prefix(key),
            b"" if key is None else key,
            _size_prefix(value),
            b"" if value is None else value,
            _encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    size = len(body)
    return (SMALL_VARINTS[size] if size < _SMALL else encode_varint(size)) + body


def size_of_record(
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header] = (),
) -> int:
    """Return the number of bytes of `encode_record`."""
    size = 1 + size_of_varlong(to_int64(timestamp_delta)) + size_of_varint(to_int32(offset_delta))
    size += _size_of(key) + _size_of(value) + _size_of_headers(headers)
    return size_of_varint(size) + size


def _size_prefix(data: Buffer | None) -> bytes:
    if data is None:
        return _NULL
    size = len(data)
    return SMALL_VARINTS[size] if size < _SMALL else encode_varint(size)


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts: list[Buffer] = [encode_varint(len(headers))]
    for header in headers:
        if header.key is None:
            raise ValueError("the key of a header is null")
        parts += (_size_prefix(header.key), header.key)
        parts += (_size_prefix(header.value), header.value or b"")
    return b"".join(parts)


def _size_of(data: Buffer | None) -> int:
    return 1 if data is None else size_of_varint(len(data)) + len(data)


def _size_of_headers(headers: Sequence[Header]) -> int:
    return size_of_varint(len(headers)) + sum(
        _size_of(header.key) + _size_of(header.value) for header in headers
    )


def check_producer(
    *,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
    is_control: bool,
) -> None:
    """Raise ValueError for a producer state that no batch can have."""
    if is_transactional and producer_id == NO_PRODUCER_ID:
        raise ValueError("a transactional batch needs a producer id")
    if producer_id == NO_PRODUCER_ID:
        return
    if producer_epoch == NO_PRODUCER_EPOCH:
        raise ValueError("the batch of a producer needs its epoch")
    if base_sequence < 0 and not is_control:
        raise ValueError(f"the base sequence {base_sequence} is negative")


def encode_batch(header: BatchHeader, records: Buffer = b"") -> bytearray:
    """Return a batch of magic 2: the header with correct length and checksum, and the records."""
    size = BATCH_OVERHEAD + len(records)
    made = bytearray(HEADER.pack(header._replace(length=size - LOG_OVERHEAD)))
    made += records
    crc = crc32c(memoryview(made)[CRC_COVERS_FROM[CURRENT_MAGIC] :])
    _CRC.pack_into(made, _CRC_PLACE, crc)
    return made


def encode_empty_batch(
    *,
    base_offset: Offset,
    last_offset: Offset,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    partition_leader_epoch: int,
    timestamp_type: TimestampType,
    timestamp: Timestamp,
    is_transactional: bool,
    is_control: bool,
) -> bytearray:
    """Return a batch of magic 2 without records, as compaction leaves it: a header alone.

    Raises:
        ValueError: there is no timestamp type.
    """
    attributes = compute_attributes(
        CompressionType.NONE, timestamp_type, transactional=is_transactional, control=is_control
    )
    return encode_batch(
        BatchHeader(
            base_offset=base_offset,
            length=0,
            partition_leader_epoch=partition_leader_epoch,
            magic=CURRENT_MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=to_int32(last_offset - base_offset),
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=0,
        )
    )


def message_overhead(magic: int) -> int:
    """Return the bytes of a message besides key, value, offset and size. Raises ValueError from magic 2 on."""
    if magic not in (0, 1):
        raise ValueError(f"a message of magic {magic}")
    return SMALLEST_BATCH[magic] - LOG_OVERHEAD


def message_size(magic: int, key: Buffer | None, value: Buffer | None) -> int:
    """Return the number of bytes of `encode_message`, without the offset and the size."""
    return message_overhead(magic) + len(key or b"") + len(value or b"")


def message_attributes(
    magic: int, compression: CompressionType, timestamp_type: TimestampType
) -> int:
    """Return the attribute bits of a message. Raises ValueError for magic 1 without a timestamp type."""
    return int(compression) if magic == 0 else compute_attributes(compression, timestamp_type)


def encode_message(
    magic: int,
    offset: Offset,
    timestamp: Timestamp,
    key: Buffer | None,
    value: Buffer | None,
    attributes: int = 0,
) -> bytes:
    """Return a message of magic 0 or 1 with its offset, size and checksum.

    Raises:
        ValueError: the timestamp is negative and not -1, or the magic is not 0 or 1.
    """
    size = message_size(magic, key, value)
    if timestamp < NO_TIMESTAMP:
        raise ValueError(f"the timestamp {timestamp} is negative")
    fields = _sized(key) + _sized(value)
    offset = to_int64(offset)
    if magic == 0:
        head = MESSAGE_HEADERS[0].pack(MessageHeader0(offset, size, 0, 0, attributes))
    else:
        head = MESSAGE_HEADERS[1].pack(MessageHeader1(offset, size, 0, 1, attributes, timestamp))
    covered = head[CRC_COVERS_FROM[0] :] + fields
    crc = crc32(covered).to_bytes(4, "big")
    return head[: CRC_COVERS_FROM[0] - 4] + crc + covered


def _sized(data: Buffer | None) -> bytes:
    return _NULL_SIZE if data is None else len(data).to_bytes(4, "big") + data


def batch_overhead(magic: int, compression: CompressionType) -> int:
    """Return the bytes of a builder before the records: a header, a wrapper's header, or none."""
    if magic > 1:
        return BATCH_OVERHEAD
    if compression is CompressionType.NONE:
        return 0
    return LOG_OVERHEAD + message_overhead(magic)
