"""Write the time index of a segment."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.errors import InvalidOffsetError, StateError
from engine.index.time_index import ENTRY, OFFSETS, TimeIndex
from engine.units import MAX_INT32, NO_TIMESTAMP, Offset, Timestamp, TimestampOffset
from engine.writing.index.writable_index import WritableIndex

_PACK = ENTRY.plain.pack


class WritableTimeIndex(WritableIndex[TimestampOffset], TimeIndex):
    """Pairs of a timestamp and the offset of its first record; timestamps ascend."""

    offset_column = OFFSETS

    @property
    def is_full(self) -> bool:
        """Whether at most one entry fits; that slot is kept for the segment's roll."""
        slots = self._mapped
        return slots.count >= slots.capacity - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """Last entry, (NO_TIMESTAMP, base_offset) without one."""
        return self._last

    def maybe_append(
        self, timestamp: Timestamp, offset: Offset, skip_full_check: bool = False
    ) -> None:
        """Add an entry if its timestamp is above the last entry's. After an error nothing was added.

        Args:
            timestamp: largest timestamp of the segment so far.
            offset: offset of the record with that timestamp.
            skip_full_check: use the last slot too, when the segment rolls or closes.

        Raises:
            ValueError: the index is full.
            InvalidOffsetError: the offset is below the last entry's.
            StateError: the timestamp is below the last entry's.
            OffsetOverflowError: the offset is below the base offset, or too far above it.
        """
        with self._lock:
            slots, last = self._mapped, self._last
            count = slots.count
            if not skip_full_check and count >= slots.capacity - 1:
                raise ValueError(f"{self.path} is full: it has {count} entries")
            if count and offset < last.offset:
                raise InvalidOffsetError(
                    f"offset {offset} is below {last.offset}, the last one of {self.path}, "
                    f"for slot {count}"
                )
            if count and timestamp < last.timestamp:
                raise StateError(
                    f"timestamp {timestamp} is below {last.timestamp}, the last one of {self.path}, "
                    f"for slot {count}"
                )
            if timestamp > last.timestamp:
                relative = offset - self.base_offset
                if not 0 <= relative <= MAX_INT32:
                    self.relative_offset(offset)
                self._put(_PACK(timestamp, relative), TimestampOffset(timestamp, offset))

    def extend(self, timestamps: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> None:
        """Add entries, both columns ascending; entries at or below the last timestamp are left out.

        Raises as `maybe_append` does; then nothing was added.
        """
        with self._lock:
            above = timestamps > self._last.timestamp
            timestamps, offsets = timestamps[above], offsets[above]
            if not len(offsets):
                return
            self._check_extension(offsets, self.max_entries - 1 - self.entries)
            if np.any(offsets[1:] < offsets[:-1]) or (
                self.entries and offsets[0] < self._last.offset
            ):
                raise InvalidOffsetError(
                    f"offsets {offsets[0]} to {offsets[-1]} do not ascend from {self._last.offset},"
                    f" the last one of {self.path}"
                )
            if np.any(timestamps[1:] <= timestamps[:-1]):
                raise StateError(f"timestamps for {self.path} do not ascend")
            entries = np.empty(len(offsets), ENTRY.dtype)
            entries["timestamp"] = timestamps
            entries["relative_offset"] = offsets - self.base_offset
            last = TimestampOffset(int(timestamps[-1]), int(offsets[-1]))
            self._write(entries.tobytes(), last)

    @property
    def _none(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)
