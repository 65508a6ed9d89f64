"""An object of a store as a source file: each read fetches its bytes first."""

from __future__ import annotations

import os

from engine.errors import UnreadableError
from engine.files.source_files import SourceFile
from engine.files.stores import StoredBytes
from engine.files.unreadable import Stretches

_LOOK_UP = 256 * 1024
"""Bytes that a look-up fetches at first: entries of an index are some KiB of batches apart."""


class StoredFile(SourceFile):
    """An object of a store: size and times are those it was listed with, its bytes those of its etag.

    Reads raise UnreadableError for bytes that the store does not give.
    """

    __slots__ = ("_stored",)

    def __init__(self, stored: StoredBytes, path: str, status: os.stat_result) -> None:
        super().__init__(stored.descriptor, path, status)
        self._stored = stored
        self.unreadable = Stretches()  # the ways past the Python code are for files of a disk

    @property
    def fd(self) -> int:
        if self.descriptor >= 0:
            self._fetch(0, self.opened_as.st_size)
        return self.descriptor

    def reach(self, start: int, end: int, size: int | None = None) -> int:
        end = min(end, start + (_LOOK_UP if size is None else size))
        self._fetch(start, end)
        return end

    def stat(self) -> os.stat_result:
        self._open_fd()
        return self.opened_as

    def size(self) -> int:
        return self.opened_as.st_size

    def read_at(self, position: int, size: int) -> bytes:
        self._fetch(position, position + size)
        return super().read_at(position, size)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        self._fetch(position, position + memoryview(buffer).nbytes)
        return super().read_into(buffer, position)

    def _fetch(self, start: int, end: int) -> None:
        self._open_fd()
        end = min(end, self.opened_as.st_size)
        if not 0 <= start < end:
            return
        try:
            self._stored.fetch(start, end)
        except OSError as error:
            start, end = self._stored.missing(start, end)
            raise UnreadableError(error.errno or 0, self.path, start, end - start) from None
