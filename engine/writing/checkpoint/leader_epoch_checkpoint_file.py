"""Read and write the leader-epoch-checkpoint of a partition."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs, render
from engine.files.file_names import LEADER_EPOCH_CHECKPOINT
from engine.units import EpochEntry
from engine.writing.checkpoint.writable_checkpoint import WritableCheckpoint
from engine.writing.log_folder import WritableLogFolder


class LeaderEpochCheckpointFile(WritableCheckpoint):
    """Leader epochs of a partition with their start offsets; see WritableCheckpoint for arguments and errors."""

    def read(self) -> list[EpochEntry]:
        """Return the entries. Raises CorruptCheckpointError and LimitExceededError."""
        return parse_leader_epochs(self._read_bytes(), path=self.path)

    def write(self, entries: Iterable[EpochEntry]) -> None:
        """Replace the entries; on the device on return."""
        self._write_bytes(render(entries))

    def write_if_dir_exists(self, entries: Iterable[EpochEntry]) -> None:
        """Replace the entries; do nothing if the folder was renamed or removed meanwhile."""
        self._write_bytes_if_dir_exists(render(entries))


class LogEpochCheckpoint:
    """Checkpoint of a log that takes the log dir offline when it fails.

    Every method raises LogDirFailureError if the disk fails, or failed before.

    Args:
        folder: folder of the log, at its current path.
    """

    def __init__(self, folder: WritableLogFolder) -> None:
        self._folder = folder
        with folder.reporting("cannot make the leader epochs of"):
            self._file = LeaderEpochCheckpointFile(
                os.path.join(folder.path, LEADER_EPOCH_CHECKPOINT), folder.disk
            )

    def read(self) -> list[EpochEntry]:
        """Return the entries. Raises CorruptCheckpointError."""
        with self._folder.reporting("cannot read the leader epochs of"):
            return self._file.read()

    def write(self, entries: Sequence[EpochEntry]) -> None:
        """Replace the entries; on the device on return."""
        with self._folder.reporting("cannot write the leader epochs of"):
            self._file.write(entries)

    def write_if_dir_exists(self, entries: Sequence[EpochEntry]) -> None:
        """Replace the entries; do nothing if the folder was renamed or removed meanwhile."""
        with self._folder.reporting("cannot write the leader epochs of"):
            self._file.write_if_dir_exists(entries)
