"""Start in the background: the caller's process ends when the mount is ready or has failed.

Two forks, so that the daemon has no controlling terminal and no parent. They come before any thread and before
libfuse is initialised, since neither survives a fork. A pipe carries JSON messages back, one per line: first the
daemon's pid, then `ready` or `error` with an exit status. If it ends without either, the daemon has crashed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from kafkafs import unpacked_folders
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_CANNOT_READ
from kafkafs.mount.child_process import fork


class StartReport:
    """Reports the result of a start. This one is for a daemon in the foreground."""

    def ready(self, sentence: str) -> None:
        """Report that the mount answers. Prints nothing: the log on the terminal has it."""

    def failed(self, sentence: str, status: int) -> None:
        """Report a failed start: one line for the user, and the exit status."""
        print(f"kafkafs: {printable(sentence)}", file=sys.stderr, flush=True)  # noqa: T201


class PipeReport(StartReport):
    """Reports of a daemon in the background."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._send(pid=os.getpid())

    def ready(self, sentence: str) -> None:
        """Release the caller and its terminal."""
        self._send(ready=sentence)
        _leave_terminal()
        self._close()

    def failed(self, sentence: str, status: int) -> None:
        """Let the caller print the reason."""
        self._send(error=sentence, status=status)
        self._close()

    def _send(self, **message: object) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a killed caller reads nothing
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
    """Run `serve` in the background; return the exit status of the process that started it.

    Args:
        serve: the daemon; gets a StartReport and returns its own exit status.
        answers: checks the mount from the caller's side once the daemon is ready; raises OSError.
        keep: descriptors that the daemon needs; it closes all others above 2.
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
    """In the first child: fork again and serve in the second one; never return."""
    status = 1
    try:
        os.setsid()
        if fork():
            os._exit(0)
        os.chdir("/")
        os.umask(0o022)
        _close_others({0, 1, 2, writer, *keep, *unpacked_folders.locks()})
        status = serve(PipeReport(writer))
    except BaseException:  # noqa: BLE001  the parent's code after `start` must not run here
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        unpacked_folders.let_go()
        os._exit(status)


def _close_others(wanted: set[int]) -> None:
    """Close inherited descriptors: a lock or a pipe of the caller must not live as long as the daemon."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _leave_terminal() -> None:
    """Replace the caller's terminal or pipes with /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)
