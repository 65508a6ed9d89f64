"""Read and write an offset checkpoint of a log dir."""

from __future__ import annotations

from collections.abc import Mapping

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint, render_offset_checkpoint
from engine.units import Offset, TopicPartition
from engine.writing.checkpoint.writable_checkpoint import WritableCheckpoint


class OffsetCheckpointFile(WritableCheckpoint):
    """An offset for each partition; see WritableCheckpoint for arguments and errors."""

    def read(self) -> dict[TopicPartition, Offset]:
        """Return the offsets. Raises CorruptCheckpointError and LimitExceededError."""
        return parse_offset_checkpoint(self._read_bytes(), path=self.path)

    def write(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the offsets, keeping their order; on the device on return."""
        self._write_bytes(render_offset_checkpoint(offsets))

    def write_if_dir_exists(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Replace the offsets; do nothing if the folder was renamed or removed meanwhile."""
        self._write_bytes_if_dir_exists(render_offset_checkpoint(offsets))
