"""Topic id of a log, in memory and in partition.metadata."""

from __future__ import annotations

import logging
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
from engine.files.file_names import PARTITION_METADATA
from engine.writing.log_folder import WritableLogFolder

logger = logging.getLogger(__name__)


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


class TopicIdentity:
    """Topic id of a log, which never changes once it is known.

    Args:
        folder: folder of the log.
        topic_id: topic id in base64, if the caller knows it.

    Attributes:
        topic_id: topic id in base64, None if unknown.
        file: file of the id, which is written a little later than the id is assigned; None once the log
            is marked for deletion.

    Raises:
        InconsistentTopicIdError: the file has another id.
        CorruptCheckpointError: the file is damaged.
        LogDirFailureError: the file cannot be read.
    """

    def __init__(self, folder: WritableLogFolder, topic_id: str | None) -> None:
        self._folder = folder
        self.topic_id = topic_id
        file = self._file_in_folder()
        self.file: PartitionMetadataFile | None = file
        with folder.reporting("cannot read the topic id of"):
            known = file.read().topic_id if file.exists() else None
        if known is not None:
            self._check(topic_id, known)
            self.topic_id = known
        elif topic_id is not None:
            self._record(file, topic_id)

    def follow_folder(self) -> None:
        """Use the file in the renamed folder from now on."""
        self.file = self._file_in_folder()

    def forget_file(self) -> None:
        """Write no file from now on: the folder will be deleted."""
        self.file = None

    def assign(self, topic_id: str) -> None:
        """Assign a topic id to a log without one.

        Raises:
            InconsistentTopicIdError: the log has another id.
        """
        if self.topic_id is not None:
            self._check(topic_id, self.topic_id)
            return
        self.topic_id = topic_id
        if self.file is None:
            partition = self._folder.topic_partition
            logger.warning("the topic id %s of %s is not written", topic_id, partition)
        elif not self.file.exists():
            self._record(self.file, topic_id)

    def maybe_flush(self) -> None:
        """Write the file if the id is not written yet."""
        file = self.file
        if file is None or file.unwritten is None:
            return
        try:
            file.maybe_flush()
        except OSError:
            with self._folder.reporting("cannot write the topic id of"):
                raise

    def _file_in_folder(self) -> PartitionMetadataFile:
        path = os.path.join(self._folder.path, PARTITION_METADATA)
        return PartitionMetadataFile(path, self._folder.disk)

    def _record(self, file: PartitionMetadataFile, topic_id: str) -> None:
        file.record(topic_id)
        self._folder.scheduler.schedule("flush-metadata-file", self.maybe_flush)

    def _check(self, given: str | None, known: str) -> None:
        if given is not None and given != known:
            raise InconsistentTopicIdError(
                f"the topic id {given} was given for {self._folder.topic_partition}, which has {known}"
            )
