"""Log dirs that this process has locked: usable and failed ones."""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Sequence

from engine.broker.log_dirs.log_dir import LogDir
from engine.broker.log_dirs.log_loading import report
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log_dir_failures import LogDirFailureChannel

log = logging.getLogger(__name__)


class LogDirSet:
    """Locked log dirs; unusable ones are offline from the start.

    Raises:
        DirectoryLockedError: a broker has locked one of the log dirs; then none is locked.
        CorruptCheckpointError: a meta.properties is damaged; then none is locked.
        ValueError: a log dir is named twice.
    """

    def __init__(
        self,
        log_dirs: Sequence[StrPath],
        channel: LogDirFailureChannel | None = None,
        disk: Disk = DISK,
    ) -> None:
        self.channel = channel or LogDirFailureChannel()
        self._disk = disk
        self._lock = threading.RLock()
        self._paths = [os.path.abspath(each) for each in log_dirs]
        if len({_real(path) for path in self._paths}) < len(self._paths):
            raise ValueError(f"a log dir is named twice: {self._paths}")
        self._live: dict[str, LogDir] = {}
        try:
            for path in self._paths:
                self._open(path)
        except BaseException:
            self._unlock_all()
            raise

    @property
    def live_log_dirs(self) -> list[str]:
        """Absolute paths of the usable log dirs."""
        return [*self._live]

    @property
    def offline_log_dirs(self) -> list[str]:
        """Absolute paths of the failed log dirs."""
        return [path for path in self._paths if path not in self._live]

    @property
    def directory_ids(self) -> dict[str, str]:
        """Ids of log dirs by path, of those that have one."""
        live = [*self._live.values()]
        return {each.path: each.directory_id for each in live if each.directory_id is not None}

    def is_log_dir_online(self, path: StrPath) -> bool:
        """Return whether a log dir is usable. Raises ValueError for an unknown log dir."""
        path = os.path.abspath(path)
        if path not in self._paths:
            raise ValueError(f"{path} is not one of the log dirs {self._paths}")
        return path in self._live and not self.channel.has_offline_log_dir(path)

    def read_broker_epoch_from_clean_shutdown_files(self) -> int | None:
        """Return the epoch of the broker that closed all log dirs; None if they differ."""
        if self.offline_log_dirs:
            return None
        epochs = {each.clean_shutdown.read() for each in self._live.values()}
        return epochs.pop() if len(epochs) == 1 else None

    def _open(self, path: str) -> None:
        try:
            self._live[path] = LogDir(path, self._disk)
        except OSError as error:
            report(self.channel, path, "cannot be opened", error)
        except ValueError as error:  # a NUL in the path
            report(self.channel, path, "cannot be opened", OSError(errno.EINVAL, str(error)))

    def _unlock_all(self) -> None:
        for log_dir in self._live.values():
            self._unlock(log_dir)

    @staticmethod
    def _unlock(log_dir: LogDir) -> None:
        try:
            log_dir.unlock()
        except OSError:
            log.exception("the lock of %s could not be removed", log_dir.path)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:
        return path
