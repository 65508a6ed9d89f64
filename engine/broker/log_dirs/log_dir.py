"""One log dir: its lock, checkpoints, clean shutdown file and log folders."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable

from engine.broker.checkpoint.clean_shutdown_file import CleanShutdownFile
from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.log.unified_log import UnifiedLog
from engine.checkpoint.meta_properties import parse_meta_properties
from engine.disk.disk import DISK, Disk, StrPath
from engine.disk.file_lock import FileLock
from engine.errors import DirectoryLockedError, KafkaStorageError
from engine.files.file_names import (
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE_FOLDER,
    REPLICATION_OFFSET_CHECKPOINT,
)
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset, TopicPartition
from engine.writing.log_folder import parse_topic_partition_name

logger = logging.getLogger(__name__)


class LogDir:
    """A log dir that this process keeps locked until `unlock`.

    Args:
        path: path of the log dir, created if missing.
        disk: disk to write with.

    Attributes:
        path: absolute path.
        directory_id: id in meta.properties; None without one.
        had_clean_shutdown: whether it was cleanly closed before; set by `begin_loading`.
        is_loaded: whether all its logs were loaded.

    Raises:
        DirectoryLockedError: a broker or another LogDir has the lock.
        CorruptCheckpointError: its meta.properties is damaged.
        OSError: the log dir cannot be used.
    """

    def __init__(self, path: StrPath, disk: Disk = DISK) -> None:
        self.path = os.path.abspath(path)
        self._disk = disk
        self.had_clean_shutdown = False
        self.is_loaded = False
        self._lock = self._locked()
        try:
            self.directory_id = self._read_directory_id()
            self.recovery_points = self._checkpoint(RECOVERY_POINT_CHECKPOINT)
            self.log_start_offsets = self._checkpoint(LOG_START_OFFSET_CHECKPOINT)
            self.high_watermarks = self._checkpoint(REPLICATION_OFFSET_CHECKPOINT)
            self.clean_shutdown = CleanShutdownFile(self.path, disk)
            self._begun_within = set(read_offsets(self.log_start_offsets))
        except BaseException:
            self._lock.destroy()
            raise

    def __repr__(self) -> str:
        return f"LogDir({self.path!r})"

    def log_folders(self) -> list[str]:
        """Return the paths of the log folders, also of deleted, stray and future logs.

        The folder of the metadata log is left out.

        Raises:
            InvalidNameError: a folder has a name that no broker gives.
        """
        found = []
        for name in self._disk.list(self.path):
            path = os.path.join(self.path, name)
            if name == REMOTE_INDEX_CACHE_FOLDER or not self._disk.is_dir(path):
                continue
            if parse_topic_partition_name(path).topic != CLUSTER_METADATA:
                found.append(path)
        return found

    def begin_loading(self) -> None:
        """Remove the clean shutdown file: a crash while logs are loaded is not clean."""
        self.had_clean_shutdown = self.clean_shutdown.exists()
        self.clean_shutdown.delete()

    def make_log_folder(self, name: str) -> str:
        """Return the path of a log's folder, created if missing."""
        path = os.path.join(self.path, name)
        self._disk.make_folder(path)
        return path

    def write_recovery_points(self, logs: Iterable[UnifiedLog]) -> None:
        """Write the recovery points."""
        self.recovery_points.write(_offsets(logs, lambda each: each.recovery_point))

    def write_log_start_offsets(self, logs: Iterable[UnifiedLog]) -> None:
        """Write the log starts that are not at a segment's base offset.

        For a log that had an entry and now starts with a segment, the folder is synced first:
        otherwise older segments with deleted records could come back after a crash.
        """
        moved = []
        for each in logs:
            if each.log_start_offset > each.segments[0].base_offset:
                moved.append(each)
            elif each.topic_partition in self._begun_within:
                self._disk.sync_folder(each.folder)
        self.log_start_offsets.write(_offsets(moved, lambda each: each.log_start_offset))
        self._begun_within = {each.topic_partition for each in moved}

    def write_high_watermarks(self, logs: Iterable[UnifiedLog]) -> None:
        """Write the high watermarks."""
        self.high_watermarks.write(_offsets(logs, lambda each: each.high_watermark))

    def unlock(self) -> None:
        """Release the lock and remove its file. May be called twice."""
        self._lock.destroy()

    def _locked(self) -> FileLock:
        if not self._disk.exists(self.path):
            self._disk.make_folder(self.path)
            self._disk.sync_folder(os.path.dirname(self.path))
        lock = FileLock(os.path.join(self.path, LOCK), self._disk)
        if lock.try_lock():
            return lock
        pid = lock.holder_pid()
        lock.unlock_and_close()
        raise DirectoryLockedError(
            f"{self.path} is in use by process {pid}"
            if pid
            else f"{self.path} is in use by another process",
            pid,
        )

    def _read_directory_id(self) -> str | None:
        path = os.path.join(self.path, META_PROPERTIES)
        try:
            data = self._disk.read(path)
        except FileNotFoundError:
            return None
        return parse_meta_properties(data, path=path).directory_id

    def _checkpoint(self, name: str) -> OffsetCheckpointFile:
        return OffsetCheckpointFile(os.path.join(self.path, name), self._disk)


def read_offsets(checkpoint: OffsetCheckpointFile) -> dict[TopicPartition, Offset]:
    """Return the offsets of a checkpoint; none if it is unreadable, which costs a recovery but no records."""
    try:
        return checkpoint.read()
    except (OSError, KafkaStorageError) as error:
        logger.warning("%s is not used: %s", checkpoint, error)
        return {}


def _offsets(
    logs: Iterable[UnifiedLog], offset_of: Callable[[UnifiedLog], Offset]
) -> dict[TopicPartition, Offset]:
    return {each.topic_partition: offset_of(each) for each in sorted(logs, key=_partition)}


def _partition(log: UnifiedLog) -> TopicPartition:
    return log.topic_partition
