"""Binary search in index entries of one size with growing keys: floor and ceiling of a target.

Integers are big-endian. With keys that do not grow (damage) the result is some slot with a key at
or below the target, or none: an index is a hint, and callers prove its entry against the log.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from engine import kernel
from engine.coding.fixed_width import read_int32, read_int64
from engine.coding.layout import Buffer, Layout
from engine.units import MAX_INT64, Slot

_MIN_INT64 = -MAX_INT64 - 1


class Column(NamedTuple):
    """Location of a number in an entry: the entry's size, the number's position in it, its width of 8 or 4 bytes."""

    entry_size: int
    position: int
    is_int64: bool

    @classmethod
    def of(cls, layout: Layout[Any], field: str) -> Column:
        """Return the column of a field of a layout."""
        return cls(layout.size, layout.position_of(field), layout.field_struct(field).size == 8)

    def value_at(self, buffer: Buffer, position: int) -> int:
        """Return the number in the entry at `position`."""
        read = read_int64 if self.is_int64 else read_int32
        return read(buffer, position + self.position)


def floor_slot(buffer: Buffer, count: int, column: Column, target: int) -> Slot:
    """Return the largest of the first `count` slots with a number at or below `target`; -1 without one."""
    if target > MAX_INT64:
        return count - 1
    if target < _MIN_INT64:
        return -1
    entry_size, position, is_int64 = column
    slot: int = kernel.floor_slot(buffer, count, entry_size, position, is_int64, target)
    return slot
