"""The header of a batch, declared once.

A batch of magic 2 (Kafka 0.11 and later) begins with 61 bytes. A message of magic 0 or 1 begins
with 18 or 26, and its key and value with 4 bytes of size each. Offset, length and the position of
the magic are the same in all three. Structs, sizes and positions elsewhere are derived from these
declarations; a test compares `c/batches.h` with them.

>>> LOG_OVERHEAD, UP_TO_MAGIC, HEADER.size, SMALLEST_BATCH
(12, 17, 61, {0: 26, 1: 34, 2: 61})
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.coding.layout import Int8, Int16, Int32, Int64, Layout, UInt32


class BatchHeader(NamedTuple):
    """Header of a batch of magic 2.

    >>> HEADER.position_of("crc"), HEADER.position_of("attributes")
    (17, 21)
    """

    base_offset: Int64
    length: Int32
    partition_leader_epoch: Int32
    magic: Int8
    crc: UInt32
    attributes: Int16
    last_offset_delta: Int32
    base_timestamp: Int64
    max_timestamp: Int64
    producer_id: Int64
    producer_epoch: Int16
    base_sequence: Int32
    record_count: Int32


class MessageHeader0(NamedTuple):
    """Header of a message of magic 0, up to the size of its key."""

    offset: Int64
    size: Int32
    crc: UInt32
    magic: Int8
    attributes: Int8


class MessageHeader1(NamedTuple):
    """Header of a message of magic 1, up to the size of its key."""

    offset: Int64
    size: Int32
    crc: UInt32
    magic: Int8
    attributes: Int8
    timestamp: Int64


CURRENT_MAGIC: Final = 2
HEADER: Final = Layout(BatchHeader)
MESSAGE_HEADERS: Final = (Layout(MessageHeader0), Layout(MessageHeader1))

LOG_OVERHEAD: Final = HEADER.end_of("length")
"""Bytes of the offset and length fields, which the length does not include."""
UP_TO_MAGIC: Final = HEADER.end_of("magic")
"""Bytes needed to know a batch's size and magic."""
LENGTH_POSITION: Final = HEADER.position_of("length")
MAGIC_POSITION: Final = HEADER.position_of("magic")
LAST_OFFSET_DELTA_POSITION: Final = HEADER.position_of("last_offset_delta")
RECORD_COUNT_POSITION: Final = HEADER.position_of("record_count")

HEAD: Final = HEADER.up_to("magic")
"""Base offset, length, leader epoch (a checksum in magic 0 and 1) and magic: the start of every batch."""

SMALLEST_BATCH: Final = {
    0: MESSAGE_HEADERS[0].size + 8,
    1: MESSAGE_HEADERS[1].size + 8,
    2: HEADER.size,
}
"""Bytes of a batch without records, or of a message with a null key and a null value, by magic."""
SMALLEST_LENGTH: Final = SMALLEST_BATCH[0] - LOG_OVERHEAD
"""Smallest length field of any magic."""
CRC_POSITION: Final = {
    0: MESSAGE_HEADERS[0].position_of("crc"),
    1: MESSAGE_HEADERS[1].position_of("crc"),
    2: HEADER.position_of("crc"),
}
CRC_COVERS_FROM: Final = {
    0: MESSAGE_HEADERS[0].position_of("magic"),
    1: MESSAGE_HEADERS[1].position_of("magic"),
    2: HEADER.position_of("attributes"),
}
"""Position of the first byte that the checksum covers, by magic; it covers the rest of the batch."""
