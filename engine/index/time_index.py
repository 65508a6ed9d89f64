"""The time index of a segment (.timeindex): largest timestamps by offset.

Entries of 12 bytes, big-endian: a timestamp (int64, ms) and the offset of its record, relative to
the segment's base offset (int32); both only grow. No record up to an entry's offset has a larger
timestamp than the entry. See TimeIndex in Kafka.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.coding.layout import Buffer, Int32, Int64, Layout
from engine.index.abstract_index import AbstractIndex
from engine.index.slot_search import Column
from engine.units import NO_TIMESTAMP, Timestamp, TimestampOffset


class TimeIndexEntry(NamedTuple):
    """An entry as in the file."""

    timestamp: Int64
    relative_offset: Int32


ENTRY = Layout(TimeIndexEntry)
_TIMESTAMPS = Column.of(ENTRY, "timestamp")
OFFSETS = Column.of(ENTRY, "relative_offset")


class TimeIndex(AbstractIndex[TimestampOffset]):
    """Entries with their absolute offsets."""

    entry_size = ENTRY.size

    def lookup(self, target: Timestamp) -> TimestampOffset:
        """Return the entry with the largest timestamp at or below `target`.

        (NO_TIMESTAMP, base_offset) without one: search from the start of the segment.
        """
        found = self._slots.floor(_TIMESTAMPS, target)
        return self._nothing if found is None else self._entry(found)

    @property
    def last_entry(self) -> TimestampOffset:
        """Last entry, (NO_TIMESTAMP, base_offset) without one."""
        found = self._slots.last()
        return self._nothing if found is None else self._entry(found)

    def check(self) -> None:
        """Raise CorruptIndexError for a partial entry, a decreasing timestamp or an offset below the base offset."""
        self._check_length()
        found = self._slots.last()
        if found is None:
            return
        last = self._entry(found)
        first = self.entry_at(0)
        if last.timestamp < first.timestamp:
            raise self._corrupt(
                "the last timestamp is before the first",
                found[0],
                expected=f"at least {first.timestamp}",
                found=last.timestamp,
            )
        if last.offset < self.base_offset:
            raise self._corrupt(
                "the last offset is below the segment's base offset",
                found[0],
                expected=f"at least {self.base_offset}",
                found=last.offset,
            )

    @property
    def _nothing(self) -> TimestampOffset:
        return TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def _parse(self, buffer: Buffer, position: int) -> TimestampOffset:
        timestamp, relative = ENTRY.unpack(buffer, position)
        return TimestampOffset(timestamp, self.base_offset + relative)
