"""The daemon's log: the last lines in memory for `.kafkafs/log`, and a file or the terminal if asked for.

A damaged segment under `grep -r` gives the same error thousands of times; `LimitedLog` writes the first
and then how many more there were.
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
"""Of a message with its traceback, in the ring."""
QUIET_SECONDS = 30.0
"""How long a message that was just logged is only counted."""
KEPT_MESSAGES = 256
FORMAT = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"
DATE_FORMAT = "%Y-%m-%dT%H:%M:%S"

log = logging.getLogger("kafkafs.fuse")


class _SafeFormatter(logging.Formatter):
    """UTC times, and no control characters: names and reasons come from files that may be hostile.

    A message is one line; only a traceback behind it has more.
    """

    converter = staticmethod(time.gmtime)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        return printable(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


class RingHandler(logging.Handler):
    """Keeps the last lines, bounded in number and bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=RING_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record as text."""
        try:
            line = self.format(record)
            self._lines.append(line if len(line) < RECORD_BYTES else line[:RECORD_BYTES] + " …")
        except Exception:  # noqa: BLE001  as logging asks: a log call never raises
            self.handleError(record)

    def text(self) -> str:
        """The last lines that fit RING_BYTES, the newest last."""
        chosen: list[str] = []
        room = RING_BYTES
        for line in reversed(list(self._lines)):
            room -= len(line) + 1
            if room < 0:
                break
            chosen.append(line + "\n")
        return "".join(reversed(chosen))


SYSTEM_LOG = "/dev/log"


def set_up(*, path: str | None, to_terminal: bool, debug: bool) -> RingHandler:
    """Send the log to the ring, and to a file and the terminal where asked; the ring.

    With neither, warnings go to the system's log: the ring dies with the daemon.

    Raises OSError when the file cannot be opened.
    """
    # A full disk under the log file must not print tracebacks to a terminal that is gone.
    logging.raiseExceptions = False
    formatter = _SafeFormatter(FORMAT, DATE_FORMAT)
    ring = RingHandler()
    handlers: list[logging.Handler] = [ring]
    if path is not None:
        handlers.append(logging.handlers.WatchedFileHandler(path, encoding="utf-8"))
    if to_terminal:
        handlers.append(logging.StreamHandler(sys.stderr))
    if len(handlers) == 1 and os.path.exists(SYSTEM_LOG):
        handlers += _system_log()
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.INFO)
    log.setLevel(logging.DEBUG if debug else logging.INFO)
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
    """Logs each message once in QUIET_SECONDS; safe from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, int]] = {}

    def write(
        self, level: int, message: str, *, about: str = "", error: BaseException | None = None
    ) -> None:
        """Log `message`, unless one about the same was just logged.

        `about` is what counts as the same, the message itself if empty; `error` adds its traceback.
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
        log.log(level, message, exc_info=error)
