"""Child processes: a fork without warnings, and questions to mounts that may never answer.

A process that waits for a hung FUSE daemon cannot be killed. So a long-running process never accesses a mount
directly: a child does, and is abandoned if it gets no answer.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
import warnings
from collections.abc import Callable
from typing import NoReturn

ANSWER_SECONDS = 5.0


def fork() -> int:
    """Call os.fork without the warning that newer Pythons give if a library has started threads.

    None of this program's own threads run at that time, and numpy's threads survive forks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def ask_in_child(question: Callable[[], bytes], seconds: float = ANSWER_SECONDS) -> bytes:
    """Run `question` in a child process and return its answer.

    Raises TimeoutError without an answer in time, and the question's OSError.
    """
    reader, writer = os.pipe()
    child = fork()
    if child == 0:
        os.close(reader)
        _answer(question, writer)
    os.close(writer)
    try:
        answer = _read_all(reader, time.monotonic() + seconds)
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)
    if answer is None:
        # Do not wait for the child: it may never end. init adopts it.
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {seconds:g} s")
    os.waitpid(child, 0)
    number = answer[0] if answer else errno.EIO
    if number:
        raise OSError(number, os.strerror(number))
    return answer[1:]


def _read_all(reader: int, end: float) -> bytes | None:
    """Read up to the end of the pipe. Return None if it does not come in time."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    answer = bytearray()
    while True:
        left = end - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return None
        data = os.read(reader, 65536)
        if not data:
            return bytes(answer)
        answer += data


def _answer(question: Callable[[], bytes], writer: int) -> NoReturn:
    """In the child: write an errno in one byte, then the answer, and exit."""
    try:
        answer = b"\0" + question()
    except OSError as error:
        answer = bytes([(error.errno or errno.EIO) & 0xFF])
    except BaseException:  # noqa: BLE001  a forked child must not continue in its parent's code
        answer = bytes([errno.EIO])
    try:
        os.write(writer, answer)
    finally:
        os._exit(0)
