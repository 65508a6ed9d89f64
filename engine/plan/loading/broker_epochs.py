"""leader-epoch-checkpoint of a log that a broker loads: read by Java's rules, written as everywhere."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.files.file_names import LEADER_EPOCH_CHECKPOINT
from engine.plan.loading.java_text import TEXT_LIMIT, parse_epochs
from engine.units import EpochEntry
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from engine.writing.disk import Disk


class BrokerEpochCheckpoint:
    """Where a LeaderEpochFileCache keeps its entries.

    Args:
        folder: the log's.
        disk: where the file lies.
    """

    def __init__(self, folder: str, disk: Disk) -> None:
        self._path = os.path.join(folder, LEADER_EPOCH_CHECKPOINT)
        self._disk = disk
        self._file = LeaderEpochCheckpointFile(self._path, disk)

    def read(self) -> list[EpochEntry]:
        """The entries. Raises BrokerFailure."""
        return read_epochs(self._disk, self._path)

    def write(self, entries: Sequence[EpochEntry]) -> None:
        """Make these the entries."""
        self._file.write(entries)

    def write_if_dir_exists(self, entries: Sequence[EpochEntry]) -> None:
        """The same; nothing takes the folder away here."""
        self._file.write_if_dir_exists(entries)


class NoCheckpoint:
    """Keeps nothing: for a first try at a recovery, which may have to be done again."""

    def read(self) -> list[EpochEntry]:
        """No entries."""
        return []

    def write(self, entries: Sequence[EpochEntry]) -> None:
        """Nothing."""

    def write_if_dir_exists(self, entries: Sequence[EpochEntry]) -> None:
        """Nothing."""


def read_epochs(disk: Disk, path: str) -> list[EpochEntry]:
    """The entries of a leader-epoch-checkpoint. Raises BrokerFailure, OSError."""
    with disk.open(path, writable=False) as file:
        return parse_epochs(file.read_at(0, TEXT_LIMIT), path, file.size())
