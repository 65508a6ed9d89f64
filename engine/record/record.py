"""One record, of any format."""

from __future__ import annotations

from dataclasses import dataclass

from engine.record.attributes import TimestampType
from engine.units import NO_PARTITION_LEADER_EPOCH, NO_SEQUENCE


@dataclass(slots=True)
class Header:
    """A record's header: a key, which is never null, and a value, which may be."""

    key: bytes
    value: bytes | None


@dataclass(slots=True)
class Record:
    """A record with its own fields and its batch's. Immutable by convention.

    Null is None, empty is b"": they are different keys and different values.
    """

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    size: int = 0
    """Bytes of the encoded record: magic 2 without the length prefix, magic 0 and 1 without offset and size."""
    index: int = 0
    """Index of the record in its batch, from 0."""
