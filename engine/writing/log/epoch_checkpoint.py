"""The leader epochs' file of a log, whose failures take the log dir offline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager

from engine.units import EpochEntry
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log_dir_failures import LogDirFailureChannel

FILE_NAME = "leader-epoch-checkpoint"


class EpochCheckpointInLogDir:
    """Where a LeaderEpochFileCache keeps its entries; it is written by whoever has changed them, now or later.

    Args:
        folder: the log's.
        channel: where failures are reported.
        disk: where the file lies.

    Everything raises LogDirFailureError when the disk fails, or did before.
    """

    def __init__(self, folder: StrPath, channel: LogDirFailureChannel, disk: Disk = DISK) -> None:
        self._folder = os.fspath(folder)
        self._channel = channel
        with self._reporting("make"):
            self._file = LeaderEpochCheckpointFile(os.path.join(folder, FILE_NAME), disk)

    def read(self) -> list[EpochEntry]:
        """The entries. Raises CorruptCheckpointError."""
        with self._reporting("read"):
            return self._file.read()

    def write(self, entries: Sequence[EpochEntry]) -> None:
        """Make these the entries, on the device when this returns."""
        with self._reporting("write"):
            self._file.write(entries)

    def write_if_dir_exists(self, entries: Sequence[EpochEntry]) -> None:
        """The same, or nothing when the folder was renamed or removed meanwhile."""
        with self._reporting("write"):
            self._file.write_if_dir_exists(entries)

    def _reporting(self, what: str) -> AbstractContextManager[None]:
        return self._channel.reporting(
            os.path.dirname(self._folder), f"cannot {what} the leader epochs in {self._folder}"
        )
