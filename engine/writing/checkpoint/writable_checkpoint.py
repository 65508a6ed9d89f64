"""Read and replace a checkpoint file as a whole."""

from __future__ import annotations

import logging
import os
import threading

from engine.disk.disk import DISK, Disk, StrPath

logger = logging.getLogger(__name__)


class WritableCheckpoint:
    """A checkpoint file, created empty if missing; safe from several threads.

    Args:
        path: path of the file; its folder must exist.
        disk: disk to open and replace the file.

    Raises OSError, as all its methods do; a failed write leaves the old content.
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
            logger.warning("%s is not written: its folder is gone", self.path)
