"""Truncate, delete and replace logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from engine.broker.cleaning.log_cleaner import LogCleaner
from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_checkpoints import LogCheckpoints
from engine.broker.log_dirs.log_deletions import LogDeletions
from engine.broker.log_dirs.log_dir_set import LogDirSet
from engine.broker.log_dirs.log_registry import LogRegistry
from engine.errors import KafkaStorageError, LogDirFailureError
from engine.units import Offset, TopicPartition
from engine.writing.log_folder import (
    log_delete_dir_name,
    log_dir_name,
    log_stray_dir_name,
)


class LogRemoval:
    """Truncate, delete and replace logs, while their cleaning is paused. Safe from several threads.

    Args:
        dirs: log dirs.
        registry: their logs.
        checkpoints: their checkpoints.
        cleaner: cleaner of compacted logs; None without one.
        deletions: takes the logs whose files are to be removed.
    """

    def __init__(
        self,
        dirs: LogDirSet,
        registry: LogRegistry,
        checkpoints: LogCheckpoints,
        cleaner: LogCleaner | None,
        deletions: LogDeletions,
    ) -> None:
        self._dirs = dirs
        self._registry = registry
        self._checkpoints = checkpoints
        self._cleaner = cleaner
        self._deletions = deletions

    # Truncation

    def truncate_to(
        self, offsets: Mapping[TopicPartition, Offset], *, is_future: bool = False
    ) -> None:
        """Truncate logs to offsets, and write the recovery points; partitions without a log are skipped."""
        affected = set()
        for partition, offset in offsets.items():
            log = self._registry.get(partition, is_future=is_future)
            if log is None:
                continue
            pauses = not is_future and offset < log.active_segment.base_offset
            with self._cleaning_paused(partition, pauses):
                if log.truncate_to(offset):
                    affected.add(log.parent_dir)
                if pauses:
                    self._lower_cleaner_checkpoint(log)
        for path in affected:
            self._checkpoints.write_recovery_points(path)

    def truncate_fully_and_start_at(
        self,
        topic_partition: TopicPartition,
        offset: Offset,
        *,
        is_future: bool = False,
        log_start_offset: Offset | None = None,
    ) -> None:
        """Delete all records of a log, continue at an offset, and write the recovery points."""
        log = self._registry.get(topic_partition, is_future=is_future)
        if log is None:
            return
        with self._cleaning_paused(topic_partition, not is_future):
            log.truncate_fully_and_start_at(offset, log_start_offset)
            if not is_future:
                self._lower_cleaner_checkpoint(log)
        self._checkpoints.write_recovery_points(log.parent_dir)

    @contextmanager
    def _cleaning_paused(self, partition: TopicPartition, pauses: bool) -> Iterator[None]:
        if self._cleaner is None or not pauses:
            yield
            return
        self._cleaner.state.abort_and_pause_cleaning(partition)
        try:
            yield
        finally:
            self._cleaner.state.resume_cleaning([partition])

    def _lower_cleaner_checkpoint(self, log: UnifiedLog) -> None:
        if self._cleaner is not None:
            self._cleaner.state.checkpoints.maybe_truncate(
                log.parent_dir, log.topic_partition, log.active_segment.base_offset
            )

    # Deletion and replacement

    def async_delete(
        self,
        topic_partition: TopicPartition,
        *,
        is_future: bool = False,
        is_stray: bool = False,
        checkpoint: bool = True,
    ) -> UnifiedLog | None:
        """Rename a log's folder for later deletion, or as stray, which stays; return the log, None without one.

        Raises:
            LogDirFailureError: the log may be in an offline log dir.
        """
        with self._registry.lock:
            removed = self._registry.logs(is_future=is_future).pop(topic_partition, None)
        if removed is None:
            offline = self._dirs.offline
            if offline:
                raise LogDirFailureError(
                    f"{topic_partition} may be in a log dir that is offline: {offline}", offline[0]
                )
            return None
        if self._cleaner is not None and not is_future:
            self._cleaner.state.abort_cleaning(topic_partition)
            if checkpoint:
                self._cleaner.state.checkpoints.update(removed.parent_dir, remove=topic_partition)
        name = log_stray_dir_name if is_stray else log_delete_dir_name
        removed.rename_folder(name(topic_partition), should_reinitialize=False)
        if is_stray:
            self._registry.stray[topic_partition] = removed
        else:
            self._deletions.add(removed)
        if checkpoint:
            self._checkpoint_in(removed.parent_dir)
        return removed

    def async_delete_all(
        self,
        topic_partitions: Iterable[TopicPartition],
        *,
        is_stray: bool = False,
        on_error: Callable[[TopicPartition, Exception], object] | None = None,
    ) -> None:
        """Rename all logs of partitions as `async_delete` does, and write the checkpoints once.

        Args:
            topic_partitions: partitions, for their current and future logs.
            is_stray: whether to set them aside instead.
            on_error: called with each failed partition; without it the first error is raised.
        """
        paths = set()
        for partition in topic_partitions:
            try:
                for is_future in (False, True):
                    log = self._registry.get(partition, is_future=is_future)
                    if log is not None:
                        paths.add(log.parent_dir)
                        self.async_delete(
                            partition, is_future=is_future, is_stray=is_stray, checkpoint=False
                        )
            except (OSError, KafkaStorageError) as error:
                if on_error is None:
                    raise
                on_error(partition, error)
        for path in paths:
            if self._cleaner is not None:
                self._cleaner.state.checkpoints.update(path)
            self._checkpoint_in(path)

    def replace_current_with_future_log(self, topic_partition: TopicPartition) -> None:
        """Replace the current log of a partition by the future one; the old one is deleted later.

        Raises:
            LogDirFailureError: a log is offline, or goes offline now.
        """
        with self._registry.lock:
            current = self._registry.current.get(topic_partition)
            future = self._registry.future.get(topic_partition)
            if current is None or future is None:
                missing = "current" if current is None else "future"
                raise LogDirFailureError(
                    f"the {missing} log of {topic_partition} is offline", self._dirs.paths[0]
                )
            with self._cleaning_paused(topic_partition, pauses=True):
                self._replace(current, future)

    def _replace(self, current: UnifiedLog, future: UnifiedLog) -> None:
        topic_partition = current.topic_partition
        future.rename_folder(log_dir_name(topic_partition))
        future.update_high_watermark(current.high_watermark)
        self._registry.future.pop(topic_partition)
        self._registry.current[topic_partition] = future
        if self._cleaner is not None:
            self._cleaner.state.alter_checkpoint_dir(
                topic_partition, current.parent_dir, future.parent_dir
            )
        try:
            current.rename_folder(log_delete_dir_name(topic_partition))
        except LogDirFailureError:
            current.close_handlers()
            raise
        self._checkpoint_in(current.parent_dir)
        self._deletions.add(current)

    def _checkpoint_in(self, path: str) -> None:
        self._checkpoints.write_recovery_points(path)
        self._checkpoints.write_log_start_offsets(path)
