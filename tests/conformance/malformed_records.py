"""Bytes that are no batch, each in another way: what Kafka's InvalidMemoryRecordsProvider lists."""

from __future__ import annotations

import struct

from tests.builders import Rec, batch

_GOOD = batch([Rec(b"value", b"key")])

MALFORMED = {
    "shorter than offset and length": bytes(11),
    "a length of 13": struct.pack(">qi", 0, 13) + bytes(13),
    "the end before the magic": struct.pack(">qi", 0, 14) + bytes(4),
    "magic -1": _GOOD[:16] + b"\xff" + _GOOD[17:],
    "magic 3": _GOOD[:16] + b"\x03" + _GOOD[17:],
    "a body that is cut": _GOOD[:-1],
}
