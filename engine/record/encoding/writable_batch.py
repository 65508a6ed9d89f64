"""Change batches in place: the fields that a leader stamps on a producer's batches.

`buffer` is writable and holds the whole batch, which starts at `position`. The checksum does not
cover offset and leader epoch; it is recomputed for a timestamp.
"""

from __future__ import annotations

from engine.coding.checksums import crc32, crc32c
from engine.coding.fixed_width import read_int32
from engine.coding.varint import to_int64
from engine.errors import UnsupportedForMessageFormatError
from engine.record.attributes import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    timestamp_type_of,
)
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    CURRENT_MAGIC,
    HEADER,
    LENGTH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MESSAGE_HEADERS,
)
from engine.units import Offset, Timestamp

_HEADER = HEADER
_MESSAGE = MESSAGE_HEADERS[1]
_OFFSET = _HEADER.field_struct("base_offset")
_LAST_OFFSET_DELTA = _HEADER.position_of("last_offset_delta")
_LEADER_EPOCH = _HEADER.field_struct("partition_leader_epoch")
_LEADER_EPOCH_PLACE = _HEADER.position_of("partition_leader_epoch")
_TIMESTAMP = _HEADER.field_struct("max_timestamp")
_TIMESTAMP_PLACE = _HEADER.position_of("max_timestamp")
_ATTRIBUTES = _HEADER.field_struct("attributes")
_ATTRIBUTES_PLACE = _HEADER.position_of("attributes")
_CRC = _HEADER.field_struct("crc")
_CRC_PLACE = _HEADER.position_of("crc")
_KEPT = COMPRESSION_MASK | TRANSACTIONAL_MASK | CONTROL_MASK | DELETE_HORIZON_MASK
"""Attribute bits that stay with a new timestamp; unused bits become 0."""


def set_last_offset(buffer: bytearray | memoryview, position: int, offset: Offset) -> None:
    """Set the offsets of a batch so that its last record has this offset."""
    if buffer[position + MAGIC_POSITION] == CURRENT_MAGIC:
        offset = to_int64(offset - read_int32(buffer, position + _LAST_OFFSET_DELTA))
    _OFFSET.pack_into(buffer, position, offset)


def set_partition_leader_epoch(buffer: bytearray | memoryview, position: int, epoch: int) -> None:
    """Set the leader epoch of a batch. Raises UnsupportedForMessageFormatError before magic 2."""
    magic = buffer[position + MAGIC_POSITION]
    if magic != CURRENT_MAGIC:
        raise UnsupportedForMessageFormatError(f"a batch of magic {magic} has no leader epoch")
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_PLACE, epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview,
    position: int,
    timestamp_type: TimestampType,
    timestamp: Timestamp,
) -> None:
    """Set a batch's largest timestamp and timestamp type; do nothing if it has both already.

    Raises:
        UnsupportedForMessageFormatError: the batch is of magic 0.
        ValueError: there is no timestamp type.
    """
    magic = buffer[position + MAGIC_POSITION]
    if magic == 0:
        raise UnsupportedForMessageFormatError("a message of magic 0 has no timestamp")
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise ValueError("batches of magic 1 and 2 need a timestamp type")
    if magic == 1:
        _set_message_timestamp(buffer, position, timestamp_type, timestamp)
        return
    place = position + _TIMESTAMP_PLACE
    attributes: int = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_PLACE)[0]
    is_same_type = timestamp_type_of(attributes) is timestamp_type
    if is_same_type and _TIMESTAMP.unpack_from(buffer, place)[0] == timestamp:
        return
    _ATTRIBUTES.pack_into(
        buffer, position + _ATTRIBUTES_PLACE, attributes & _KEPT | _bit_of(timestamp_type)
    )
    _TIMESTAMP.pack_into(buffer, place, timestamp)
    covered = _covered(buffer, position, CRC_COVERS_FROM[CURRENT_MAGIC])
    _CRC.pack_into(buffer, position + _CRC_PLACE, crc32c(covered))


def _set_message_timestamp(
    buffer: bytearray | memoryview,
    position: int,
    timestamp_type: TimestampType,
    timestamp: Timestamp,
) -> None:
    header = _MESSAGE.unpack(buffer, position)
    if timestamp_type_of(header.attributes) is timestamp_type and header.timestamp == timestamp:
        return
    attributes = header.attributes & COMPRESSION_MASK | _bit_of(timestamp_type)
    changed = header._replace(attributes=attributes, timestamp=timestamp)
    buffer[position : position + _MESSAGE.size] = _MESSAGE.pack(changed)
    crc = crc32(_covered(buffer, position, CRC_COVERS_FROM[0]))
    changed = changed._replace(crc=crc)
    buffer[position : position + _MESSAGE.size] = _MESSAGE.pack(changed)


def _bit_of(timestamp_type: TimestampType) -> int:
    return TIMESTAMP_TYPE_MASK if timestamp_type is TimestampType.LOG_APPEND_TIME else 0


def _covered(buffer: bytearray | memoryview, position: int, start: int) -> memoryview:
    end = position + LOG_OVERHEAD + read_int32(buffer, position + LENGTH_POSITION)
    return memoryview(buffer)[position + start : end]
