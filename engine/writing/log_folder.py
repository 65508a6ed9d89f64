"""Folder of a writable log, with the configuration and services that all parts of the log share."""

from __future__ import annotations

import os
import uuid
from contextlib import AbstractContextManager

from engine.clock import SYSTEM_CLOCK, Clock
from engine.disk.disk import DISK, Disk, StrPath
from engine.files.file_names import FolderState, folder_name, parse_folder_name
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.scheduler import Scheduler


class WritableLogFolder:
    """Folder of a partition's log.

    Attributes:
        path: current path; `rename` changes it.
        log_dir: log dir with the folder.
        topic_partition: partition of the log.
        config: current configuration of the log.
        scheduler: runs delayed deletions and flushes.
        clock: source of the time.
        channel: receives the I/O errors of the log dir.
        disk: disk to read and write with.
    """

    __slots__ = (
        "channel",
        "clock",
        "config",
        "disk",
        "log_dir",
        "path",
        "scheduler",
        "topic_partition",
    )

    def __init__(
        self,
        path: StrPath,
        topic_partition: TopicPartition,
        config: LogConfig,
        scheduler: Scheduler,
        clock: Clock = SYSTEM_CLOCK,
        channel: LogDirFailureChannel | None = None,
        disk: Disk = DISK,
    ) -> None:
        self.path = os.fspath(path)
        self.log_dir = os.path.dirname(self.path)
        self.topic_partition = topic_partition
        self.config = config
        self.scheduler = scheduler
        self.clock = clock
        self.channel = LogDirFailureChannel() if channel is None else channel
        self.disk = disk

    def __repr__(self) -> str:
        return f"WritableLogFolder({self.path!r})"

    @property
    def name(self) -> str:
        """Name of the folder."""
        return os.path.basename(self.path)

    @property
    def is_future(self) -> bool:
        """Whether the log will replace the partition's log in another log dir."""
        return self.path.endswith(FolderState.FUTURE.value)

    @property
    def is_being_deleted(self) -> bool:
        """Whether the log is marked for deletion."""
        return os.path.abspath(self.path).endswith(FolderState.DELETE.value)

    def reporting(self, what: str) -> AbstractContextManager[None]:
        """Return a context manager in which an OSError takes the log dir offline.

        Args:
            what: the failure up to the name of the log, as in "cannot flush".

        Raises:
            LogDirFailureError: the log dir was offline before, or goes offline now.
        """
        where = f"{self.topic_partition} in {self.log_dir}"
        return self.channel.reporting(self.log_dir, f"{what} {where}")

    def sync(self) -> None:
        """Sync the names in the folder to the device. Raises OSError."""
        self.disk.sync_folder(self.path)

    def rename(self, name: str) -> bool:
        """Rename the folder within its log dir; return whether the name is new. Raises OSError."""
        renamed = os.path.join(self.log_dir, name)
        self.disk.rename(self.path, renamed)
        is_new = renamed != self.path
        self.path = renamed
        return is_new


def parse_topic_partition_name(folder: StrPath) -> TopicPartition:
    """Return the partition of a log's folder. Raises InvalidNameError for another folder."""
    return parse_folder_name(os.path.basename(folder)).topic_partition


def log_dir_name(topic_partition: TopicPartition) -> str:
    """Return the name of a partition's folder."""
    return folder_name(topic_partition)


def log_delete_dir_name(topic_partition: TopicPartition) -> str:
    """Return a new name for the folder of a log to delete, of 255 characters at most."""
    return _marked(topic_partition, FolderState.DELETE)


def log_stray_dir_name(topic_partition: TopicPartition) -> str:
    """Return a new name for the folder of a log that does not belong to this broker, of 255 characters at most."""
    return _marked(topic_partition, FolderState.STRAY)


def log_future_dir_name(topic_partition: TopicPartition) -> str:
    """Return a new name for the folder of a log that will replace the one in another log dir."""
    return _marked(topic_partition, FolderState.FUTURE)


def _marked(topic_partition: TopicPartition, state: FolderState) -> str:
    return folder_name(topic_partition, state, uuid.uuid4().hex)
