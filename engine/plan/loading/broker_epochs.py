"""A log's leader-epoch-checkpoint, read by Java's rules."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.disk.disk import Disk
from engine.files.file_names import LEADER_EPOCH_CHECKPOINT
from engine.plan.loading.java_text import TEXT_LIMIT, parse_epochs
from engine.units import EpochEntry
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile


class BrokerEpochCheckpoint:
    """The checkpoint of a LeaderEpochFileCache.

    Args:
        folder: folder of the log.
        disk: disk with the folder.
    """

    def __init__(self, folder: str, disk: Disk) -> None:
        self._path = os.path.join(folder, LEADER_EPOCH_CHECKPOINT)
        self._disk = disk
        self._file = LeaderEpochCheckpointFile(self._path, disk)

    def read(self) -> list[EpochEntry]:
        """Return the entries. Raises BrokerFailure."""
        return read_epochs(self._disk, self._path)

    def write(self, entries: Sequence[EpochEntry]) -> None:
        """Write the entries."""
        self._file.write(entries)

    def write_if_dir_exists(self, entries: Sequence[EpochEntry]) -> None:
        """Write the entries, if the folder exists."""
        self._file.write_if_dir_exists(entries)


class NoCheckpoint:
    """A checkpoint without a file, for a first try at a recovery, which may be repeated."""

    def read(self) -> list[EpochEntry]:
        """Return no entries."""
        return []

    def write(self, entries: Sequence[EpochEntry]) -> None:
        """Do nothing."""

    def write_if_dir_exists(self, entries: Sequence[EpochEntry]) -> None:
        """Do nothing."""


def read_epochs(disk: Disk, path: str) -> list[EpochEntry]:
    """Return the entries of a leader-epoch-checkpoint. Raises BrokerFailure, OSError."""
    with disk.open(path, writable=False) as file:
        return parse_epochs(file.read_at(0, TEXT_LIMIT), path, file.size())
