"""Hints for the position of an offset, and those of a small offset index."""

from __future__ import annotations

from typing import Protocol

from engine import kernel
from engine.coding.layout import Buffer
from engine.index.offset_index import ENTRY
from engine.index.slots import BytesSlots
from engine.units import Offset, OffsetPosition, Position, Slot

_ENTRY_AT = ENTRY.plain.unpack_from


class PositionHints(Protocol):
    """Positions at which the batch with an offset may start; hints that the reader checks."""

    __slots__ = ()

    def floor(self, offset: Offset) -> OffsetPosition:
        """Return the hint with the largest offset at or below an offset; the segment's start without one."""

    def position(self, offset: Offset) -> Position:
        """Return the position of that hint."""

    def known_position(self, offset: Offset) -> Position | None:
        """Return the position of that hint; None if a file may have to be read for it."""


class SmallIndexHints(PositionHints):
    """Hints of an offset index that is kept in memory."""

    __slots__ = ("_base_offset", "_count", "_data")

    def __init__(self, data: Buffer, base_offset: Offset) -> None:
        self._data = data
        self._base_offset = base_offset
        self._count = len(BytesSlots(data, ENTRY.size))  # without the zeros at the end

    @property
    def first_offset(self) -> Offset:
        """Offset of the first entry, the base offset without one."""
        return self._offset_at(0)

    @property
    def last_offset(self) -> Offset:
        """Offset of the last entry, the base offset without one."""
        return self._offset_at(self._count - 1)

    def _offset_at(self, slot: Slot) -> Offset:
        return self._base_offset + (
            _ENTRY_AT(self._data, slot * ENTRY.size)[0] if self._count else 0
        )

    def floor(self, offset: Offset) -> OffsetPosition:
        base = self._base_offset
        if offset >= base and self._count:
            slot = kernel.floor_slot(self._data, self._count, 8, 0, False, offset - base)
            if slot >= 0:
                relative, position = _ENTRY_AT(self._data, slot * ENTRY.size)
                if position >= 0:
                    return OffsetPosition(base + relative, position)
        return OffsetPosition(base, 0)

    def position(self, offset: Offset) -> Position:
        if not self._count:
            return 0
        slot = kernel.floor_slot(self._data, self._count, 8, 0, False, offset - self._base_offset)
        return max(_ENTRY_AT(self._data, slot * ENTRY.size)[1], 0) if slot >= 0 else 0

    def known_position(self, offset: Offset) -> Position | None:
        return self.position(offset)
