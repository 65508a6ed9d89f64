"""Surveys in a process of their own, with a bound on memory and on time.

One process imports everything and forks a child for each survey, so that a child costs milliseconds and
what it may use is counted from what an idle one has.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from engine import kernel
from engine.budgets import MiB
from tests.damage.survey import Survey, survey
from tests.fixtures_data import log_dir

Look: TypeAlias = Callable[..., Survey]
"""What the fixture of that name gives: surveys a source, see conftest."""
ROOT = Path(__file__).resolve().parents[2]
MEMORY = 256 * MiB
SECONDS = 30.0
_M_ARENA_MAX = -8


class Reader:
    """The process that makes surveys; `close` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.damage.reader"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def survey(self, source: Path, **options: Any) -> Survey:
        """The survey of a source.

        Raises AssertionError when the child exceeds what it may use, or dies.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((os.fspath(source), options), self._process.stdin)
        self._process.stdin.flush()
        answer = pickle.load(self._process.stdout)
        if isinstance(answer, str):
            raise AssertionError(answer)
        assert isinstance(answer, Survey)
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    while True:
        try:
            source, options = pickle.load(requests)
        except EOFError:
            return
        answers.write(_in_a_child(source, options))
        answers.flush()


def _in_a_child(source: str, options: dict[str, Any]) -> bytes:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            with open(writing, "wb") as answer:
                answer.write(_limited(source, **options))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as answer:
        data = answer.read()
    _, status = os.waitpid(child, 0)
    if status == 0:
        return data
    if os.WIFSIGNALED(status):
        ended = signal.Signals(os.WTERMSIG(status)).name
        return pickle.dumps(f"the child was ended by {ended} after {options}")
    return pickle.dumps("the child ended without an answer, see its stderr")


def _limited(
    source: str,
    *,
    which: str = "compiled",
    memory: int = MEMORY,
    seconds: float = SECONDS,
    files: int = 1024,
    **options: Any,
) -> bytes:
    kernel.use(which)
    # Each thread of glibc's allocator would reserve 128 MiB of addresses, which is not memory.
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
    before = _status("VmSize"), _status("VmRSS")
    resource.setrlimit(resource.RLIMIT_AS, (before[0] + memory,) * 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    start = time.monotonic()
    found = survey(source, **options)
    found.seconds = time.monotonic() - start
    found.peak = _status("VmHWM") - before[1]
    return pickle.dumps(found)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def _import_all() -> None:
    """Import the modules that a look-up imports at its first use, such as numpy; a survey uses them all."""
    for partition in ("orders-0", "txn-0"):
        survey(str(log_dir("sample") / partition))


if __name__ == "__main__":
    _import_all()
    _serve(sys.stdin.buffer, sys.stdout.buffer)
