"""Where an index's entries come from: bytes in memory, or a source file read page by page.

A broker preallocates the active segment's index (10 MiB of zeros) and cuts it when the segment rolls, so a
map of it would kill us; and it appends through its own map, so neither size nor mtime tells of a new entry.
Hence the rules of the file back end: pread only, a short read means the file shrank; pages are kept while
the file's identity, size and mtime stay; the end of a zero-padded file is read anew for each look-up. The
logical end is the first entry of zeros after slot 0, found by bisection.

A search begins at the warm end, the last 8192 bytes of entries, where most look-ups of a live log fall;
below it, the first keys of the pages are bisected, then one page.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias

from engine.index.slot_search import Buffer, Column, floor_slot
from engine.source_files import SourceFile
from engine.units import Slot

WARM_BYTES = 8192
_CACHED_PAGES = 2048  # 16 MiB for all indexes together
_LOOK_AHEAD = 64
_READ_PAGES = 8
_ATTEMPTS = 3

SlotSource: TypeAlias = Buffer | SourceFile | Callable[[], SourceFile]
"""An index's bytes; or its file; or what opens its file, so that no descriptor is held between look-ups."""


class Found(NamedTuple):
    """An entry that a search found, in the very bytes that were searched."""

    slot: Slot
    buffer: Buffer
    position: int


class Slots(Protocol):
    """Entries of one size, numbered from 0 to the logical end."""

    @property
    def byte_size(self) -> int:
        """The file's length now, padding included."""

    def __len__(self) -> int:
        """How many entries there are now."""

    def at(self, slot: Slot) -> Found | None:
        """An entry, None at or past the logical end."""

    def last(self) -> Found | None:
        """The last entry, None when there is none."""

    def floor(self, column: Column, target: int) -> Found | None:
        """The entry of the largest slot whose number in `column` is at most `target`."""

    def ceiling(self, column: Column, target: int) -> Found | None:
        """The entry of the smallest slot whose number in `column` is at least `target`."""

    def chunks(self) -> Iterator[bytes]:
        """All entries in order, some thousand bytes at a time."""


def slots_of(source: SlotSource, entry_size: int) -> Slots:
    """The back end that fits the source."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return BytesSlots(source, entry_size)
    if isinstance(source, SourceFile):
        file = source
        return FileSlots(lambda: file, entry_size)
    return FileSlots(source, entry_size)


class BytesSlots:
    """Entries in memory."""

    __slots__ = ("_count", "_data", "_entry_size", "byte_size")

    def __init__(self, data: Buffer, entry_size: int) -> None:
        self._data = bytes(data)
        self._entry_size = entry_size
        self.byte_size = len(self._data)
        used = len(self._data.rstrip(b"\0"))
        self._count = min(-(-used // entry_size), self.byte_size // entry_size)

    def __len__(self) -> int:
        return self._count

    def at(self, slot: Slot) -> Found | None:
        """An entry, None at or past the logical end."""
        return self._found(slot) if 0 <= slot < self._count else None

    def last(self) -> Found | None:
        """The last entry, None when there is none."""
        return self.at(self._count - 1)

    def floor(self, column: Column, target: int) -> Found | None:
        """See Slots."""
        return self.at(floor_slot(self._data, self._count, column, target))

    def ceiling(self, column: Column, target: int) -> Found | None:
        """See Slots."""
        return self.at(floor_slot(self._data, self._count, column, target - 1) + 1)

    def chunks(self) -> Iterator[bytes]:
        """See Slots."""
        if self._count:
            yield self._data[: self._count * self._entry_size]

    def _found(self, slot: Slot) -> Found:
        return Found(slot, self._data, slot * self._entry_size)


class _PageCache:
    """Pages of all indexes, the least recently used go first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pages: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[int, int]) -> bytes | None:
        with self._lock:
            page = self._pages.get(key)
            if page is not None:
                self._pages.move_to_end(key)
            return page

    def put(self, key: tuple[int, int], page: bytes) -> None:
        with self._lock:
            self._pages[key] = page
            if len(self._pages) > self._limit:
                self._pages.popitem(last=False)


_PAGES = _PageCache(_CACHED_PAGES)
_serials = itertools.count()


class _ShrunkError(Exception):
    """The file became shorter between two reads of one look-up."""


class _State:
    """What is known of a file for as long as its identity, size and mtime stay."""

    __slots__ = ("count", "fences", "is_padded", "key", "serial")

    def __init__(self, key: tuple[int, int, int, int], count: int, is_padded: bool) -> None:
        self.key = key
        self.serial = next(_serials)
        self.count = count
        self.is_padded = is_padded
        self.fences: dict[Column, list[int | None]] = {}


class FileSlots:
    """Entries of a source file that may grow, shrink or be replaced at any moment; safe from threads."""

    __slots__ = ("_entry_size", "_open", "_page_entries", "_state")

    def __init__(self, open_file: Callable[[], SourceFile], entry_size: int) -> None:
        self._open = open_file
        self._entry_size = entry_size
        self._page_entries = max(WARM_BYTES // entry_size, 1)
        self._state: _State | None = None

    @property
    def byte_size(self) -> int:
        """The file's length now, padding included."""
        return self._open().size()

    def __len__(self) -> int:
        return self._attempt(lambda file, state: self._end(file, state)[0]) or 0

    def at(self, slot: Slot) -> Found | None:
        """See Slots."""

        def entry(file: SourceFile, state: _State) -> Found | None:
            count, first, warm = self._end(file, state)
            if not 0 <= slot < count:
                return None
            if slot >= first:
                return Found(slot, warm, (slot - first) * self._entry_size)
            return self._in_page(file, state, slot)

        return self._attempt(entry)

    def last(self) -> Found | None:
        """See Slots."""

        def entry(file: SourceFile, state: _State) -> Found | None:
            count, first, warm = self._end(file, state)
            return Found(count - 1, warm, (count - 1 - first) * self._entry_size) if count else None

        return self._attempt(entry)

    def floor(self, column: Column, target: int) -> Found | None:
        """See Slots."""
        return self._attempt(lambda file, state: self._floor(file, state, column, target))

    def ceiling(self, column: Column, target: int) -> Found | None:
        """See Slots."""
        below = self.floor(column, target - 1)
        return self.at(below.slot + 1 if below else 0)

    def chunks(self) -> Iterator[bytes]:
        """See Slots; what is appended meanwhile is not seen."""
        left = len(self)
        file, position = self._open(), 0
        while left > 0:
            wanted = min(left, self._page_entries * _READ_PAGES) * self._entry_size
            data = file.read_at(position, wanted)
            data = data[: len(data) - len(data) % self._entry_size]
            if data:
                yield data
            if len(data) < wanted:
                return
            position += wanted
            left -= wanted // self._entry_size

    def _attempt(self, look_up: Callable[[SourceFile, _State], Found | None | int]) -> Found | None:
        raise NotImplementedError
