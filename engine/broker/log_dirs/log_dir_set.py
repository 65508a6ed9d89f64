"""Log dirs that this process has locked: usable and failed ones."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence

from engine.broker.log_dirs.log_dir import LogDir
from engine.broker.log_dirs.log_loading import report
from engine.disk.disk import DISK, Disk, StrPath
from engine.writing.log_dir_failures import LogDirFailureChannel

logger = logging.getLogger(__name__)


class LogDirSet:
    """Locked log dirs; unusable ones are offline from the start. Safe from several threads.

    Args:
        log_dirs: paths, created if missing.
        channel: receives I/O errors.
        disk: disk of the log dirs.

    Attributes:
        paths: absolute paths of all log dirs.
        live: usable log dirs, by path.
        channel: the given channel, or a new one.

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
        self.paths = [os.path.abspath(each) for each in log_dirs]
        if len({_real(path) for path in self.paths}) < len(self.paths):
            raise ValueError(f"a log dir is named twice: {self.paths}")
        self.live: dict[str, LogDir] = {}
        try:
            for path in self.paths:
                self._open(path, disk)
        except BaseException:
            self.unlock_all()
            raise

    @property
    def offline(self) -> list[str]:
        """Absolute paths of the failed log dirs."""
        return [path for path in self.paths if path not in self.live]

    @property
    def directory_ids(self) -> dict[str, str]:
        """Ids of log dirs by path, of those that have one."""
        live = [*self.live.values()]
        return {each.path: each.directory_id for each in live if each.directory_id is not None}

    def is_online(self, path: StrPath) -> bool:
        """Return whether a log dir is usable. Raises ValueError for an unknown log dir."""
        path = os.path.abspath(path)
        if path not in self.paths:
            raise ValueError(f"{path} is not one of the log dirs {self.paths}")
        return path in self.live and not self.channel.has_offline_log_dir(path)

    def read_broker_epoch(self) -> int | None:
        """Return the epoch of the broker that closed all log dirs; None if they differ."""
        if self.offline:
            return None
        epochs = {each.clean_shutdown.read() for each in self.live.values()}
        return epochs.pop() if len(epochs) == 1 else None

    def unlock_all(self) -> None:
        """Release all locks."""
        for log_dir in self.live.values():
            unlock(log_dir)

    def _open(self, path: str, disk: Disk) -> None:
        try:
            self.live[path] = LogDir(path, disk)
        except OSError as error:
            report(self.channel, path, "cannot be opened", error)
        except ValueError as error:  # a NUL in the path
            report(self.channel, path, "cannot be opened", OSError(errno.EINVAL, str(error)))


def unlock(log_dir: LogDir) -> None:
    """Release the lock of a log dir; a failure is only logged."""
    try:
        log_dir.unlock()
    except OSError:
        logger.exception("the lock of %s could not be removed", log_dir.path)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:
        return path
