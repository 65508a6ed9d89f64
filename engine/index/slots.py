"""Read an index's entries from bytes in memory, or from a source file page by page.

A broker preallocates the active segment's index (10 MiB of zeros) and truncates it when the segment
rolls, so reading it through mmap could kill the process. It appends through its own mmap, so
neither size nor mtime changes with a new entry. Hence the rules of the file back end: pread only, a
short read means the file shrank; pages are kept while the file's identity, size and mtime stay; the
end of a zero-padded file is read again for each look-up. The logical end is the first entry of
zeros after slot 0, found by binary search.

A search begins at the warm end, the last 8192 bytes of entries, where most look-ups of a live log fall;
below it, a binary search over the pages' first keys finds a page, and a second one the entry.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

from engine.coding.layout import Buffer
from engine.files.source_files import SourceFile
from engine.index.slot_search import Column, floor_slot
from engine.units import Slot

WARM_BYTES = 8192
_CACHED_PAGES = 2048  # 16 MiB for all indexes together
_LOOK_AHEAD = 64
_READ_PAGES = 8
_ATTEMPTS = 3
_TRUSTED_SECONDS = 0.05

SlotSource: TypeAlias = Buffer | SourceFile | Callable[[], SourceFile]
"""An index's bytes; its open file; or a function that opens its file, so that no descriptor is held between look-ups."""

Found: TypeAlias = tuple[Slot, Buffer, int]
"""Slot of an entry, the bytes that were searched, and the entry's position in them."""

Answer = TypeVar("Answer")


class Slots(Protocol):
    """Entries of one size, numbered from 0 to the logical end."""

    @property
    def byte_size(self) -> int:
        """Current length of the file, with padding."""

    def __len__(self) -> int:
        """Return the current number of entries."""

    def at(self, slot: Slot) -> Found | None:
        """Return an entry, None at or after the logical end."""

    def last(self) -> Found | None:
        """Return the last entry, None without one."""

    def floor(self, column: Column, target: int) -> Found | None:
        """Return the entry of the largest slot with a number in `column` at or below `target`."""

    def ceiling(self, column: Column, target: int) -> Found | None:
        """Return the entry of the smallest slot with a number in `column` at or above `target`."""

    def chunks(self) -> Iterator[bytes]:
        """Yield all entries in order, some thousand bytes at a time."""


