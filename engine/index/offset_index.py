"""The offset index of a segment (.index): where in the .log a batch with some offset lies.

Entries of 8 bytes, big-endian: the last offset of a batch relative to the segment's base (int32), and the
batch's position in the log (int32); both only grow. There is one for every index.interval.bytes (4096) of
appended data, so a look-up gives a place to scan from. See OffsetIndex in Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.coding.layout import Buffer, Int32, Layout
from engine.index.abstract_index import AbstractIndex
from engine.index.slot_search import Column
from engine.units import Offset, OffsetPosition


class OffsetIndexEntry(NamedTuple):
    """An entry as it lies in the file."""

    relative_offset: Int32
    position: Int32


ENTRY = Layout(OffsetIndexEntry)
OFFSETS = Column.of(ENTRY, "relative_offset")
_POSITIONS = Column.of(ENTRY, "position")


class OffsetIndex(AbstractIndex[OffsetPosition]):
    """Entries with their absolute offsets."""

    entry_size = ENTRY.size

    def lookup(self, target: Offset) -> OffsetPosition:
        """Return the entry with the largest offset that is at most `target`.

        (base_offset, 0) when there is none: scan from the start of the log.
        """
        base = self.base_offset
        found = self._slots.floor(OFFSETS, target - base) if target >= base else None
        if found is None:
            return OffsetPosition(base, 0)
        relative, position = ENTRY.unpack(found[1], found[2])
        return OffsetPosition(base + relative, position)

    def upper_bound_for_fetch(self, fetched: OffsetPosition, size: int) -> OffsetPosition | None:
        """Return the first entry at or past `size` bytes after `fetched`, None when the index ends before.

        Its offset is at or past the end of what a fetch of that size gives.
        """
        found = self._slots.ceiling(_POSITIONS, fetched.position + size)
        return None if found is None else self._entry(found)

    @property
    def last_entry(self) -> OffsetPosition:
        """Last entry, (base_offset, 0) when there is none."""
        found = self._slots.last()
        return OffsetPosition(self.base_offset, 0) if found is None else self._entry(found)

    @property
    def last_offset(self) -> Offset:
        """Last entry's offset, the base offset when there is none."""
        return self.last_entry.offset

    def check(self) -> None:
        """Raises CorruptIndexError for part of an entry or a last offset below the base."""
        self._check_length()
        found = self._slots.last()
        if found is None:
            return
        last = self._entry(found)
        if last.offset < self.base_offset:
            raise self._corrupt(
                "the last offset lies below the segment's base offset",
                found[0],
                expected=f"at least {self.base_offset}",
                found=last.offset,
            )

    def _parse(self, buffer: Buffer, position: int) -> OffsetPosition:
        relative, file_position = ENTRY.unpack(buffer, position)
        return OffsetPosition(self.base_offset + relative, file_position)
