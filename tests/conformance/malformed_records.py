"""Bytes that are no batch, each in another way: those of Kafka's InvalidMemoryRecordsProvider."""

from __future__ import annotations

import struct

_SIZE = 256
_BASE_OFFSET = 1234
_EPOCH = 4321


def _head(length: int = _SIZE - 12, *magic: int) -> bytes:
    """Offset and length, and with a magic also leader epoch and magic; zeros up to 256 bytes."""
    head = struct.pack(">qi", _BASE_OFFSET, length)
    if magic:
        head += struct.pack(">ib", _EPOCH, *magic)
    return head.ljust(_SIZE, b"\0")


MALFORMED = {
    "shorter than offset and length": bytes(11),
    "a length of 13": _head(13),
    "the end before the magic": _head()[:16],
    "magic -1": _head(_SIZE - 12, -1),
    "magic 3": _head(_SIZE - 12, 3),
    "a body that is cut": _head(_SIZE - 12, 2)[: _SIZE - 13],
}
REFUSED = frozenset({"a length of 13", "magic -1", "magic 3"})
"""Those that a log refuses; it takes the others for the beginning of a batch, and appends nothing."""
