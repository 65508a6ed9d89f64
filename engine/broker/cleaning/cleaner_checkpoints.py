"""The cleaner-offset-checkpoint files of log dirs: how far each log was cleaned."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping

from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import KafkaStorageError
from engine.files.file_names import CLEANER_OFFSET_CHECKPOINT
from engine.units import Offset, TopicPartition

logger = logging.getLogger(__name__)


class CleanerCheckpoints:
    """The checkpoints of several log dirs. Safe from several threads, by one lock.

    An unreadable checkpoint counts as empty: cleaning a part again is harmless.

    Args:
        log_dirs: log dirs, each with its checkpoint file.
        logs: logs of all log dirs; may change at any time.
        disk: disk of the checkpoints.
    """

    def __init__(
        self,
        log_dirs: Iterable[StrPath],
        logs: Mapping[TopicPartition, UnifiedLog],
        disk: Disk = DISK,
    ) -> None:
        self._logs = logs
        self._lock = threading.RLock()
        self._files = {
            os.fspath(folder): OffsetCheckpointFile(
                os.path.join(folder, CLEANER_OFFSET_CHECKPOINT), disk=disk
            )
            for folder in log_dirs
        }

    def all(self) -> dict[TopicPartition, Offset]:
        """Return the end of each log's cleaned part."""
        found: dict[TopicPartition, Offset] = {}
        with self._lock:
            for folder in self._files:
                found.update(self._read(folder))
        return found

    def update(
        self,
        log_dir: StrPath,
        *,
        update: tuple[TopicPartition, Offset] | None = None,
        remove: TopicPartition | None = None,
    ) -> None:
        """Write the checkpoint of a log dir, without deleted logs. A failure is only logged.

        Args:
            log_dir: log dir; nothing is written to a failed one.
            update: end of the cleaned part of a log.
            remove: log to remove from the checkpoint.
        """
        with self._lock:
            file = self._files.get(os.fspath(log_dir))
            if file is None:
                return
            try:
                offsets = {
                    partition: offset
                    for partition, offset in file.read().items()
                    if partition in self._logs and partition != remove
                }
                if update is not None:
                    offsets[update[0]] = update[1]
                file.write(offsets)
            except (KafkaStorageError, OSError):
                logger.exception("the cleaner's checkpoint of %s cannot be written", log_dir)

    def move(self, partition: TopicPartition, source: StrPath, destination: StrPath) -> None:
        """Move a log's entry to the checkpoint of another log dir."""
        with self._lock:
            offset = self._read(os.fspath(source)).get(partition)
            if offset is not None:
                self.update(source, remove=partition)
                self.update(destination, update=(partition, offset))

    def maybe_truncate(self, log_dir: StrPath, partition: TopicPartition, offset: Offset) -> None:
        """Lower the entry of a compacted log that was truncated to an offset.

        Raises:
            CorruptCheckpointError: the checkpoint cannot be read.
            OSError: the disk fails.
        """
        with self._lock:
            file = self._files.get(os.fspath(log_dir))
            if file is None or not self._logs[partition].config.compact:
                return
            offsets = file.read()
            if offsets.get(partition, 0) > offset:
                file.write({**offsets, partition: offset})

    def forget(self, log_dir: StrPath) -> None:
        """Ignore a failed log dir from now on."""
        with self._lock:
            self._files.pop(os.fspath(log_dir), None)

    def _read(self, log_dir: str) -> dict[TopicPartition, Offset]:
        file = self._files.get(log_dir)
        try:
            return {} if file is None else file.read()
        except (KafkaStorageError, OSError):
            logger.exception("the cleaner's checkpoint of %s cannot be read", log_dir)
            return {}
