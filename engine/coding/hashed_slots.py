"""A hash table in a buffer of fixed size: slots of 24 bytes, a key's MD5 and a big-endian number.

Each four bytes of a key's hash name a slot to try, one after the other; then come the slots after the
last of these, wrapping around. The key takes the first slot that holds its hash or is empty. A slot of zeros is empty. Nothing is ever removed.
"""

from __future__ import annotations

import hashlib

from engine.coding.fixed_width import read_int32, read_int64
from engine.coding.layout import Buffer

BYTES_PER_SLOT = 24
DIGEST_SIZE = 16
_LAST_PROBE = DIGEST_SIZE - 4
EMPTY = bytes(DIGEST_SIZE)


def digest_of(key: Buffer) -> bytes:
    """Return a key's digest; keys with the same digest count as the same key."""
    return hashlib.md5(key, usedforsecurity=False).digest()


def find_slot(slots: bytearray, digest: bytes) -> tuple[int, bool] | None:
    """Return the position of the slot of a hash, or of the empty slot for it, and whether the hash is there.

    None when the table has neither.
    """
    count = len(slots) // BYTES_PER_SLOT
    for attempt in range(count + _LAST_PROBE):
        at = min(attempt, _LAST_PROBE)
        probe = (read_int32(digest, at) & 0x7FFFFFFF) + attempt - at
        place = probe % count * BYTES_PER_SLOT
        found = slots[place : place + DIGEST_SIZE]
        if found == digest:
            return place, True
        if found == EMPTY:
            return place, False
    return None


def read_slot(slots: bytearray, place: int) -> int:
    """Return the number in a slot."""
    return read_int64(slots, place + DIGEST_SIZE)


def write_slot(slots: bytearray, place: int, digest: bytes, number: int) -> None:
    """Fill a slot."""
    slots[place : place + BYTES_PER_SLOT] = digest + number.to_bytes(8, "big", signed=True)
