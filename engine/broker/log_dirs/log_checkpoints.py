"""Write the checkpoints of log dirs: recovery points, log starts, high watermarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_dir import LogDir
from engine.broker.log_dirs.log_dir_set import LogDirSet
from engine.broker.log_dirs.log_loading import report
from engine.broker.log_dirs.log_registry import LogRegistry

Write: TypeAlias = Callable[[LogDir, Iterable[UnifiedLog]], None]


class LogCheckpoints:
    """Checkpoints of the logs of several log dirs. Safe from several threads.

    A checkpoint is not written while its log dir is offline or some of its logs were not loaded: the
    file still has the offsets of these logs. An I/O error takes the log dir offline.
    """

    def __init__(self, dirs: LogDirSet, registry: LogRegistry) -> None:
        self._dirs = dirs
        self._registry = registry

    def write_recovery_points(self, path: str | None = None) -> None:
        """Write the recovery points of one log dir, or of all."""
        self._write(LogDir.write_recovery_points, path)

    def write_log_start_offsets(self, path: str | None = None) -> None:
        """Write the log starts that are not at a segment's base offset, as after a delete-records request."""
        self._write(LogDir.write_log_start_offsets, path)

    def write_high_watermarks(self, path: str | None = None) -> None:
        """Write the high watermarks of one log dir, or of all."""
        self._write(LogDir.write_high_watermarks, path)

    def _write(self, write: Write, path: str | None) -> None:
        for log_dir in [*self._dirs.live.values()]:
            is_meant = path is None or log_dir.path == path
            if is_meant and log_dir.is_loaded and self._dirs.is_online(log_dir.path):
                try:
                    write(log_dir, self._registry.in_dir(log_dir.path))
                except OSError as error:
                    report(self._dirs.channel, log_dir.path, "cannot take a checkpoint", error)
