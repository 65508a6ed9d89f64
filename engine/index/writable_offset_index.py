"""The offset index of a segment that is written."""

from __future__ import annotations

from engine.errors import InvalidOffsetError
from engine.index.offset_index import ENTRY, OFFSETS, OffsetIndex, OffsetIndexEntry
from engine.index.writable_index import WritableIndex
from engine.units import MAX_INT32, Offset, OffsetPosition, Position


class WritableOffsetIndex(WritableIndex[OffsetPosition], OffsetIndex):
    """Pairs of an offset and the position of the batch that has it, both ascending."""

    offset_column = OFFSETS

    @property
    def last_entry(self) -> OffsetPosition:
        """The last entry, (base_offset, 0) when there is none."""
        return self._last

    def append(self, offset: Offset, position: Position) -> None:
        """Add an entry. When that raises, nothing was added.

        Raises:
            ValueError: the index is full, or the position does not fit into 31 bits.
            InvalidOffsetError: the offset is not above the last one.
            OffsetOverflowError: the offset is below the base, or too far above it.
        """
        with self._lock:
            if self.is_full:
                raise ValueError(f"{self.path} is full: it has {self.entries} entries")
            if self.entries and offset <= self.last_offset:
                raise InvalidOffsetError(
                    f"offset {offset} is not above {self.last_offset}, the last one of {self.path}, "
                    f"for slot {self.entries}"
                )
            if not 0 <= position <= MAX_INT32:
                raise ValueError(f"no position of {self.path} is {position}")
            entry = OffsetIndexEntry(self.relative_offset(offset), position)
            self._write(ENTRY.pack(entry), OffsetPosition(offset, position))

    @property
    def _none(self) -> OffsetPosition:
        return OffsetPosition(self.base_offset, 0)
