"""Write and remove the .kafka_cleanshutdown of a log dir."""

from __future__ import annotations

import os

from engine.checkpoint.clean_shutdown import (
    CURRENT_VERSION,
    CleanShutdown,
    parse_clean_shutdown,
    render_clean_shutdown,
)
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import CorruptCheckpointError
from engine.files.file_names import CLEAN_SHUTDOWN


class CleanShutdownFile:
    """The file that is written last when a log dir is closed, and removed before anything in it changes again.

    Args:
        folder: the log dir.
        disk: disk to read, replace and remove the file.
    """

    def __init__(self, folder: StrPath, disk: Disk = DISK) -> None:
        self._folder = os.fspath(folder)
        self.path = os.path.join(self._folder, CLEAN_SHUTDOWN)
        self._disk = disk

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def write(self, broker_epoch: int, version: int = CURRENT_VERSION) -> None:
        """Write that the log dir was closed; on the device on return. Raises OSError."""
        data = render_clean_shutdown(CleanShutdown(version, broker_epoch))
        self._disk.replace_atomically(self.path, data)

    def read(self) -> int | None:
        """Return the epoch of the broker that closed the log dir, None if the file has none."""
        try:
            return parse_clean_shutdown(self._disk.read(self.path), path=self.path).broker_epoch
        except (OSError, CorruptCheckpointError):
            return None

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._disk.exists(self.path)

    def delete(self) -> None:
        """Remove the file if it exists; removed from the device on return. Raises OSError.

        If the file came back after a crash, a log that needs recovery would count as cleanly closed.
        """
        if self._disk.remove(self.path, missing_ok=True):
            self._disk.sync_folder(self._folder)
