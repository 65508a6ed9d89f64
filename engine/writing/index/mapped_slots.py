"""Where the entries of an index that we write come from: a map of its file, as far as entries were completed.

Only the file's one writer has such a map. It may change the map under a look-up's feet, so each look-up
holds a lock for the microsecond that it takes, and gives a copy of the entry that it finds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from engine.index.slot_search import Column, floor_slot
from engine.index.slots import WARM_BYTES, Found
from engine.units import Slot
from engine.writing.disk import Mapping

_CHUNK_BYTES = 8 * WARM_BYTES


class MappedSlots:
    """First `count` entries of a map; see Slots.

    Attributes:
        mapping: the whole file, what is behind the entries too.
        count: how many entries are complete; it is set after an entry's bytes are there.
        capacity: how many the map has room for.
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
        """File's length, what is preallocated included."""
        return self.mapping.size

    def __len__(self) -> int:
        return self.count

    def at(self, slot: Slot) -> Found | None:
        """See Slots."""
        with self._lock:
            return self._found(slot)

    def last(self) -> Found | None:
        """See Slots."""
        with self._lock:
            return self._found(self.count - 1)

    def floor(self, column: Column, target: int) -> Found | None:
        """See Slots."""
        with self._lock:
            return self._found(self._floor_slot(column, target))

    def ceiling(self, column: Column, target: int) -> Found | None:
        """See Slots."""
        with self._lock:
            return self._found(self._floor_slot(column, target - 1) + 1)

    def chunks(self) -> Iterator[bytes]:
        """See Slots; what is appended meanwhile is not seen, nor what is truncated."""
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
        """Add entries behind the last one. Raises ValueError where the map ends, and OSError."""
        self.mapping.write(self.count * self._entry_size, entries)
        self.count += len(entries) // self._entry_size

    def truncate(self, count: int) -> None:
        """Let go of the entries from slot `count` on; their bytes stay until others take their place."""
        with self._lock:
            self.count = min(self.count, count)

    def remap(self, make: Callable[[], Mapping]) -> None:
        """Put another map in the place of this one, which no look-up uses meanwhile."""
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
        """Return the largest slot whose number is at most `target`, -1 for none; the warm end is asked first."""
        count, buffer = self.count, self.mapping.buffer
        first = max(count - 1 - self._warm, 0)
        if not first:
            return floor_slot(buffer, count, column, target)
        position = first * self._entry_size
        if column.value_at(buffer, position) > target:
            return floor_slot(buffer, first, column, target)
        with buffer[position:] as warm:
            return first + floor_slot(warm, count - first, column, target)
