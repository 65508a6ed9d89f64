"""Batches in a file that one thread appends to while others read."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.disk.disk import DISK, Disk, StrPath, WritableFile
from engine.errors import KafkaStorageError
from engine.record.file_records import FileRecords
from engine.record.log_input_stream import Walk, walk_batches
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32, Position


class WritableFileRecords(FileRecords):
    """Batches of a file from its start up to `end`, which grows with each append.

    Bytes after `end` (preallocated zeros, remains of a failed append) are not read; the next append
    overwrites them, and `close` cuts them off. Iterations and slices stop at the `end` of their
    start. Only one thread at a time may append, truncate or close; all may read meanwhile.

    Args:
        file: open file, owned by the records from now on.
        end: end of the batches; None for the current size of the file.
        disk: disk for renames and removals.
        walk: finds the batches.

    Raises KafkaStorageError for a file of 2^31 bytes or more.
    """

    __slots__ = ("_disk", "_out")

    def __init__(
        self,
        file: WritableFile,
        end: Position | None = None,
        *,
        disk: Disk = DISK,
        budgets: Budgets = DEFAULT_BUDGETS,
        walk: Walk = walk_batches,
    ) -> None:
        super().__init__(file, 0, end, budgets=budgets, walk=walk)
        self._out = file
        self._disk = disk

    @classmethod
    def open(
        cls,
        path: StrPath,
        *,
        writable: bool = True,
        file_already_exists: bool = False,
        init_file_size: int = 0,
        preallocate: bool = False,
        disk: Disk = DISK,
        budgets: Budgets = DEFAULT_BUDGETS,
        walk: Walk = walk_batches,
    ) -> Self:
        """Return the batches of a file, which is created if missing, unless it is only read.

        With `preallocate`, a new file has `init_file_size` bytes of zeros, which are not batches.
        Raises OSError, and KafkaStorageError for a file that is too large.
        """
        file = disk.open(path, create=writable, writable=writable)
        try:
            is_new = writable and preallocate and not file_already_exists
            if is_new:
                file.truncate(init_file_size)
            return cls(file, 0 if is_new else None, disk=disk, budgets=budgets, walk=walk)
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether the file is closed."""
        return self._out.is_closed

    def fileno(self) -> int:
        """Return the descriptor. Raises ValueError when closed."""
        return self._out.fileno()

    def read_into(self, buffer: bytearray | memoryview, position: Position) -> int:
        """Fill a buffer from an absolute position on; return the number of bytes before the end."""
        wanted = max(0, min(len(buffer), self.end - position))
        return self._out.read_into(memoryview(buffer)[:wanted], position) if wanted else 0

    def append(self, records: MemoryRecords) -> int:
        """Write batches after the last one; return the number of bytes.

        Raises ValueError if the file would have 2^31 bytes or more, and OSError; then no batch was added.
        """
        size, end = records.size, self.end
        if size > MAX_INT32 - end:
            raise ValueError(
                f"{size} bytes are too many for {self.path}, which has {end} of {MAX_INT32}"
            )
        self._out.write_at(end, records.buffer)
        self.end = end + size
        return size

    def truncate_to(self, size: int) -> int:
        """Truncate the file and return the number of removed bytes of batches; a file of that size is not touched.

        Raises KafkaStorageError for a size below 0 or above the current size.
        """
        before = self.end
        if not 0 <= size <= before:
            raise KafkaStorageError(
                f"{self.path} cannot be truncated to {size} bytes: it has {before} bytes"
            )
        if size < self._out.size():
            self._out.truncate(size)
            self.end = size
        return before - size

    def trim(self) -> None:
        """Cut off the bytes after the last batch."""
        self.truncate_to(self.end)

    def flush(self) -> None:
        """Sync all appended batches to the device."""
        self._out.sync()

    def close(self) -> None:
        """Flush, trim and close the file. May be called twice."""
        if self._out.is_closed:
            return
        self.flush()
        self.trim()
        self._out.close()

    def close_handlers(self) -> None:
        """Close the file without writing: its disk may have failed."""
        self._out.close()

    def delete_if_exists(self) -> bool:
        """Close and remove the file; return whether it existed."""
        self._out.close()
        return self._disk.remove(self.path, missing_ok=True)

    def rename_to(self, path: StrPath) -> None:
        """Rename the file; it stays open. Raises OSError; then the old name stays."""
        self._disk.rename(self.path, path)
        self._out.path = os.fspath(path)

    def update_parent_dir(self, folder: StrPath) -> None:
        """Update the path after the folder was renamed."""
        self._out.path = os.path.join(folder, os.path.basename(self.path))
