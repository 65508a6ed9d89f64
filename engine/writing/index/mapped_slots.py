"""Access the entries of an index that is being written, through an mmap of its file up to the last
complete entry.

Only the file's one writer has such a map. It may change the map during a look-up, so each look-up
holds a lock for about a microsecond, and returns a copy of the entry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from engine.disk.disk import Mapping
from engine.index.slot_search import Column, floor_slot
from engine.index.slots import WARM_BYTES, Found
from engine.units import Slot

_CHUNK_BYTES = 8 * WARM_BYTES


class MappedSlots:
    """First `count` entries of a map, as Slots.

    Attributes:
        mapping: mmap of the whole file, beyond the entries too.
        count: number of complete entries; increased after an entry's bytes are written.
        capacity: most entries that fit into the map.
    """

    __slots__ = ("_entry_size", "_lock", "_warm", "capacity", "count", "mapping")

    def __init__(self, mapping: Mapping, entry_size: int, count: int) -> None:
        self._entry_size = entry_size
        self._warm = WARM_BYTES // entry_size
        self._lock = threading.Lock()
        self.mapping = mapping
        self.capacity = mapping.size // entry_size
        self.count = count

    @property
    def byte_size(self) -> int:
        """Length of the file, with preallocated bytes."""
        return self.mapping.size

    def __len__(self) -> int:
        return self.count

    def at(self, slot: Slot) -> Found | None:
        """Return an entry, None at or after the logical end."""
        with self._lock:
            return self._found(slot)

    def last(self) -> Found | None:
        """Return the last entry, None without one."""
        with self._lock:
            return self._found(self.count - 1)

    def floor(self, column: Column, target: int) -> Found | None:
        """Return the entry of the largest slot with a number in `column` at or below `target`."""
        with self._lock:
            return self._found(self._floor_slot(column, target))

    def ceiling(self, column: Column, target: int) -> Found | None:
        """Return the entry of the smallest slot with a number in `column` at or above `target`."""
        with self._lock:
            return self._found(self._floor_slot(column, target - 1) + 1)

    def chunks(self) -> Iterator[bytes]:
        """Yield all entries in order, some thousand bytes at a time, without later appends and truncations."""
        position, end = 0, self.count * self._entry_size
        step = _CHUNK_BYTES // self._entry_size * self._entry_size
        while position < end:
            with self._lock:
                size = min(end, self.count * self._entry_size) - position
                chunk = self.mapping.read(position, min(size, step)) if size > 0 else b""
            if not chunk:
                return
            yield chunk
            position += len(chunk)

    def write(self, entries: bytes) -> None:
        """Add entries after the last one. Raises ValueError if the map is full, and OSError."""
        self.mapping.write(self.count * self._entry_size, entries)
        self.count += len(entries) // self._entry_size

    def put(self, entry: bytes) -> None:
        """Add one entry after the last one. Raises as `write` does."""
        count = self.count
        if count >= self.capacity:
            self.write(entry)  # raises
        self.mapping.file.write_at(count * self._entry_size, entry)
        self.count = count + 1

    def truncate(self, count: int) -> None:
        """Drop the entries from slot `count` on; their bytes stay until they are overwritten."""
        with self._lock:
            self.count = min(self.count, count)

    def remap(self, make: Callable[[], Mapping]) -> None:
        """Replace the map by another, while no look-up uses it."""
        with self._lock:
            before, self.mapping = self.mapping, make()
            self.capacity = self.mapping.size // self._entry_size
            before.close()

    def close(self) -> None:
        """Unmap; look-ups raise ValueError."""
        with self._lock:
            self.mapping.close()

    def _found(self, slot: Slot) -> Found | None:
        if not 0 <= slot < self.count:
            return None
        return slot, self.mapping.read(slot * self._entry_size, self._entry_size), 0

    def _floor_slot(self, column: Column, target: int) -> Slot:
        """Return the largest slot with a number at or below `target`, -1 without one; search the warm end first."""
        count, buffer = self.count, self.mapping.buffer
        first = max(count - 1 - self._warm, 0)
        if not first:
            return floor_slot(buffer, count, column, target)
        position = first * self._entry_size
        if column.value_at(buffer, position) > target:
            return floor_slot(buffer, first, column, target)
        with buffer[position:] as warm:
            return first + floor_slot(warm, count - first, column, target)
