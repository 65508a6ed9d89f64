"""One log dir: its lock, its checkpoints, the marker of a clean shutdown, the folders of its logs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable

from engine.checkpoint.meta_properties import parse_meta_properties
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
from engine.writing.checkpoint.clean_shutdown_file import CleanShutdownFile
from engine.writing.checkpoint.file_lock import FileLock
from engine.writing.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log.log_folder_names import parse_topic_partition_name
from engine.writing.log.unified_log import UnifiedLog

log = logging.getLogger(__name__)


class LogDir:
    """A log dir that this process holds the lock of, until `unlock`.

    Args:
        path: made if it is not there.
        disk: does the writing.

    Attributes:
        path: absolute.
        directory_id: as meta.properties has it; None without one.
        had_clean_shutdown: whether it was closed properly before, once `begin_loading` was called.
        is_loaded: whether all its logs were loaded.

    Raises:
        DirectoryLockedError: a broker, or another of these, has it.
        CorruptCheckpointError: its meta.properties is damaged.
        OSError: it cannot be used.
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
        """Return the paths of the folders of logs, also of those that are to be deleted, stray or not current yet.

        The log of the metadata quorum is not among them.

        Raises:
            InvalidNameError: a folder that no broker makes in a log dir.
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
        """Take the marker of a clean shutdown away: a crash while logs are loaded is none."""
        self.had_clean_shutdown = self.clean_shutdown.exists()
        self.clean_shutdown.delete()

    def make_log_folder(self, name: str) -> str:
        """Return the path of a log's folder, which is there then."""
        path = os.path.join(self.path, name)
        self._disk.make_folder(path)
        return path

    def write_recovery_points(self, logs: Iterable[UnifiedLog]) -> None:
        """Write up to where each log is on the disk."""
        self.recovery_points.write(_offsets(logs, lambda each: each.recovery_point))

    def write_log_start_offsets(self, logs: Iterable[UnifiedLog]) -> None:
        """Write where logs begin that begin within a segment; of others the segment's name says it.

        Of one that was written before, and begins with a segment now, the folder is synced first: older
        segments must not come back after a crash, with records that were deleted.
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
        """Write up to where each log is replicated."""
        self.high_watermarks.write(_offsets(logs, lambda each: each.high_watermark))

    def unlock(self) -> None:
        """Give the lock back and remove its file; a second call does nothing."""
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
    """What a checkpoint says; nothing when it cannot be read, which costs a recovery and no records."""
    try:
        return checkpoint.read()
    except (OSError, KafkaStorageError) as error:
        log.warning("%s is not used: %s", checkpoint, error)
        return {}


def _offsets(
    logs: Iterable[UnifiedLog], offset_of: Callable[[UnifiedLog], Offset]
) -> dict[TopicPartition, Offset]:
    return {each.topic_partition: offset_of(each) for each in sorted(logs, key=_partition)}


def _partition(of: UnifiedLog) -> TopicPartition:
    return of.topic_partition
