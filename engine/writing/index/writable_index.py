"""Base of the writable offset and time indexes of a segment.

A new index is preallocated to its largest size, rounded down to whole entries, so that appending
never makes the file longer; it is cut to its entries when the segment rolls or closes. Every entry
of an existing index file is kept. See AbstractIndex in Kafka.
"""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from engine.disk.disk import DISK, Disk, Mapping, StrPath, WritableFile
from engine.errors import OffsetOverflowError, StateError
from engine.index.abstract_index import AbstractIndex
from engine.index.slot_search import Column
from engine.units import MAX_INT32, Offset
from engine.writing.index.mapped_slots import MappedSlots

Entry = TypeVar("Entry")


class WritableIndex(AbstractIndex[Entry]):
    """An index that one thread at a time changes while others read.

    Args:
        path: path of the file, which is created if missing.
        base_offset: base offset of the segment; entries are relative to it.
        max_index_size: bytes to preallocate for a new file, and after `reset`.
        writable: whether entries will be added; a file that is only read must exist.
        disk: disk to open, rename and remove the file.

    Raises ValueError for a new file without room for an entry, and OSError.
    """

    path: str
    offset_column: Column
    """Location of the offset in an entry."""

    def __init__(
        self,
        path: StrPath,
        base_offset: Offset,
        max_index_size: int = -1,
        writable: bool = True,
        *,
        disk: Disk = DISK,
    ) -> None:
        self.path = os.fspath(path)
        super().__init__(b"", base_offset, path=self.path)
        self.max_index_size = max_index_size
        self.writable = writable
        self._disk = disk
        self._lock = threading.RLock()
        self._file, mapping, is_new = self._open_file()
        count = 0 if is_new else mapping.size // self.entry_size
        self._mapped = MappedSlots(mapping, self.entry_size, count)
        self._open_slots = self._mapped
        self._is_synced = not is_new
        self._last = self._last_in_file()

    @property
    def entries(self) -> int:
        """Number of entries."""
        return self._mapped.count

    @property
    def max_entries(self) -> int:
        """Most entries that fit into the file."""
        return self._mapped.capacity

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another entry."""
        slots = self._mapped
        return slots.count >= slots.capacity

    @property
    def length(self) -> int:
        """Bytes of the file."""
        return self._mapped.byte_size

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the entries."""
        return self.entries * self.entry_size

    def relative_offset(self, offset: Offset) -> int:
        """Return an offset relative to the base offset. Raises OffsetOverflowError above 31 bits."""
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_INT32:
            raise OffsetOverflowError(
                f"offset {offset} is out of range for {self.path} with base offset {self.base_offset}"
            )
        return relative

    def can_append_offset(self, offset: Offset) -> bool:
        """Return whether an offset fits into an entry."""
        return 0 <= offset - self.base_offset <= MAX_INT32

    def has_room_for(self, offset: Offset) -> bool:
        """Return whether there is room for another entry, and an offset fits into it."""
        slots = self._mapped
        return slots.count < slots.capacity and 0 <= offset - self.base_offset <= MAX_INT32

    def sanity_check(self) -> None:
        """Raise CorruptIndexError if a quick look shows that the index contradicts itself."""
        self.check()

    def truncate(self) -> None:
        """Remove all entries; the file keeps its length."""
        self._truncate_to_entries(0)

    def truncate_to(self, offset: Offset) -> None:
        """Remove the entries at and above an offset; the file keeps its length."""
        with self._lock:
            below = self._slots.floor(self.offset_column, offset - 1 - self.base_offset)
            self._truncate_to_entries(0 if below is None else below[0] + 1)

    def reset(self) -> None:
        """Remove all entries and preallocate the file again."""
        with self._lock:
            self.truncate()
            self.resize(max(self.max_index_size, 0))

    def resize(self, size: int) -> bool:
        """Set the file's length to the whole entries that fit into `size` bytes; return whether it changed.

        Raises ValueError for a size below that of the entries, StateError for a read-only index,
        and OSError; then nothing has changed.
        """
        with self._lock:
            slots = self._writable_slots()
            rounded = size // self.entry_size * self.entry_size
            if rounded == slots.byte_size:
                return False
            if rounded < self.size_in_bytes:
                raise ValueError(
                    f"{self.path} has {self.size_in_bytes} bytes of entries, more than {size}"
                )
            slots.remap(lambda: self._resized(rounded))
            self._is_synced = False
            return True

    def trim_to_valid_size(self) -> None:
        """Cut the file after its last entry."""
        with self._lock:
            if not self.is_closed:
                self.resize(self.size_in_bytes)

    def flush(self) -> None:
        """Sync all entries to the device."""
        with self._lock:
            if not self.is_closed:
                self._mapped.mapping.sync()
                self._is_synced = True

    def close(self) -> None:
        """Trim, sync what is unsynced, and close. May be called twice.

        After a clean shutdown, which closes the index, nothing flushes or checks it again. A part of an entry at the end
        of a file that was not resized since it was opened stays, as in Kafka: no recovery asked for this index.
        """
        with self._lock:
            if self.writable:
                if not self.length % self.entry_size:
                    self.trim_to_valid_size()
                if not self._is_synced:
                    self.flush()
            self.close_handler()

    def close_handler(self) -> None:
        """Close without trimming: the disk may have failed, or the file is removed."""
        with self._lock:
            super().close()
            self._mapped.close()
            self._file.close()

    def delete_if_exists(self) -> bool:
        """Close and remove the file; return whether it existed."""
        self.close_handler()
        return self._disk.remove(self.path, missing_ok=True)

    def rename_to(self, path: StrPath) -> None:
        """Rename the file; it stays open. Raises OSError; then the old name stays."""
        with self._lock:
            self._disk.rename(self.path, path)
            self._moved(os.fspath(path))

    def update_parent_dir(self, folder: StrPath) -> None:
        """Update the path after the folder was renamed."""
        self._moved(os.path.join(folder, os.path.basename(self.path)))

    def _check_extension(self, offsets: npt.NDArray[np.int64], room: int) -> None:
        """Raise the error that adding entries of these ascending offsets one by one would raise."""
        if len(offsets) > room:
            raise ValueError(
                f"{self.path} is full: it has room for {room} of {len(offsets)} entries"
            )
        for offset in (int(offsets[0]), int(offsets[-1])):
            self.relative_offset(offset)

    @property
    @abstractmethod
    def _none(self) -> Entry:
        """Value of the last entry when there is none."""

    def _last_in_file(self) -> Entry:
        found = self._slots.last()
        return self._none if found is None else self._entry(found)

    def _truncate_to_entries(self, count: int) -> None:
        with self._lock:
            self._writable_slots().truncate(count)
            self._is_synced = False
            self._last = self._last_in_file()

    def _write(self, entries: bytes, last: Entry) -> None:
        """Add entries; the caller holds the lock and has checked them."""
        self._writable_slots().write(entries)
        self._is_synced = False
        self._last = last

    def _put(self, entry: bytes, last: Entry) -> None:
        """Add one entry; the caller holds the lock and has checked it."""
        if self._open_slots is None or not self.writable:
            self._writable_slots()
        self._mapped.put(entry)
        self._is_synced = False
        self._last = last

    def _writable_slots(self) -> MappedSlots:
        if self._open_slots is None:
            raise ValueError(f"{self!r} is closed")
        if not self.writable:
            raise StateError(f"{self.path} was opened read-only")
        return self._mapped

    def _open_file(self) -> tuple[WritableFile, Mapping, bool]:
        """Return the file, its mmap, and whether it is new."""
        try:
            file = self._disk.open(self.path, writable=self.writable)
        except FileNotFoundError:
            if not self.writable:
                raise
            file, mapping = self._new_file()
            return file, mapping, True
        try:
            return file, file.map(file.size()), False
        except BaseException:
            file.close()
            raise

    def _new_file(self) -> tuple[WritableFile, Mapping]:
        size = self.max_index_size // self.entry_size * self.entry_size
        if size <= 0:
            raise ValueError(f"{self.max_index_size} bytes are too few for an entry of {self.path}")
        file = self._disk.open(self.path, exclusive=True)
        try:
            file.truncate(size)
            return file, file.map(size)
        except BaseException:
            file.close()
            self._disk.remove(self.path, missing_ok=True)
            raise

    def _resized(self, size: int) -> Mapping:
        """Return the mmap of the file at its new length; on an error the file and the old mmap are unchanged."""
        file, before = self._file, self._file.size()
        if size > before:
            file.truncate(size)
        try:
            mapping = file.map(size)
        except BaseException:
            if size > before:
                file.truncate(before)
            raise
        if size < before:
            try:
                file.truncate(size)
            except BaseException:
                mapping.close()
                raise
        return mapping

    def _moved(self, path: str) -> None:
        self.path = path
        self._file.path = path
