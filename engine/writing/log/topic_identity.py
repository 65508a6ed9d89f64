"""Whose log a folder holds: the topic's id, in memory and in partition.metadata."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from engine.errors import InconsistentTopicIdError
from engine.units import TopicPartition
from engine.writing.checkpoint.partition_metadata_file import PartitionMetadataFile
from engine.writing.disk import Disk, StrPath
from engine.writing.scheduler import Scheduler

log = logging.getLogger(__name__)

FILE_NAME = "partition.metadata"


class TopicIdentity:
    """The topic id of a log, which never changes once it is known.

    Args:
        folder: the log's.
        partition: for errors.
        topic_id: in base64, if the caller knows it.
        scheduler: writes the file a little later than the id is given.
        reporting: wraps what touches the disk.
        disk: where the file is.

    Raises:
        InconsistentTopicIdError: the file has another id than the caller.
        CorruptCheckpointError: the file is damaged.
        LogDirFailureError: the file cannot be read.
    """

    def __init__(
        self,
        folder: StrPath,
        partition: TopicPartition,
        topic_id: str | None,
        scheduler: Scheduler,
        reporting: Callable[[str], AbstractContextManager[None]],
        disk: Disk,
    ) -> None:
        self._partition = partition
        self._scheduler = scheduler
        self._reporting = reporting
        self._disk = disk
        self.topic_id = topic_id
        file = self._file_in(folder)
        self.file: PartitionMetadataFile | None = file
        with reporting("cannot read the topic id of"):
            known = file.read().topic_id if file.exists() else None
        if known is not None:
            self._check(topic_id, known)
            self.topic_id = known
        elif topic_id is not None:
            file.record(topic_id)
            scheduler.schedule("flush-metadata-file", self.maybe_flush)

    def _file_in(self, folder: StrPath) -> PartitionMetadataFile:
        return PartitionMetadataFile(os.path.join(folder, FILE_NAME), self._disk)

    def follow(self, folder: StrPath) -> None:
        """The log's folder has another name now."""
        self.file = self._file_in(folder)

    def forget_file(self) -> None:
        """The folder is to be deleted: nothing more is written into it."""
        self.file = None

    def assign(self, topic_id: str) -> None:
        """Give a log without one a topic id.

        Raises:
            InconsistentTopicIdError: it has another one.
        """
        if self.topic_id is not None:
            self._check(topic_id, self.topic_id)
            return
        self.topic_id = topic_id
        if self.file is None:
            log.warning("the topic id %s of %s is not written", topic_id, self._partition)
        elif not self.file.exists():
            self.file.record(topic_id)
            self._scheduler.schedule("flush-metadata-file", self.maybe_flush)

    def maybe_flush(self) -> None:
        """Write the file if there is an id that it does not have yet."""
        if self.file is None:
            return
        try:
            self.file.maybe_flush()
        except OSError:
            with self._reporting("cannot write the topic id of"):
                raise

    def _check(self, given: str | None, known: str) -> None:
        if given is not None and given != known:
            raise InconsistentTopicIdError(
                f"the topic id {given} was given for {self._partition}, which has {known}"
            )
