"""Batch headers of a partition, kept for the checks that run after its records were read.

They are kept in memory while they are few, then, if allowed, in an anonymous temporary file, which disappears with the
process. Headers that are not kept are walked again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import IO

import numpy as np

from engine.check.partition_under_check import ROWS_KEPT, ROWS_PER_CHUNK, Table
from engine.columns.batch_table import BATCH_ROW

_ROW = BATCH_ROW.size


class KeptRows:
    """Rows of one partition.

    Args:
        file_bytes: maximum size of the temporary file.
        most: maximum number of rows in memory.
    """

    def __init__(self, file_bytes: int = 0, most: int = ROWS_KEPT) -> None:
        self._left = most
        self._room = file_bytes
        self._end = 0
        self._file: IO[bytes] | None = None

    def segment(self) -> SegmentRows:
        """Return an empty collection for the rows of one segment."""
        return SegmentRows(self)

    def close(self) -> None:
        """Drop the file; its rows can no longer be iterated."""
        if self._file is not None:
            self._file.close()

    def take(self, rows: int) -> bool:
        """Reserve memory for some rows. Return False if there is not enough."""
        if rows > self._left:
            return False
        self._left -= rows
        return True

    def give_back(self, rows: int) -> None:
        """Release memory of some rows."""
        self._left += rows

    def write(self, table: Table) -> int | None:
        """Append rows to the file. Return the position of the first one, or None without room."""
        if table.nbytes > self._room:
            return None
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="kafkafs-rows-")  # noqa: SIM115 - see close
            start = self._end
            data = memoryview(table.tobytes())
            while data:
                written = os.pwrite(self._file.fileno(), data, self._end)
                self._end += written
                self._room -= written
                data = data[written:]
        except OSError:
            self._room = 0
            return None
        return start

    def read(self, start: int, end: int) -> Iterator[Table]:
        """Yield the rows between two positions of the file, at most ROWS_PER_CHUNK at a time. Raises OSError."""
        assert self._file is not None
        for at in range(start, end, ROWS_PER_CHUNK * _ROW):
            size = min(ROWS_PER_CHUNK * _ROW, end - at)
            data = os.pread(self._file.fileno(), size, at)
            if len(data) < size:
                raise OSError("a temporary file is shorter than the data written to it")
            yield np.frombuffer(data, BATCH_ROW.dtype)


class SegmentRows:
    """Rows of one segment in file order; can be iterated as tables repeatedly."""

    def __init__(self, kept: KeptRows) -> None:
        self._kept = kept
        self._tables: list[Table] = []
        self._file_start: int | None = None
        self._file_end = 0
        self.is_whole = True
        """Whether all added rows are kept."""

    def add(self, table: Table) -> None:
        """Add the next rows."""
        if not self.is_whole:
            return
        if self._file_start is None and self._kept.take(len(table)):
            self._tables.append(table)
            return
        start = self._kept.write(table)
        if start is None:
            self.is_whole = False
            self._kept.give_back(sum(map(len, self._tables)))
            self._tables.clear()
            return
        if self._file_start is None:
            self._file_start = start
        self._file_end = start + table.nbytes

    def __iter__(self) -> Iterator[Table]:
        yield from self._tables
        if self._file_start is not None:
            yield from self._kept.read(self._file_start, self._file_end)
