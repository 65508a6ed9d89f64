"""Failed log dirs: threads report I/O errors here, and one thread takes the reports."""

from __future__ import annotations

import logging
import os
import queue
import threading
from types import TracebackType

from engine.errors import LogDirFailureError

logger = logging.getLogger(__name__)


class LogDirFailureChannel:
    """Set of offline log dirs, each returned once; safe from several threads.

    An offline log dir stays offline.

    Attributes:
        offline: the offline log dirs.
    """

    def __init__(self) -> None:
        self.offline: set[str] = set()
        self._lock = threading.Lock()
        self._reports: queue.SimpleQueue[str] = queue.SimpleQueue()

    def has_offline_log_dir(self, log_dir: str) -> bool:
        """Return whether a failure of this log dir was reported."""
        return log_dir in self.offline

    def maybe_add_offline_log_dir(self, log_dir: str, message: str, error: OSError) -> None:
        """Report a failure; only the first of a log dir is queued."""
        logger.error("%s", message, exc_info=error)
        with self._lock:
            if log_dir in self.offline:
                return
            self.offline.add(log_dir)
        self._reports.put(log_dir)

    def take_next_offline_log_dir(self, timeout: float | None = None) -> str | None:
        """Wait for the next failed log dir, `timeout` seconds at most; None without one."""
        try:
            return self._reports.get(timeout=timeout)
        except queue.Empty:
            return None

    def reporting(self, log_dir: str, what: str) -> Reporting:
        """Return a context manager in which an OSError takes the log dir offline.

        Args:
            log_dir: log dir of the operation.
            what: description of the failure, for the report and the error.

        Raises:
            LogDirFailureError: the log dir was offline before, or goes offline now.
        """
        return Reporting(self, log_dir, what)


class Reporting:
    """Context manager of `LogDirFailureChannel.reporting`."""

    __slots__ = ("_channel", "_log_dir", "_what")

    def __init__(self, channel: LogDirFailureChannel, log_dir: str, what: str) -> None:
        self._channel = channel
        self._log_dir = log_dir
        self._what = what

    def __enter__(self) -> None:
        if self._log_dir in self._channel.offline:
            message = f"the log dir {self._log_dir} is offline after an I/O error"
            raise LogDirFailureError(message, self._log_dir)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or not isinstance(error, OSError) or isinstance(error, LogDirFailureError):
            return
        self._channel.maybe_add_offline_log_dir(self._log_dir, self._what, error)
        reason = os.strerror(error.errno) if error.errno else error
        message = f"{self._what}: {reason}"
        raise LogDirFailureError(message, self._log_dir, error.errno) from error
