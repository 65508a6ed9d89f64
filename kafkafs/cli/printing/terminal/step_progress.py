"""Progress of work that reads, writes and verifies files, and its end on a signal."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NoReturn, Self

from kafkafs.cli.printing.terminal.progress import Progress, size
from kafkafs.cli.printing.terminal.verbosity import detail, verbosity


@contextmanager
def stoppable() -> Iterator[None]:
    """Clean up on SIGTERM and SIGHUP as on an interrupt."""

    def stop(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, stop) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


_STEPS = ("read", "written", "verified")


class StepProgress:
    """The progress line of the furthest step that has begun.

    The steps alternate from partition to partition. A line for each change would never be old enough to appear.
    Several threads may count.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_quiet = verbosity().is_quiet
        self._step = ""
        self._line: Any = None
        self._bytes = dict.fromkeys(_STEPS, 0)

    def __enter__(self) -> Self:
        return self

    def advance(self, step: str, count: int) -> None:
        """Count bytes that were read, written or verified."""
        with self._lock:
            self._bytes[step] += count
            if not self._step or _STEPS.index(step) > _STEPS.index(self._step):
                self._end_line()
                self._step, self._line = step, Progress(step, quiet=self._is_quiet).__enter__()
                self._line.sums_up = False
            if step == self._step:
                self._line.advance(count)

    def __exit__(self, *_: object) -> None:
        self._end_line()
        for step, count in self._bytes.items():
            detail(f"{step}: {size(count)}")

    def _end_line(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.__exit__(None, None, None)
