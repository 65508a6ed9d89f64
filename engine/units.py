"""Units of numbers, and named tuples of values that travel together.

An Offset counts records, a Position counts bytes in a file and is always absolute, a Slot counts
index entries, a Timestamp counts milliseconds since 1970.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Offset: TypeAlias = int
Position: TypeAlias = int
Slot: TypeAlias = int
Timestamp: TypeAlias = int

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_PARTITION_LEADER_EPOCH = -1
LAST_TIME = 253_402_300_799_999
"""Last millisecond of the year 9999, the last one that RFC 3339 can write."""
MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1


class TopicPartition(NamedTuple):
    """A partition of a topic; as text it is the name of its folder."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetPosition(NamedTuple):
    """An offset index entry: the batch at `position` ends at `offset`."""

    offset: Offset
    position: Position


class TimestampOffset(NamedTuple):
    """A timestamp and the offset of its record."""

    timestamp: Timestamp
    offset: Offset


class BatchPosition(NamedTuple):
    """First offset, last offset, byte position and size in bytes of a batch."""

    base_offset: Offset
    last_offset: Offset
    position: Position
    size: int


class FoundTimestamp(NamedTuple):
    """Result of a look-up by time."""

    timestamp: Timestamp
    offset: Offset
    leader_epoch: int


class EpochEntry(NamedTuple):
    """A leader epoch and its start offset."""

    epoch: int
    start_offset: Offset


class LogOffsetMetadata(NamedTuple):
    """An offset with its segment's base offset and its byte position there; both -1 if unknown."""

    offset: Offset
    segment_base_offset: Offset = -1
    position: Position = -1
