"""Truncate, delete and replace logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from engine.broker.log_dirs.log_tasks import LogTasks
from engine.errors import KafkaStorageError, LogDirFailureError
from engine.units import Offset, TopicPartition
from engine.writing.log.log_folder_names import (
    log_delete_dir_name,
    log_dir_name,
    log_stray_dir_name,
)
from engine.writing.log.unified_log import UnifiedLog


class LogRemoval(LogTasks):
    """Logs of log dirs, with truncation, deletion and replacement; cleaning is paused meanwhile."""

    def get_log(
        self, topic_partition: TopicPartition, *, is_future: bool = False
    ) -> UnifiedLog | None:
        """Return the log of a partition, None without one."""
        return self.registry.logs(is_future=is_future).get(topic_partition)

    # Truncation

    def truncate_to(
        self, offsets: Mapping[TopicPartition, Offset], *, is_future: bool = False
    ) -> None:
        """Truncate logs to offsets, and write the recovery points; partitions without a log are skipped."""
        affected = set()
        for partition, offset in offsets.items():
            of = self.get_log(partition, is_future=is_future)
            if of is None:
                continue
            pauses = not is_future and offset < of.active_segment.base_offset
            with self._cleaning_paused(partition, pauses):
                if of.truncate_to(offset):
                    affected.add(of.parent_dir)
                if pauses:
                    self._lower_cleaner_checkpoint(of)
        for path in affected:
            self.checkpoint_recovery_points_in(path)

    def truncate_fully_and_start_at(
        self,
        topic_partition: TopicPartition,
        offset: Offset,
        *,
        is_future: bool = False,
        log_start_offset: Offset | None = None,
    ) -> None:
        """Delete all records of a log, continue at an offset, and write the recovery points."""
        of = self.get_log(topic_partition, is_future=is_future)
        if of is None:
            return
        with self._cleaning_paused(topic_partition, not is_future):
            of.truncate_fully_and_start_at(offset, log_start_offset)
            if not is_future:
                self._lower_cleaner_checkpoint(of)
        self.checkpoint_recovery_points_in(of.parent_dir)

    @contextmanager
    def _cleaning_paused(self, partition: TopicPartition, pauses: bool) -> Iterator[None]:
        if self.cleaner is None or not pauses:
            yield
            return
        self.cleaner.state.abort_and_pause_cleaning(partition)
        try:
            yield
        finally:
            self.cleaner.state.resume_cleaning([partition])

    def _lower_cleaner_checkpoint(self, of: UnifiedLog) -> None:
        if self.cleaner is not None:
            self.cleaner.state.maybe_truncate_checkpoint(
                of.parent_dir, of.topic_partition, of.active_segment.base_offset
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
        with self._lock:
            removed = self.registry.logs(is_future=is_future).pop(topic_partition, None)
        if removed is None:
            offline = self.offline_log_dirs
            if offline:
                raise LogDirFailureError(
                    f"{topic_partition} may be in a log dir that is offline: {offline}", offline[0]
                )
            return None
        if self.cleaner is not None and not is_future:
            self.cleaner.state.abort_cleaning(topic_partition)
            if checkpoint:
                self.cleaner.state.update_checkpoints(removed.parent_dir, remove=topic_partition)
        name = log_stray_dir_name if is_stray else log_delete_dir_name
        removed.rename_folder(name(topic_partition), should_reinitialize=False)
        if is_stray:
            self.registry.stray[topic_partition] = removed
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
                    of = self.get_log(partition, is_future=is_future)
                    if of is not None:
                        paths.add(of.parent_dir)
                        self.async_delete(
                            partition, is_future=is_future, is_stray=is_stray, checkpoint=False
                        )
            except (OSError, KafkaStorageError) as error:
                if on_error is None:
                    raise
                on_error(partition, error)
        for path in paths:
            if self.cleaner is not None:
                self.cleaner.state.update_checkpoints(path)
            self._checkpoint_in(path)

    def replace_current_with_future_log(self, topic_partition: TopicPartition) -> None:
        """Replace the current log of a partition by the future one; the old one is deleted later.

        Raises:
            LogDirFailureError: a log is offline, or goes offline now.
        """
        with self._lock:
            current = self.registry.current.get(topic_partition)
            future = self.registry.future.get(topic_partition)
            if current is None or future is None:
                missing = "current" if current is None else "future"
                raise LogDirFailureError(
                    f"the {missing} log of {topic_partition} is offline", self._paths[0]
                )
            with self._cleaning_paused(topic_partition, pauses=True):
                self._replace(current, future)

    def _replace(self, current: UnifiedLog, future: UnifiedLog) -> None:
        topic_partition = current.topic_partition
        future.rename_folder(log_dir_name(topic_partition))
        future.update_high_watermark(current.high_watermark)
        self.registry.future.pop(topic_partition)
        self.registry.current[topic_partition] = future
        if self.cleaner is not None:
            self.cleaner.state.alter_checkpoint_dir(
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
        self.checkpoint_recovery_points_in(path)
        self.checkpoint_log_start_offsets_in(path)
