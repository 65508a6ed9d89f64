"""Checksums and hashes of Kafka's formats.

CRC-32 covers messages of magic 0 and 1; CRC-32C (Castagnoli) covers batches of magic 2 and producer
snapshots; xxHash32 covers the headers and blocks of LZ4 frames; murmur2 picks a key's partition.
"""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import Any

from engine.coding.layout import Buffer

_MASK = 0xFFFFFFFF
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_CASTAGNOLI = 0x82F63B78
_LANES = struct.Struct("<4I")


def crc32(data: Buffer, value: int = 0) -> int:
    """Return the unsigned CRC-32 of bytes, continuing from the checksum `value`."""
    return zlib.crc32(data, value)


def crc32c(data: Buffer, value: int = 0) -> int:
    """Return the unsigned CRC-32C of bytes, continuing from the checksum `value`."""
    checksum: int = _castagnoli(data, value)
    return checksum


def _first_castagnoli(data: Buffer, value: int) -> int:
    """Import google_crc32c at the first call, because the import is slow and the kernel has its own CRC-32C."""
    global _castagnoli
    try:
        from crc32c import crc32c as found

        _castagnoli = found
    except ImportError:  # a Spark cluster may have only the code that was sent
        _castagnoli = _castagnoli_by_table
    return crc32c(data, value)


def _castagnoli_by_table(data: Buffer, value: int) -> int:
    table = _castagnoli_table()
    checksum = value ^ _MASK
    for byte in memoryview(data).cast("B"):
        checksum = table[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    return checksum ^ _MASK


@cache
def _castagnoli_table() -> tuple[int, ...]:
    table = []
    for entry in range(256):
        for _ in range(8):
            entry = (entry >> 1) ^ (_CASTAGNOLI if entry & 1 else 0)
        table.append(entry)
    return tuple(table)


_castagnoli: Any = _first_castagnoli


def _rotate(value: int, by: int) -> int:
    value &= _MASK
    return ((value << by) | (value >> (32 - by))) & _MASK


def xxh32(data: Buffer, seed: int = 0) -> int:
    """Return the unsigned xxHash32 of bytes. Pure Python, for frame headers and rare hashed blocks."""
    p1, p2, p3, p4, p5 = _PRIMES
    size = len(data)
    whole = size & ~15
    if whole:
        a, b, c, d = (
            (seed + p1 + p2) & _MASK,
            (seed + p2) & _MASK,
            seed & _MASK,
            (seed - p1) & _MASK,
        )
        for w, x, y, z in _LANES.iter_unpack(memoryview(data)[:whole]):
            a = _rotate(a + w * p2, 13) * p1 & _MASK
            b = _rotate(b + x * p2, 13) * p1 & _MASK
            c = _rotate(c + y * p2, 13) * p1 & _MASK
            d = _rotate(d + z * p2, 13) * p1 & _MASK
        total = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
    else:
        total = seed + p5
    total = (total + size) & _MASK
    words = size & ~3
    for place in range(whole, words, 4):
        word = int.from_bytes(data[place : place + 4], "little")
        total = _rotate(total + word * p3, 17) * p4 & _MASK
    for byte in data[words:size]:
        total = _rotate(total + byte * p5, 11) * p1 & _MASK
    total = (total ^ (total >> 15)) * p2 & _MASK
    total = (total ^ (total >> 13)) * p3 & _MASK
    return total ^ (total >> 16)


def murmur2(data: Buffer) -> int:
    """Return the murmur2 hash that Kafka's partitioner uses, as a Java int."""
    factor, size = 0x5BD1E995, len(data)
    hashed = (0x9747B28C ^ size) & _MASK
    words = size & ~3
    for place in range(0, words, 4):
        word = int.from_bytes(data[place : place + 4], "little") * factor & _MASK
        word = (word ^ (word >> 24)) * factor & _MASK
        hashed = (hashed * factor & _MASK) ^ word
    if size > words:
        hashed = (hashed ^ int.from_bytes(data[words:size], "little")) * factor & _MASK
    hashed = (hashed ^ (hashed >> 13)) * factor & _MASK
    hashed ^= hashed >> 15
    return hashed - 0x100000000 if hashed & 0x80000000 else hashed
