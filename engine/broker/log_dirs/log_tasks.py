"""Periodic tasks on all logs of log dirs: retention, flushes, checkpoints, failed log dirs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from engine.broker.cleaning.log_cleaner import LogCleaner
from engine.broker.log_dirs.log_deletions import LogDeletions
from engine.broker.log_dirs.log_dir import LogDir
from engine.broker.log_dirs.log_dir_set import LogDirSet
from engine.broker.log_dirs.log_dir_settings import LogDirSettings
from engine.broker.log_dirs.log_loading import report
from engine.broker.log_dirs.log_registry import LogRegistry
from engine.clock import SYSTEM_CLOCK, Clock
from engine.errors import KafkaStorageError
from engine.units import MAX_INT64, TopicPartition
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log.unified_log import UnifiedLog
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.scheduler import Scheduler

log = logging.getLogger(__name__)

T = TypeVar("T")


class LogTasks(LogDirSet):
    """Logs of log dirs, with their periodic tasks.

    Attributes:
        registry: the logs.
        cleaner: cleaner of compacted logs; None without one.
    """

    def __init__(
        self,
        log_dirs: Sequence[StrPath],
        scheduler: Scheduler,
        settings: LogDirSettings,
        clock: Clock = SYSTEM_CLOCK,
        channel: LogDirFailureChannel | None = None,
        disk: Disk = DISK,
    ) -> None:
        super().__init__(log_dirs, channel, disk)
        self.scheduler = scheduler
        self.settings = settings
        self.registry = LogRegistry()
        self.cleaner: LogCleaner | None = None
        self._clock = clock
        self._deletions = LogDeletions(clock)
        self._cancels: list[Callable[[], None]] = []

    @property
    def has_logs_to_be_deleted(self) -> bool:
        """Whether logs wait for the removal of their files."""
        return len(self._deletions) > 0

    def cleanup_logs(self) -> int:
        """Delete old segments of all logs that are not compacted; return the number of segments."""
        if self.cleaner is None:
            deletable = {p: each for p, each in self._current() if not each.config.compact}
            return self._delete_old_segments(deletable)
        deletable = self.cleaner.state.pause_cleaning_for_non_compacted_partitions()
        try:
            return self._delete_old_segments(deletable)
        finally:
            self.cleaner.state.resume_cleaning(deletable)

    def flush_dirty_logs(self) -> None:
        """Flush the logs with an expired flush.ms."""
        now = self._clock.now_ms()
        for each in self.registry.all:
            if now - each.local_log.last_flush_time >= each.config.flush_ms:
                _tried(each, each.flush)

    def checkpoint_recovery_points(self) -> None:
        """Write the recovery points."""
        for log_dir in [*self._live.values()]:
            self.checkpoint_recovery_points_in(log_dir.path)

    def checkpoint_recovery_points_in(self, path: str) -> None:
        """Write the recovery points of one log dir; do nothing if it is offline."""
        log_dir = self._live.get(path)
        if log_dir is not None:
            logs = self.registry.in_dir(path)
            self._write(log_dir, log_dir.write_recovery_points, logs)

    def checkpoint_log_start_offsets(self) -> None:
        """Write the log starts that are not at a segment's base offset, as after a delete-records request."""
        for log_dir in [*self._live.values()]:
            self.checkpoint_log_start_offsets_in(log_dir.path)

    def checkpoint_log_start_offsets_in(self, path: str) -> None:
        """Write the log starts of one log dir; do nothing if it is offline."""
        log_dir = self._live.get(path)
        if log_dir is not None:
            logs = self.registry.in_dir(path)
            self._write(log_dir, log_dir.write_log_start_offsets, logs)

    def checkpoint_high_watermarks(self) -> None:
        """Write the high watermarks."""
        for path, log_dir in [*self._live.items()]:
            logs = self.registry.in_dir(path)
            self._write(log_dir, log_dir.write_high_watermarks, logs)

    def handle_failures(self) -> None:
        """Remove the log dirs with failures reported since the last call."""
        while (failed := self.channel.take_next_offline_log_dir(timeout=0)) is not None:
            self.handle_log_dir_failure(failed)

    def handle_log_dir_failure(self, path: str) -> None:
        """Remove a log dir: close its logs as they are, and release its lock."""
        with self._lock:
            log_dir = self._live.pop(path, None)
            removed = self.registry.remove_dir(path)
            for each in removed:
                each.close_handlers()
            if self.cleaner is not None:
                self.cleaner.handle_log_dir_failure(path)
            if log_dir is not None:
                self._unlock(log_dir)
        names = ", ".join(each.name for each in removed)
        log.error("the log dir %s is offline, and so are these logs: %s", path, names or "none")

    def _schedule_tasks(self) -> None:
        settings = self.settings
        tasks: list[tuple[Callable[[], object], int]] = [
            (self.cleanup_logs, settings.retention_check_ms),
            (self.flush_dirty_logs, settings.flush_check_ms),
            (self.checkpoint_recovery_points, settings.recovery_point_checkpoint_ms),
            (self.checkpoint_log_start_offsets, settings.log_start_offset_checkpoint_ms),
            (self.checkpoint_high_watermarks, settings.high_watermark_checkpoint_ms),
            (self.handle_failures, settings.failure_check_ms),
        ]
        for task, period_ms in tasks:
            if period_ms < MAX_INT64:
                name = task.__name__.replace("_", "-")
                delay_ms = settings.initial_task_delay_ms
                handle = self.scheduler.schedule(name, task, delay_ms, period_ms)
                self._cancels.append(handle.cancel)

    def _cancel_tasks(self) -> None:
        for cancel in self._cancels:
            cancel()

    def _current(self) -> list[tuple[TopicPartition, UnifiedLog]]:
        return [*self.registry.current.items()]

    def _delete_old_segments(self, deletable: dict[TopicPartition, UnifiedLog]) -> int:
        count = 0
        for partition, current in deletable.items():
            for each in (current, self.registry.future.get(partition)):
                if each is not None:
                    count += _tried(each, each.delete_old_segments) or 0
        return count

    def _write(
        self,
        log_dir: LogDir,
        write: Callable[[Iterable[UnifiedLog]], None],
        logs: list[UnifiedLog],
    ) -> None:
        """Write a checkpoint of a log dir, unless not all its logs were loaded: then the file has more."""
        if not log_dir.is_loaded or self.channel.has_offline_log_dir(log_dir.path):
            return
        try:
            write(logs)
        except OSError as error:
            report(self.channel, log_dir.path, "cannot take a checkpoint", error)


def _tried(of: UnifiedLog, action: Callable[[], T]) -> T | None:
    """Run an action for one log; log an error, so that the other logs are not affected."""
    try:
        return action()
    except (OSError, KafkaStorageError):
        log.exception("maintenance of %s failed", of)
        return None
