"""Write the offset index of a segment."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidOffsetError
from engine.index.offset_index import ENTRY, OFFSETS, OffsetIndex
from engine.units import MAX_INT32, Offset, OffsetPosition, Position
from engine.writing.index.writable_index import WritableIndex

_PACK = ENTRY.plain.pack


class WritableOffsetIndex(WritableIndex[OffsetPosition], OffsetIndex):
    """Pairs of an offset and the position of its batch, both ascending."""

    offset_column = OFFSETS

    @property
    def last_entry(self) -> OffsetPosition:
        """Last entry, (base_offset, 0) without one."""
        return self._last

    def append(self, offset: Offset, position: Position) -> None:
        """Add an entry. After an error nothing was added.

        Raises:
            ValueError: the index is full, or the position does not fit into 31 bits.
            InvalidOffsetError: the offset is not above that of the last entry.
            OffsetOverflowError: the offset is below the base offset, or too far above it.
        """
        with self._lock:
            slots, last = self._mapped, self._last.offset
            count = slots.count
            if count >= slots.capacity:
                raise ValueError(f"{self.path} is full: it has {count} entries")
            if count and offset <= last:
                raise InvalidOffsetError(
                    f"offset {offset} is not above {last}, the last one of {self.path}, for slot {count}"
                )
            if not 0 <= position <= MAX_INT32:
                raise ValueError(f"position {position} does not fit into {self.path}")
            relative = offset - self.base_offset
            if not 0 <= relative <= MAX_INT32:
                self.relative_offset(offset)
            self._put(_PACK(relative, position), OffsetPosition(offset, position))

    def extend(self, offsets: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]) -> None:
        """Add entries, both columns ascending. Raises as `append` does; then nothing was added."""
        with self._lock:
            if not len(offsets):
                return
            self._check_extension(offsets, self.max_entries - self.entries)
            if np.any(offsets[1:] <= offsets[:-1]) or (
                self.entries and offsets[0] <= self._last.offset
            ):
                raise InvalidOffsetError(
                    f"offsets {offsets[0]} to {offsets[-1]} do not ascend from {self._last.offset},"
                    f" the last one of {self.path}"
                )
            if positions.min() < 0 or positions.max() > MAX_INT32:
                raise ValueError(
                    f"positions {positions.min()} to {positions.max()} do not fit into {self.path}"
                )
            entries = np.empty(len(offsets), ENTRY.dtype)
            entries["relative_offset"] = offsets - self.base_offset
            entries["position"] = positions
            last = OffsetPosition(int(offsets[-1]), int(positions[-1]))
            self._write(entries.tobytes(), last)

    @property
    def _none(self) -> OffsetPosition:
        return OffsetPosition(self.base_offset, 0)
