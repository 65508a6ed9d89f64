"""The order in which a broker walks over its hash maps, which decides who gets what where several ways are right."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import TypeVar

_LEAST_BUCKETS = 16
_MASK = 0xFFFFFFFF
_Key = TypeVar("_Key", str, int)


def in_hash_order(keys: Iterable[str]) -> list[str]:
    """Return texts in the order of a Java HashMap."""
    return _ordered({key: _hash_of_text(key) for key in keys})


def ids_in_hash_order(keys: Iterable[str]) -> list[str]:
    """Return topic ids in the order of a Java HashMap."""
    return _ordered({key: _hash_of_id(key) for key in keys})


def numbers_in_hash_order(keys: Iterable[int]) -> list[int]:
    """Return numbers of partitions in the order of a Java HashMap."""
    return _ordered({key: key for key in keys})


def id_order(topic_id: str) -> tuple[int, int]:
    """Return the key by which brokers sort topic ids."""
    high, low = _halves(topic_id)
    return _signed(high), _signed(low)


def _ordered(hashes: dict[_Key, int]) -> list[_Key]:
    buckets = _LEAST_BUCKETS
    while 4 * len(hashes) > 3 * buckets:
        buckets *= 2
    found = sorted(hashes)  # within a bucket the order is that of insertion, which is not known
    return sorted(found, key=lambda key: (hashes[key] ^ hashes[key] >> 16) & (buckets - 1))


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
