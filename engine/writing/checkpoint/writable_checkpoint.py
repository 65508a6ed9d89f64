"""A checkpoint file that is read and replaced as a whole."""

from __future__ import annotations

import logging
import os
import threading

from engine.writing.disk import DISK, Disk, StrPath

log = logging.getLogger(__name__)


class WritableCheckpoint:
    """A file that is there from now on, empty at first; threads may share it.

    Args:
        path: its folder must be there.
        disk: what opens and replaces the file.

    Raises OSError, as all that is done with it does; a write that fails leaves the old content.
    """

    def __init__(self, path: StrPath, disk: Disk = DISK) -> None:
        self.path = os.fspath(path)
        self._disk = disk
        self._lock = threading.Lock()
        if not disk.exists(self.path):
            disk.open(self.path, create=True).close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def _read_bytes(self) -> bytes:
        with self._lock:
            return self._disk.read(self.path)

    def _write_bytes(self, data: bytes) -> None:
        with self._lock:
            self._disk.replace_atomically(self.path, data)

    def _write_bytes_if_dir_exists(self, data: bytes) -> None:
        try:
            self._write_bytes(data)
        except FileNotFoundError:
            log.warning("%s is not written: its folder is gone", self.path)
