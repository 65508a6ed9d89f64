"""A record to be written, which has no offset yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.record.record import Header
from engine.units import NO_TIMESTAMP, Timestamp


class SimpleRecord(NamedTuple):
    """A key, a value, a timestamp and headers. Null is None, empty is b""."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: Timestamp = NO_TIMESTAMP
    headers: Sequence[Header] = ()
