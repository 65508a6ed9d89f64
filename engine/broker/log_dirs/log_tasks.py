"""Periodic tasks on all logs of log dirs: retention, flushes, checkpoints, failed log dirs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from engine.broker.cleaning.log_cleaner import LogCleaner
from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_checkpoints import LogCheckpoints
from engine.broker.log_dirs.log_dir_set import LogDirSet, unlock
from engine.broker.log_dirs.log_dir_settings import LogDirSettings
from engine.broker.log_dirs.log_registry import LogRegistry
from engine.clock import Clock
from engine.errors import KafkaStorageError
from engine.units import MAX_INT64, TopicPartition
from engine.writing.scheduler import Scheduler

logger = logging.getLogger(__name__)

T = TypeVar("T")


class LogTasks:
    """Tasks of a broker on its logs; each can also be called. Safe from several threads.

    Args:
        dirs: log dirs.
        registry: their logs.
        checkpoints: their checkpoints.
        cleaner: cleaner of compacted logs; None without one.
        settings: intervals of the tasks.
        clock: source of the time.
    """

    def __init__(
        self,
        dirs: LogDirSet,
        registry: LogRegistry,
        checkpoints: LogCheckpoints,
        cleaner: LogCleaner | None,
        settings: LogDirSettings,
        clock: Clock,
    ) -> None:
        self._dirs = dirs
        self._registry = registry
        self._checkpoints = checkpoints
        self._cleaner = cleaner
        self._settings = settings
        self._clock = clock
        self._cancels: list[Callable[[], None]] = []

    def schedule(self, scheduler: Scheduler) -> None:
        """Run the tasks periodically, until `cancel`."""
        settings, checkpoints = self._settings, self._checkpoints
        tasks: list[tuple[str, Callable[[], object], int]] = [
            ("cleanup-logs", self.cleanup_logs, settings.retention_check_ms),
            ("flush-dirty-logs", self.flush_dirty_logs, settings.flush_check_ms),
            (
                "checkpoint-recovery-points",
                checkpoints.write_recovery_points,
                settings.recovery_point_checkpoint_ms,
            ),
            (
                "checkpoint-log-start-offsets",
                checkpoints.write_log_start_offsets,
                settings.log_start_offset_checkpoint_ms,
            ),
            (
                "checkpoint-high-watermarks",
                checkpoints.write_high_watermarks,
                settings.high_watermark_checkpoint_ms,
            ),
            ("handle-failures", self.handle_failures, settings.failure_check_ms),
        ]
        for name, task, period_ms in tasks:
            if period_ms < MAX_INT64:
                handle = scheduler.schedule(name, task, settings.initial_task_delay_ms, period_ms)
                self._cancels.append(handle.cancel)

    def cancel(self) -> None:
        """Stop the periodic tasks."""
        for cancel in self._cancels:
            cancel()

    def cleanup_logs(self) -> int:
        """Delete old segments of all logs that are not compacted; return the number of segments."""
        if self._cleaner is None:
            current = [*self._registry.current.items()]
            return self._delete_old_segments(
                {p: log for p, log in current if not log.config.compact}
            )
        deletable = self._cleaner.state.pause_cleaning_for_non_compacted_partitions()
        try:
            return self._delete_old_segments(deletable)
        finally:
            self._cleaner.state.resume_cleaning(deletable)

    def flush_dirty_logs(self) -> None:
        """Flush the logs with an expired flush.ms."""
        now = self._clock.now_ms()
        for log in self._registry.all:
            if now - log.local_log.last_flush_time >= log.config.flush_ms:
                _tried(log, log.flush)

    def handle_failures(self) -> None:
        """Remove the log dirs with failures reported since the last call."""
        while (failed := self._dirs.channel.take_next_offline_log_dir(timeout=0)) is not None:
            self.handle_log_dir_failure(failed)

    def handle_log_dir_failure(self, path: str) -> None:
        """Remove a log dir: close its logs as they are, and release its lock."""
        with self._registry.lock:
            log_dir = self._dirs.live.pop(path, None)
            removed = self._registry.remove_dir(path)
            for log in removed:
                log.close_handlers()
            if self._cleaner is not None:
                self._cleaner.state.checkpoints.forget(path)
            if log_dir is not None:
                unlock(log_dir)
        names = ", ".join(log.log_folder.name for log in removed)
        logger.error("the log dir %s is offline, and so are these logs: %s", path, names or "none")

    def _delete_old_segments(self, deletable: dict[TopicPartition, UnifiedLog]) -> int:
        count = 0
        for partition, current in deletable.items():
            for log in (current, self._registry.future.get(partition)):
                if log is not None:
                    count += _tried(log, log.delete_old_segments) or 0
        return count


def _tried(log: UnifiedLog, action: Callable[[], T]) -> T | None:
    """Run an action for one log; log an error, so that the other logs are not affected."""
    try:
        return action()
    except (OSError, KafkaStorageError):
        logger.exception("maintenance of %s failed", log)
        return None
