"""One record, whatever format held it."""

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
    """A record with all that its batch says about it. Never changed after it was made.

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
    """Bytes of the encoded record: magic 2 without its length prefix, magic 0 and 1 without offset and size."""
    index: int = 0
    """Its place in the batch, from 0."""
