"""Read and write the partition.metadata of a partition."""

from __future__ import annotations

import os
import threading

from engine.checkpoint.base64_uuid import canonical_uuid
from engine.checkpoint.partition_metadata import (
    CURRENT_VERSION,
    PartitionMetadata,
    parse_partition_metadata,
    render_partition_metadata,
)
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import InconsistentTopicIdError


class PartitionMetadataFile:
    """A topic id, in memory until it is flushed; safe from several threads.

    Args:
        path: path of the file, which need not exist.
        disk: disk to read and replace the file.

    Attributes:
        unwritten: id that waits for the next flush.
    """

    def __init__(self, path: StrPath, disk: Disk = DISK) -> None:
        self.path = os.fspath(path)
        self._disk = disk
        self._lock = threading.Lock()
        self.unwritten: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def record(self, topic_id: str) -> None:
        """Keep the id, in base64, for the next flush.

        Raises InconsistentTopicIdError if another id is waiting, ValueError if it is no UUID.
        """
        topic_id = canonical_uuid(topic_id)
        unwritten = self.unwritten
        if unwritten is not None and unwritten != topic_id:
            raise InconsistentTopicIdError(
                f"topic id {topic_id} cannot be recorded in {self.path}: {unwritten} was recorded before"
            )
        self.unwritten = topic_id

    def maybe_flush(self) -> None:
        """Write the recorded id, if any; on the device on return. Raises OSError."""
        if self.unwritten is None:
            return
        with self._lock:
            topic_id = self.unwritten
            if topic_id is not None:
                metadata = PartitionMetadata(CURRENT_VERSION, topic_id)
                self._disk.replace_atomically(self.path, render_partition_metadata(metadata))
                self.unwritten = None

    def read(self) -> PartitionMetadata:
        """Return the content of the file. Raises OSError and CorruptCheckpointError."""
        with self._lock:
            return parse_partition_metadata(self._disk.read(self.path), path=self.path)

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self._disk.exists(self.path)

    def delete(self) -> None:
        """Remove the file. Raises FileNotFoundError and other OSErrors."""
        self._disk.remove(self.path)
