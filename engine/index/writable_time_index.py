"""The time index of a segment that is written."""

from __future__ import annotations

from engine.errors import InvalidOffsetError, StateError
from engine.index.time_index import ENTRY, OFFSETS, TimeIndex, TimeIndexEntry
from engine.index.writable_index import WritableIndex
from engine.units import NO_TIMESTAMP, Offset, Timestamp, TimestampOffset


class WritableTimeIndex(WritableIndex[TimestampOffset], TimeIndex):
    """Pairs of a timestamp and the offset of the first record that has it; timestamps ascend."""

    offset_column = OFFSETS

    @property
    def is_full(self) -> bool:
        """Whether there is room for one entry at most, which is for when the segment rolls."""
        return self.entries >= self.max_entries - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, (NO_TIMESTAMP, base_offset) when there is none."""
        return self._last

    def maybe_append(
        self, timestamp: Timestamp, offset: Offset, skip_full_check: bool = False
    ) -> None:
        """Add an entry if its timestamp is above the last one. When that raises, nothing was added.

        Args:
            timestamp: the largest of the segment so far.
            offset: of the record that has it.
            skip_full_check: the last slot may be taken: the segment rolls or closes.

        Raises:
            ValueError: the index is full.
            InvalidOffsetError: the offset is below the last one.
            StateError: the timestamp is below the last one.
            OffsetOverflowError: the offset is below the base, or too far above it.
        """
        with self._lock:
            last = self._last
            if not skip_full_check and self.is_full:
                raise ValueError(f"{self.path} is full: it has {self.entries} entries")
            if self.entries and offset < last.offset:
                raise InvalidOffsetError(
                    f"offset {offset} is below {last.offset}, the last one of {self.path}, "
                    f"for slot {self.entries}"
                )
            if self.entries and timestamp < last.timestamp:
                raise StateError(
                    f"timestamp {timestamp} is below {last.timestamp}, the last one of {self.path}, "
                    f"for slot {self.entries}"
                )
            if timestamp > last.timestamp:
                entry = TimeIndexEntry(timestamp, self.relative_offset(offset))
                self._write(ENTRY.pack(entry), TimestampOffset(timestamp, offset))

    @property
    def _none(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)
