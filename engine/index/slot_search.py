"""Search in index entries of one size whose keys only grow: the floor and the ceiling of a target.

Integers are big-endian. Keys that do not grow (damage) give some slot whose key is at most the target, or
none: an index is a hint, and whoever uses the entry proves it against the log.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeAlias

from engine.units import Slot

Buffer: TypeAlias = bytes | bytearray | memoryview

_INT32 = struct.Struct(">i").unpack_from
_INT64 = struct.Struct(">q").unpack_from


class Column(NamedTuple):
    """Where an entry's key or value is: the entry's size, the number's position in it, 8 or 4 bytes wide."""

    entry_size: int
    position: int
    is_int64: bool

    def value_at(self, buffer: Buffer, position: int) -> int:
        """The number of the entry that starts at `position`."""
        unpack = _INT64 if self.is_int64 else _INT32
        value: int = unpack(buffer, position + self.position)[0]
        return value


def floor_slot(buffer: Buffer, count: int, column: Column, target: int) -> Slot:
    """The largest of the first `count` slots whose number is at most `target`; -1 when there is none."""
    entry_size, position, is_int64 = column
    unpack = _INT64 if is_int64 else _INT32
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if unpack(buffer, middle * entry_size + position)[0] <= target:
            low = middle + 1
        else:
            high = middle
    return low - 1


def ceiling_slot(buffer: Buffer, count: int, column: Column, target: int) -> Slot:
    """The smallest of the first `count` slots whose number is at least `target`; -1 when there is none."""
    slot = floor_slot(buffer, count, column, target - 1) + 1
    return slot if slot < count else -1
