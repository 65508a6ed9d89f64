"""Progress on a terminal for anything that takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self


class Progress:
    """A line on standard error with a count of bytes and a rate; nothing when it is no terminal."""

    INTERVAL = 0.25
    PATIENCE = 1.0

    def __init__(self, verb: str, *, quiet: bool = False) -> None:
        self.verb = verb
        self.active = not quiet and sys.stderr.isatty()
        self.bytes = 0
        self.started = time.monotonic()
        self.shown = self.started + self.PATIENCE - self.INTERVAL
        self.printed = False

    def __enter__(self) -> Self:
        return self

    def advance(self, count: int) -> None:
        """Count bytes, and show them when it is time to."""
        self.bytes += count
        now = time.monotonic()
        if self.active and now - self.shown >= self.INTERVAL:
            self.shown = now
            self.printed = True
            rate = self.bytes / (now - self.started)
            sys.stderr.write(f"\r{self.verb} {size(self.bytes)} ({size(rate)}/s)\x1b[K")
            sys.stderr.flush()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.printed:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def size(count: float) -> str:
    """A count of bytes for people: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
