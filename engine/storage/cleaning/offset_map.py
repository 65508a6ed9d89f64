"""What the log cleaner remembers of the dirty part of a log: the last offset of each key, in bounded memory."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod

from engine.coding.fixed_width import read_int32
from engine.record.columns import Columns
from engine.units import MAX_INT32, Offset

BYTES_PER_ENTRY = 24
"""A key's hash of 16 bytes and an offset of 8."""
_HASH_SIZE = 16
_HASH_PROBES = _HASH_SIZE - 4
_EMPTY = bytes(_HASH_SIZE)
NOT_THERE = -1


class OffsetMap(ABC):
    """Keys and their offsets.

    Attributes:
        slots: how many keys there is room for.
    """

    slots: int

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._latest_offset: Offset = -1

    @property
    @abstractmethod
    def size(self) -> int:
        """How many keys were put."""

    @abstractmethod
    def put(self, key: bytes | memoryview, offset: Offset) -> None:
        """Note the offset of a key, whatever was noted before; it is the latest offset now.

        Raises:
            ValueError: there is no room.
        """

    @abstractmethod
    def get(self, key: bytes | memoryview) -> Offset:
        """The offset of a key, -1 when it was not put."""

    def clear(self) -> None:
        """Forget all keys."""
        self._latest_offset = -1

    @property
    def latest_offset(self) -> Offset:
        """Up to where, inclusive, the log's records are known; -1 before the first."""
        return self._latest_offset

    def update_latest_offset(self, offset: Offset) -> None:
        """Say that the log's records are known up to an offset."""
        self._latest_offset = offset

    @property
    def utilization(self) -> float:
        """Which part of the slots is taken, from 0 to 1."""
        return self.size / self.slots

    def put_keys(self, columns: Columns, start_offset: Offset, limit: int) -> int:
        """Put the keys of records from an offset on, as long as there are fewer than `limit` keys.

        Returns:
            how many records were gone through: all, or those before the one that there was no room for.
        """
        arena = columns.arena
        table = columns.table
        rows = zip(
            *(table[name].tolist() for name in ("offset", "key_start", "key_size")), strict=True
        )
        for place, (offset, start, size) in enumerate(rows):
            if size < 0 or offset < start_offset:
                continue
            if self.size >= limit:
                return place
            self.put(arena[start : start + size], offset)
        return len(columns)

    def offsets_of(self, columns: Columns) -> list[Offset]:
        """The offset of each record's key; -1 for a key that was not put, and for null."""
        arena = columns.arena
        places = zip(columns.key_start.tolist(), columns.key_size.tolist(), strict=True)
        return [
            self.get(arena[start : start + size]) if size >= 0 else NOT_THERE
            for start, size in places
        ]


class HashedOffsetMap(OffsetMap):
    """Hashes of keys in a table of fixed size, as Kafka's SkimpyOffsetMap has them.

    Two keys of the same MD5 are taken for one. A key is looked for where each four bytes of its hash say, then
    slot by slot. Nothing can be taken out.

    Args:
        memory: bytes of the table.

    Raises:
        ValueError: not even one entry fits.
    """

    def __init__(self, memory: int) -> None:
        slots = memory // BYTES_PER_ENTRY
        if slots < 1:
            raise ValueError(f"{memory} bytes hold no entry of {BYTES_PER_ENTRY} bytes")
        super().__init__(slots)
        self._table = bytearray(slots * BYTES_PER_ENTRY)
        self._size = 0

    @property
    def size(self) -> int:
        """How many keys were put."""
        return self._size

    def put(self, key: bytes | memoryview, offset: Offset) -> None:
        """Note the offset of a key; ValueError when the table is full."""
        if self._size >= self.slots:
            raise ValueError(f"the offset map is full: {self._size} of {self.slots} slots")
        digest = _hash(key)
        table = self._table
        attempt = 0
        while True:
            place = self._place(digest, attempt)
            found = table[place : place + _HASH_SIZE]
            if found == digest:
                break
            if found == _EMPTY:
                table[place : place + _HASH_SIZE] = digest
                self._size += 1
                break
            attempt += 1
        table[place + _HASH_SIZE : place + BYTES_PER_ENTRY] = offset.to_bytes(8, "big", signed=True)
        self._latest_offset = offset

    def get(self, key: bytes | memoryview) -> Offset:
        """The offset of a key, -1 when it was not put."""
        digest = _hash(key)
        table = self._table
        for attempt in range(self.slots + _HASH_PROBES):
            place = self._place(digest, attempt)
            found = table[place : place + _HASH_SIZE]
            if found == digest:
                number = table[place + _HASH_SIZE : place + BYTES_PER_ENTRY]
                return int.from_bytes(number, "big", signed=True)
            if found == _EMPTY:
                break
        return NOT_THERE

    def clear(self) -> None:
        """Forget all keys."""
        super().clear()
        self._size = 0
        self._table[:] = bytes(len(self._table))

    def _place(self, digest: bytes, attempt: int) -> int:
        """Where the table is looked at next: each int32 of the hash first, then slot after slot."""
        probe = read_int32(digest, min(attempt, _HASH_PROBES)) & MAX_INT32
        return (probe + max(0, attempt - _HASH_PROBES)) % self.slots * BYTES_PER_ENTRY


def _hash(key: bytes | memoryview) -> bytes:
    return hashlib.md5(key, usedforsecurity=False).digest()
