"""Progress of work that takes longer than a second: a line on a terminal, else a line of text now and then."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.verbosity import detail, verbosity
from kafkafs.decode.shown_text import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar, TaskID


class Progress:
    """Line on standard error with a count of bytes, a rate and the time that is left.

    Where standard error is no terminal, or a dumb one, a line is printed after each `EVERY` seconds of work.

    rich is imported when the line first appears, so that quick commands start quickly. The line also appears when
    nothing was counted for `SILENCE` seconds; it then shows a spinner until bytes are counted.

    Attributes:
        total: expected bytes, for a bar; None when unknown.
        sums_up: whether a verbose command prints the bytes and the time at the end.
    """

    PATIENCE = 1.0
    EVERY = 30.0
    SILENCE = 2.0
    """Seconds without a count after which the line appears."""
    _alive: ClassVar[list[Progress]] = []

    def __init__(self, verb: str, *, quiet: bool = False) -> None:
        self.verb = verb
        self.words = ""
        self._verbosity = verbosity()
        quiet = quiet or self._verbosity.is_quiet
        self.active = not quiet and is_terminal()
        self._prints_lines = not quiet and not is_terminal()
        self.sums_up = True
        self.bytes = 0
        self.total: int | None = None
        self.started = self._began = time.monotonic()
        self.bar: Bar | None = None
        self.task: TaskID | None = None
        self._lock = threading.RLock()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        if self._prints_lines:
            threading.Thread(target=self._print_lines, name="progress", daemon=True).start()
        if self.active:
            Progress._alive.append(self)
            threading.Thread(target=self._watch, name="progress", daemon=True).start()
        return self

    def advance(self, count: int) -> None:
        """Count bytes; show the line after `PATIENCE` seconds."""
        self.bytes += count
        if not self.active:
            return
        with self._lock:
            if self.bar is not None and self.task is not None:
                self.bar.update(self.task, completed=self.bytes)
            elif time.monotonic() - self.started >= self.PATIENCE:
                self._show()

    def say(self, words: str) -> None:
        """Show the current step while no bytes are counted; an empty text while they are."""
        if words == self.words:
            return
        self.words = words
        with self._lock:
            if self.bar is not None and self.task is not None:
                self.bar.update(self.task, description=self._description())

    def _description(self) -> str:
        return f"{self.verb} {self.words}".rstrip()

    def clear(self) -> None:
        """Remove the line before a print to standard output; the line returns after `PATIENCE` seconds."""
        with self._lock:
            if self.bar is not None:
                self.bar.stop()
                self.bar = self.task = None
                self.started = time.monotonic()

    def _print_lines(self) -> None:
        while not self._ended.wait(self.EVERY):
            if self.bytes:
                say(self.line(time.monotonic() - self.started), err=True)

    def line(self, seconds: float) -> str:
        """Return the line of text after some seconds of work."""
        rate = self.bytes / seconds
        line = f"kafkafs: {self._description()}: {size(self.bytes)}"
        if self.total:
            line += f" of {size(self.total)}"
        line += f", {size(rate)}/s"
        if self.total and rate:
            left = max(self.total - self.bytes, 0) / rate
            line += f", {int(left // 60)}m {int(left % 60)}s left"
        return printable(line)

    def _watch(self) -> None:
        """Show the line after a silence; of several Progress objects only the newest has a line."""
        while not self._ended.wait(self.SILENCE / 4):
            with self._lock:
                if self._ended.is_set() or self._verbosity.is_quiet:
                    return
                is_newest = Progress._alive[-1:] == [self]
                if not is_newest:
                    self.started = time.monotonic()
                elif self.bar is None and time.monotonic() - self.started >= self.SILENCE:
                    self._show()

    def _show(self) -> None:
        self.bar = self._make_bar()
        self.bar.start()
        self.task = self.bar.add_task(self._description(), total=self.total, completed=self.bytes)

    def _make_bar(self) -> Bar:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress as Bar,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        return Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *([] if self.total is None else [BarColumn()]),
            *([DownloadColumn(binary_units=True), TransferSpeedColumn()] if self.bytes else []),
            TimeElapsedColumn(),
            *([] if self.total is None else [TextColumn("left"), TimeRemainingColumn()]),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        with self._lock:
            if self in Progress._alive:
                Progress._alive.remove(self)
            if self.bar is not None:
                self.bar.stop()
                self.bar = self.task = None
        if self.bytes and self.sums_up:
            seconds = time.monotonic() - self._began
            detail(f"{self.verb}: {size(self.bytes)} in {seconds:.2f} s")


def is_terminal() -> bool:
    """Return whether standard error is a terminal that moves its cursor."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def size(count: float) -> str:
    """Return a number of bytes for people: 1023 B, 1.0 KiB, 2.5 GiB."""
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