def slots_of(source: SlotSource, entry_size: int) -> Slots:
    """Return the implementation for the source."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return BytesSlots(source, entry_size)
    if isinstance(source, SourceFile):
        file = source
        return FileSlots(lambda: file, entry_size)
    return FileSlots(source, entry_size)


class BytesSlots:
    """Entries in memory; with `is_padded`, zeros at the end are not entries."""

    __slots__ = ("_count", "_data", "_entry_size", "byte_size")

    def __init__(self, data: Buffer, entry_size: int, *, is_padded: bool = True) -> None:
        self._data = bytes(data)
        self._entry_size = entry_size
        self.byte_size = len(self._data)
        used = len(self._data.rstrip(b"\0")) if is_padded else self.byte_size
        self._count = min(-(-used // entry_size), self.byte_size // entry_size)

    def __len__(self) -> int:
        return self._count

    def at(self, slot: Slot) -> Found | None:
        """Return an entry, None at or after the logical end."""
        return (slot, self._data, slot * self._entry_size) if 0 <= slot < self._count else None

    def last(self) -> Found | None:
        """Return the last entry, None without one."""
        return self.at(self._count - 1)

    def floor(self, column: Column, target: int) -> Found | None:
        """Return the entry of the largest slot with a number in `column` at or below `target`."""
        return self.at(floor_slot(self._data, self._count, column, target))

    def ceiling(self, column: Column, target: int) -> Found | None:
        """Return the entry of the smallest slot with a number in `column` at or above `target`."""
        return self.at(floor_slot(self._data, self._count, column, target - 1) + 1)

    def chunks(self) -> Iterator[bytes]:
        """Yield all entries in order, some thousand bytes at a time."""
        if self._count:
            yield self._data[: self._count * self._entry_size]


class _PageCache:
    """Pages of all indexes in two generations: when the younger one is full, the older one is dropped.

    Not locked, which would cost more: two threads at once may lose or duplicate a page, but never
    mix pages up.
    """

    def __init__(self, limit: int) -> None:
        self._half = limit // 2
        self._young: dict[tuple[int, int], bytes] = {}
        self._old: dict[tuple[int, int], bytes] = {}

    def get(self, key: tuple[int, int]) -> bytes | None:
        page = self._young.get(key)
        if page is None:
            page = self._old.get(key)
            if page is not None:
                self.put(key, page)
        return page

    def put(self, key: tuple[int, int], page: bytes) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[key] = page


_PAGES = _PageCache(_CACHED_PAGES)
_serials = itertools.count()


class _ChangedError(Exception):
    """The file became shorter, or was replaced, during a look-up."""


class _State:
    """Cached state of a file, valid while its identity, size and mtime stay."""

    __slots__ = (
        "count",
        "fences",
        "first",
        "is_padded",
        "key",
        "serial",
        "starts",
        "until",
        "warm_key",
    )

    def __init__(
        self, key: tuple[int, int, int, int], count: int, page_entries: int, is_padded: bool
    ) -> None:
        self.key = key
        self.count = count
        self.first = max(count - page_entries, 0)
        self.is_padded = is_padded
        self.serial = next(_serials)
        self.warm_key = (self.serial, -1)
        self.fences: dict[Column, list[int | None]] = {}  # the first number of each page
        self.starts: dict[Column, int] = {}  # the first number of the warm end
        self.until = 0.0


class _End(NamedTuple):
    """Warm end of the file: `warm` has the entries from slot `first` to `count`."""

    entries: int
    first: Slot
    warm: bytes


class FileSlots:
    """Entries of a source file that may grow, shrink or be replaced at any moment; safe from several threads.

    `floor` and `ceiling` check the file's size and mtime at most 20 times a second, since their
    result is only a hint. All other methods check each time.
    """

    __slots__ = ("_entry_size", "_open", "_page_entries", "_state")

    def __init__(self, open_file: Callable[[], SourceFile], entry_size: int) -> None:
        self._open = open_file
        self._entry_size = entry_size
        self._page_entries = max(WARM_BYTES // entry_size, 1)
        self._state: _State | None = None

    @property
    def byte_size(self) -> int:
        """Current length of the file, with padding."""
        return self._open().size()

    def __len__(self) -> int:
        return self._retry(lambda: self._end(self._asked()).entries, 0)

    def at(self, slot: Slot) -> Found | None:
        """Return an entry, None at or after the logical end."""
        return self._retry(lambda: self._at(self._asked(), slot), None)

    def last(self) -> Found | None:
        """Return the last entry, None without one."""
        return self._retry(self._last, None)

    def floor(self, column: Column, target: int) -> Found | None:
        """Return the entry of the largest slot with a number in `column` at or below `target`."""
        state = self._state
        if state is not None and not state.is_padded and time.monotonic() < state.until:
            try:
                return self._floor(state, column, target)
            except _ChangedError:
                self._state = None
        return self._retry(lambda: self._floor(self._trusted(), column, target), None)

    def ceiling(self, column: Column, target: int) -> Found | None:
        """Return the entry of the smallest slot with a number in `column` at or above `target`."""
        below = self.floor(column, target - 1)
        slot = 0 if below is None else below[0] + 1
        return self._retry(lambda: self._at(self._trusted(), slot), None)

    def chunks(self) -> Iterator[bytes]:
        """Yield all entries in order, without those appended during the iteration."""
        left = len(self)
        file, position = self._open(), 0
        while left > 0:
            entries = min(left, self._page_entries * _READ_PAGES)
            data = file.read_at(position, entries * self._entry_size)
            whole = len(data) // self._entry_size
            if whole:
                yield data[: whole * self._entry_size]
            if whole < entries:
                return
            position += entries * self._entry_size
            left -= entries

    def _retry(self, look_up: Callable[[], Answer], nothing: Answer) -> Answer:
        """Return the result of a look-up on one state of the file, `nothing` if the file keeps changing."""
        for _ in range(_ATTEMPTS):
            try:
                return look_up()
            except _ChangedError:
                self._state = None
        return nothing

    def _at(self, state: _State, slot: Slot) -> Found | None:
        count, first, warm = self._end(state)
        if not 0 <= slot < count:
            return None
        if slot >= first:
            return slot, warm, (slot - first) * self._entry_size
        page, index = divmod(slot, self._page_entries)
        return slot, self._page(state, page), index * self._entry_size

    def _last(self) -> Found | None:
        count, first, warm = self._end(self._asked())
        return (count - 1, warm, (count - 1 - first) * self._entry_size) if count else None

    def _floor(self, state: _State, column: Column, target: int) -> Found | None:
        start = state.starts.get(column)
        if start is not None and target < start:
            return self._cold_floor(state, column, target, state.first)
        count, first, warm = self._end(state)
        if count and not state.is_padded:
            state.starts[column] = column.value_at(warm, 0)
        index = floor_slot(warm, count - first, column, target)
        if index >= 0:
            return first + index, warm, index * self._entry_size
        return self._cold_floor(state, column, target, first)

    def _cold_floor(self, state: _State, column: Column, target: int, end: Slot) -> Found | None:
        """Return the floor among the slots before the warm end."""
        number = self._floor_page(state, column, target, end) if end else -1
        if number < 0:
            return None
        page = self._page(state, number)
        index = floor_slot(page, self._page_entries, column, target)
        if index < 0:
            return None
        return number * self._page_entries + index, page, index * self._entry_size

    def _floor_page(self, state: _State, column: Column, target: int, end: Slot) -> int:
        """Return the last page before slot `end` with a first number at or below `target`, -1 without one."""
        low, high = 0, -(-end // self._page_entries)
        fences = state.fences.get(column)
        if fences is None or len(fences) < high:
            fences = state.fences[column] = [None] * high
        while low < high:
            middle = (low + high) >> 1
            first = fences[middle]
            if first is None:
                entry = self._read(state, middle * self._page_entries, 1)
                first = fences[middle] = column.value_at(entry, 0)
            if first <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _page(self, state: _State, page: int) -> bytes:
        """Return a page below the warm end; it is always full."""
        key = (state.serial, page)
        data = _PAGES.get(key)
        if data is None:
            data = self._read(state, page * self._page_entries, self._page_entries)
            _PAGES.put(key, data)
        return data

    def _end(self, state: _State) -> _End:
        if state.is_padded:
            return self._padded_end(state)
        warm = _PAGES.get(state.warm_key)
        if warm is None:
            warm = self._read(state, state.first, state.count - state.first)
            _PAGES.put(state.warm_key, warm)
        return _End(state.count, state.first, warm)

    def _padded_end(self, state: _State) -> _End:
        """Return the warm end, read again, since entries may have replaced padding."""
        entry_size = self._entry_size
        file = self._same_file(state)
        while True:
            count = state.count
            first = max(count - self._page_entries, 0)
            data = file.read_at(first * entry_size, (count - first + _LOOK_AHEAD) * entry_size)
            known = (count - first) * entry_size
            if len(data) < known:
                raise _ChangedError
            more = data[known:].rstrip(b"\0")
            if not more:
                return _End(count, first, data)
            added = min(-(-len(more) // entry_size), (len(data) - known) // entry_size)
            if added < _LOOK_AHEAD:
                state.count = count + added
                return _End(count + added, first, data)
            state.count = self._logical_end(file, file.size() // entry_size, count + added)

    def _trusted(self) -> _State:
        """Return the cached state if it is recent, else the current state."""
        state = self._state
        return state if state is not None and time.monotonic() < state.until else self._asked()

    def _asked(self) -> _State:
        """Return the current state of the file."""
        file = self._open()
        status = file.stat()
        key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        state = self._state
        if state is None or state.key != key:
            self._state = state = self._new_state(file, key)
        state.until = time.monotonic() + _TRUSTED_SECONDS
        return state

    def _new_state(self, file: SourceFile, key: tuple[int, int, int, int]) -> _State:
        slots = key[2] // self._entry_size
        if not slots or not self._is_zero(file, slots):
            return _State(key, slots, self._page_entries, is_padded=False)
        before = self._state
        hint = before.count if before is not None and before.key[:2] == key[:2] else 0
        count = self._logical_end(file, slots, hint)
        return _State(key, count, self._page_entries, is_padded=True)

    def _logical_end(self, file: SourceFile, slots: int, hint: int) -> int:
        """Return the number of entries before the padding, of `slots`; fast if it is near `hint`."""
        low = hint if 0 < hint <= slots and not self._is_zero(file, hint) else 0
        step = _LOOK_AHEAD
        while low + step <= slots and not self._is_zero(file, low + step):
            low += step
            step *= 2
        high = min(low + step, slots + 1)
        while low + 1 < high:
            middle = (low + high) >> 1
            if self._is_zero(file, middle):
                high = middle
            else:
                low = middle
        return low

    def _is_zero(self, file: SourceFile, count: int) -> bool:
        """Return whether the last of the first `count` entries is all zeros, or gone."""
        return not any(file.read_at((count - 1) * self._entry_size, self._entry_size))

    def _same_file(self, state: _State) -> SourceFile:
        file = self._open()
        if (file.device, file.inode) != state.key[:2]:
            raise _ChangedError
        return file

    def _read(self, state: _State, first: Slot, count: int) -> bytes:
        wanted = count * self._entry_size
        data = self._same_file(state).read_at(first * self._entry_size, wanted)
        if len(data) < wanted:
            raise _ChangedError
        return data
