"""Log of the daemon: the last lines in memory for `.kafkafs/log`, and optionally a file or the terminal.

A damaged segment under `grep -r` raises the same error thousands of times; `LimitedLog` writes the first one,
then the number of repetitions.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable

from kafkafs.decode.shown_text import printable, printable_lines

RING_LINES = 500
RING_BYTES = 48 * 1024
RECORD_BYTES = 4 * 1024
"""Maximum characters in memory of a message with its traceback."""
QUIET_SECONDS = 30.0
"""Seconds during which repetitions of a message are only counted."""
KEPT_MESSAGES = 256
FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"
DATE_FORMAT = "%Y-%m-%dT%H:%M:%S"

logger = logging.getLogger("kafkafs.fuse")


class _SafeFormatter(logging.Formatter):
    """Formatter with UTC times and without control characters: names and reasons come from untrusted files.

    A message is one line, except for a traceback after it.
    """

    converter = staticmethod(time.gmtime)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


class RingHandler(logging.Handler):
    """Handler that keeps the last lines, bounded in number and bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=RING_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Format and keep a record."""
        try:
            line = self.format(record)
            self._lines.append(line if len(line) < RECORD_BYTES else line[:RECORD_BYTES] + " …")
        except Exception:  # noqa: BLE001  as logging asks: a log call never raises
            self.handleError(record)

    def text(self) -> str:
        """Return the last lines that fit into RING_BYTES, newest last."""
        chosen: list[str] = []
        room = RING_BYTES
        for line in reversed(list(self._lines)):
            room -= len(line) + 1
            if room < 0:
                break
            chosen.append(line + "\n")
        return "".join(reversed(chosen))


SYSTEM_LOG = "/dev/log"


def set_up(*, path: str | None, to_terminal: bool, debug: bool, quiet: bool = False) -> RingHandler:
    """Send the log to memory, and optionally to a file and the terminal. Return the handler in memory.

    A quiet terminal gets only warnings and errors. With neither, warnings go to the system's log, because the lines in memory end with the daemon.

    Raises OSError if the log file cannot be opened.
    """
    # With a full disk, logging must not print tracebacks to a closed terminal.
    logging.raiseExceptions = False
    formatter = _SafeFormatter(FORMAT, DATE_FORMAT)
    ring = RingHandler()
    handlers: list[logging.Handler] = [ring]
    if path is not None:
        handlers.append(logging.handlers.WatchedFileHandler(path, encoding="utf-8"))
    if to_terminal:
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setLevel(logging.WARNING if quiet else logging.NOTSET)
        handlers.append(terminal)
    if len(handlers) == 1 and os.path.exists(SYSTEM_LOG):
        handlers += _system_log()
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
    return ring


def _system_log() -> list[logging.Handler]:
    facility = logging.handlers.SysLogHandler.LOG_DAEMON
    try:
        handler = logging.handlers.SysLogHandler(SYSTEM_LOG, facility)
    except OSError:
        return []
    handler.ident = f"kafkafs[{os.getpid()}]: "
    handler.setLevel(logging.WARNING)
    return [handler]


class LimitedLog:
    """Logs each message once in QUIET_SECONDS. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, int]] = {}

    def write(
        self, level: int, message: str, *, about: str = "", error: BaseException | None = None
    ) -> None:
        """Log `message`, unless one with the same `about` was just logged.

        `about` defaults to the message; `error` adds its traceback.
        """
        about = about or message
        now = self._clock()
        with self._lock:
            last, left_out = self._seen.pop(about, (0.0, 0))
            quiet = last and now - last < QUIET_SECONDS
            self._seen[about] = (last, left_out + 1) if quiet else (now, 0)
            if len(self._seen) > KEPT_MESSAGES:
                del self._seen[next(iter(self._seen))]
        if quiet:
            return
        if left_out:
            message = f"{message} (and {left_out} more like this)"
        logger.log(level, message, exc_info=error)
