"""The .kafka_cleanshutdown of a log dir that is written."""

from __future__ import annotations

import os

from engine.checkpoint.clean_shutdown import (
    CURRENT_VERSION,
    CleanShutdown,
    parse_clean_shutdown,
    render_clean_shutdown,
)
from engine.errors import CorruptCheckpointError
from engine.files.file_names import CLEAN_SHUTDOWN
from engine.writing.disk import DISK, Disk, StrPath


class CleanShutdownFile:
    """Written last when a log dir is closed, and removed before anything in it is changed again.

    Args:
        folder: the log dir.
        disk: what reads, replaces and removes the file.
    """

    def __init__(self, folder: StrPath, disk: Disk = DISK) -> None:
        self._folder = os.fspath(folder)
        self.path = os.path.join(self._folder, CLEAN_SHUTDOWN)
        self._disk = disk

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def write(self, broker_epoch: int, version: int = CURRENT_VERSION) -> None:
        """Say that the log dir was closed; on the device when this returns. Raises OSError."""
        data = render_clean_shutdown(CleanShutdown(version, broker_epoch))
        self._disk.replace_atomically(self.path, data)

    def read(self) -> int | None:
        """Return the epoch of the broker that closed the log dir, None when the file does not say."""
        try:
            return parse_clean_shutdown(self._disk.read(self.path), path=self.path).broker_epoch
        except (OSError, CorruptCheckpointError):
            return None

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self._disk.exists(self.path)

    def delete(self) -> None:
        """Remove the file if it is there; gone from the device when this returns. Raises OSError.

        If it came back after a crash, a log that needs recovery would be taken for one that was closed.
        """
        if self._disk.remove(self.path, missing_ok=True):
            self._disk.sync_folder(self._folder)
