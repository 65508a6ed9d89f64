"""Read and write the leader-epoch-checkpoint of a partition."""

from __future__ import annotations

from collections.abc import Iterable

from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs, render
from engine.units import EpochEntry
from engine.writing.checkpoint.writable_checkpoint import WritableCheckpoint


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
