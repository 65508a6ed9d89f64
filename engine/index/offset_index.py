"""The offset index of a segment (.index): positions of batches in the .log by offset.

Entries of 8 bytes, big-endian: the last offset of a batch relative to the segment's base (int32),
and the batch's position in the log (int32); both only grow. There is an entry for every
index.interval.bytes (4096) of appended data, so a look-up returns a position to scan from. See
OffsetIndex in Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.coding.layout import Buffer, Int32, Layout
from engine.index.abstract_index import AbstractIndex
from engine.index.slot_search import Column
from engine.units import Offset, OffsetPosition


class OffsetIndexEntry(NamedTuple):
    """An entry as in the file."""

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

        (base_offset, 0) without one: scan from the start of the segment.
        """
        base = self.base_offset
        found = self._slots.floor(OFFSETS, target - base) if target >= base else None
        if found is None:
            return OffsetPosition(base, 0)
        relative, position = ENTRY.unpack(found[1], found[2])
        return OffsetPosition(base + relative, position)

    def entries_around(self, target: Offset) -> Buffer | None:
        """Return the bytes of some entries in a row, that entry among them; None without one."""
        base = self.base_offset
        found = self._slots.floor(OFFSETS, target - base) if target >= base else None
        return None if found is None else found[1]

    def upper_bound_for_fetch(self, fetched: OffsetPosition, size: int) -> OffsetPosition | None:
        """Return the first entry `size` bytes or more after `fetched`, None if the index ends before.

        Its offset is an upper bound of the offsets in a fetch of that size.
        """
        found = self._slots.ceiling(_POSITIONS, fetched.position + size)
        return None if found is None else self._entry(found)

    @property
    def last_entry(self) -> OffsetPosition:
        """Last entry, (base_offset, 0) without one."""
        found = self._slots.last()
        return OffsetPosition(self.base_offset, 0) if found is None else self._entry(found)

    @property
    def last_offset(self) -> Offset:
        """Offset of the last entry, the base offset without one."""
        return self.last_entry.offset

    def check(self) -> None:
        """Raise CorruptIndexError for a partial entry or a last offset below the base offset."""
        self._check_length()
        found = self._slots.last()
        if found is None:
            return
        last = self._entry(found)
        if last.offset < self.base_offset:
            raise self._corrupt(
                "the last offset is below the segment's base offset",
                found[0],
                expected=f"at least {self.base_offset}",
                found=last.offset,
            )

    def _parse(self, buffer: Buffer, position: int) -> OffsetPosition:
        relative, file_position = ENTRY.unpack(buffer, position)
        return OffsetPosition(self.base_offset + relative, file_position)
