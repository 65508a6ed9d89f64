"""Going to the background, with an answer: the caller's process ends when the mount is there, or has failed.

Two forks, so that the daemon has no controlling terminal and is nobody's child. They come before any thread
and before libfuse is set up, since neither survives a fork. A pipe carries one JSON line a message back:
first the daemon's pid, then `ready` or `error` with an exit status; its end without either is a crash.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_CANNOT_READ
from kafkafs.mount.aside import fork


class StartReport:
    """Where a daemon says how its start went. This one belongs to a daemon in the foreground."""

    def ready(self, sentence: str) -> None:
        """The mount answers; its log, which goes to the terminal, says so already."""

    def failed(self, sentence: str, status: int) -> None:
        """It will not: one line for the user, and the exit status that goes with it."""
        print(f"kafkafs: {printable(sentence)}", file=sys.stderr, flush=True)  # noqa: T201


class PipeReport(StartReport):
    """The report of a daemon in the background."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._send(pid=os.getpid())

    def ready(self, sentence: str) -> None:
        """Let the caller go, and with it its terminal."""
        self._send(ready=sentence)
        _leave_terminal()
        self._close()

    def failed(self, sentence: str, status: int) -> None:
        """Let the caller say why."""
        self._send(error=sentence, status=status)
        self._close()

    def _send(self, **message: object) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a caller that was killed reads nothing
                os.write(self._fd, json.dumps(message).encode() + b"\n")

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def start(
    serve: Callable[[StartReport], int],
    answers: Callable[[], None],
    *,
    keep: Collection[int] = (),
) -> int:
    """Run `serve` in the background; the exit status for the process that started it.

    Args:
        serve: the daemon; it reports on what it is given and returns its own exit status.
        answers: checks the mount from this side once the daemon is ready; raises OSError.
        keep: descriptors that the daemon needs; all others above 2 are closed in it.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        os.close(reader)
        _become_daemon(serve, writer, keep)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, encoding="utf-8") as messages:
        return _wait_for_answer(messages, answers)


def _wait_for_answer(messages: Any, answers: Callable[[], None]) -> int:  # noqa: ANN401
    report = StartReport()
    pid = 0
    try:
        for line in messages:
            message = json.loads(line)
            pid = message.get("pid", pid)
            if "error" in message:
                report.failed(message["error"], message["status"])
                return int(message["status"])
            if "ready" in message:
                answers()
                return 0
    except OSError as error:
        _end_daemon(pid)
        report.failed(f"the mount does not answer: {error.strerror}", EXIT_CANNOT_READ)
        return EXIT_CANNOT_READ
    except KeyboardInterrupt:
        _end_daemon(pid)
        raise
    report.failed("the daemon ended while it was starting; -f shows more", EXIT_CANNOT_READ)
    return EXIT_CANNOT_READ


def _end_daemon(pid: int) -> None:
    if pid:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def _become_daemon(
    serve: Callable[[StartReport], int], writer: int, keep: Collection[int]
) -> NoReturn:
    """In the first child: fork again, serve in the second, never return."""
    status = 1
    try:
        os.setsid()
        if fork():
            os._exit(0)
        os.chdir("/")
        os.umask(0o022)
        _close_others({0, 1, 2, writer, *keep})
        status = serve(PipeReport(writer))
    except BaseException:  # noqa: BLE001  the parent's code behind `start` must not run here
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _close_others(wanted: set[int]) -> None:
    """Close what was inherited: a lock or a pipe of the caller must not live as long as the daemon."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _leave_terminal() -> None:
    """Put /dev/null in the place of the caller's terminal or pipes."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
