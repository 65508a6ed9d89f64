"""A map of a log's keys to the last offset of each, in bounded memory: for the log cleaner, and for look-ups by key."""

from __future__ import annotations

import numpy as np

from engine import kernel
from engine.coding.hashed_slots import (
    BYTES_PER_SLOT,
    digest_of,
    find_slot,
    read_slot,
    write_slot,
)
from engine.columns.columns import Column, Columns
from engine.units import Offset

NOT_THERE = -1


class HashedOffsetMap:
    """Hashes of keys in a table of fixed size, as Kafka's SkimpyOffsetMap has them: see `hashed_slots`.

    Keys with the same MD5 count as one.

    Args:
        memory: bytes of the table.

    Raises:
        ValueError: no entry fits.
    """

    def __init__(self, memory: int) -> None:
        slots = memory // BYTES_PER_SLOT
        if slots < 1:
            raise ValueError(f"{memory} bytes hold no entry of {BYTES_PER_SLOT} bytes")
        self.slots = slots
        """Most keys that fit."""
        self.latest_offset: Offset = NOT_THERE
        """Last offset, inclusive, of the records in the map; -1 before the first."""
        self._table = bytearray(slots * BYTES_PER_SLOT)
        self._size = 0

    @property
    def size(self) -> int:
        """Number of keys."""
        return self._size

    @property
    def utilization(self) -> float:
        """Used share of the slots, from 0 to 1."""
        return self.size / self.slots

    def put(self, key: bytes | memoryview, offset: Offset) -> None:
        """Set the offset of a key. Raises ValueError if the table is full."""
        digest = digest_of(key)
        slot = find_slot(self._table, digest) if self._size < self.slots else None
        if slot is None:
            raise ValueError(f"the offset map is full: {self._size} of {self.slots} slots")
        place, is_there = slot
        write_slot(self._table, place, digest, offset)
        self._size += not is_there
        self.latest_offset = offset

    def get(self, key: bytes | memoryview) -> Offset:
        """Return the offset of a key, -1 for an unknown key."""
        slot = find_slot(self._table, digest_of(key))
        return read_slot(self._table, slot[0]) if slot is not None and slot[1] else NOT_THERE

    def clear(self) -> None:
        """Remove all keys."""
        self.latest_offset = NOT_THERE
        if self._size:
            self._size = 0
            np.frombuffer(self._table, np.uint8).fill(0)

    def grow(self, slots: int) -> None:
        """Move the keys to a table with so many slots, more than there are keys."""
        table = bytearray(slots * BYTES_PER_SLOT)
        kernel.move_slots(self._table, table)
        self._table, self.slots = table, slots

    def put_keys(self, columns: Columns, start_offset: Offset, limit: int) -> int:
        """Put the keys of records from an offset on, while there are fewer than `limit` keys.

        Returns:
            number of records processed: all, or those before the first that did not fit.
        """
        limit = min(limit, self.slots)
        seen, self._size, latest = kernel.put_keys(
            self._table, self._size, limit, columns, start_offset
        )
        if latest != NOT_THERE:
            self.latest_offset = latest
        return seen

    def offsets_of(self, columns: Columns) -> Column:
        """Return the offset of each record's key, int64; -1 for unknown and null keys."""
        return kernel.offsets_of(self._table, columns)
