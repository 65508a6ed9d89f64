"""The order in which a broker walks over its hash maps, which decides who gets what where several ways are right."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import TypeVar

_LEAST_BUCKETS = 16
_MASK = 0xFFFFFFFF
_LEAST_SLOTS = 2
_FIBONACCI, _LONG_MASK = -7046029254386353131, (1 << 64) - 1
"""Factor that a broker's own tables hash with, and the bits of its product."""
_Key = TypeVar("_Key", str, int)


def in_table_order(keys: Sequence[str], most: int) -> list[str]:
    """Return texts in the order of a broker's own hash table.

    Args:
        keys: the texts, in the order in which they were added.
        most: the most that the table has had at the same time: it does not shrink, and it has room for one more.
    """
    slots = _LEAST_SLOTS
    while 3 * (most + 1) > 4 * slots:
        slots *= 2
    shift = 65 - slots.bit_length()

    def slot(key: str) -> int:
        hashed = _hash_of_text(key)
        signed = hashed - (1 << 32) if hashed >> 31 else hashed
        return (signed * _FIBONACCI & _LONG_MASK) >> shift

    latest_first = keys[::-1]  # within a slot
    return sorted(latest_first, key=slot)


def in_hash_order(keys: Iterable[str]) -> list[str]:
    """Return texts in the order of a Java HashMap to which they were added in their order."""
    return _ordered({key: _hash_of_text(key) for key in keys})


def ids_in_hash_order(keys: Iterable[str]) -> list[str]:
    """Return topic ids in the order of a Java HashMap to which they were added in their order."""
    return _ordered({key: _hash_of_id(key) for key in keys})


def numbers_in_hash_order(keys: Iterable[int]) -> list[int]:
    """Return numbers of partitions in the order of a Java HashMap."""
    return _ordered({key: key for key in sorted(keys)})


def id_order(topic_id: str) -> tuple[int, int]:
    """Return the key by which brokers sort topic ids."""
    high, low = _halves(topic_id)
    return _signed(high), _signed(low)


def _ordered(hashes: dict[_Key, int]) -> list[_Key]:
    buckets = _LEAST_BUCKETS
    while 4 * len(hashes) > 3 * buckets:
        buckets *= 2
    return sorted(hashes, key=lambda key: (hashes[key] ^ hashes[key] >> 16) & (buckets - 1))


def _hash_of_text(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    found = 0
    for high, low in zip(data[::2], data[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & _MASK
    return found


def _hash_of_id(topic_id: str) -> int:
    high, low = _halves(topic_id)
    both = high ^ low
    return (both >> 32 ^ both) & _MASK


def _halves(topic_id: str) -> tuple[int, int]:
    raw = base64.urlsafe_b64decode(topic_id + "==")
    return int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")


def _signed(half: int) -> int:
    return half - (1 << 64) if half >> 63 else half
