"""Progress on a terminal for anything that takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar, TaskID


class Progress:
    """A line on standard error with a count of bytes and a rate; nothing when it is no terminal.

    rich is loaded when the line is first shown, so that quick commands start quickly.

    Attributes:
        total: bytes that there will be, for a bar; None when that is not known.
    """

    PATIENCE = 1.0

    def __init__(self, verb: str, *, quiet: bool = False) -> None:
        self.verb = verb
        self.active = not quiet and sys.stderr.isatty()
        self.bytes = 0
        self.total: int | None = None
        self.started = time.monotonic()
        self.bar: Bar | None = None
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def advance(self, count: int) -> None:
        """Count bytes, and show them when it has taken a while."""
        self.bytes += count
        if not self.active:
            return
        if self.bar is None:
            if time.monotonic() - self.started < self.PATIENCE:
                return
            self.bar = self._make_bar()
            self.bar.start()
            self.task = self.bar.add_task(self.verb, total=self.total, completed=self.bytes)
        elif self.task is not None:
            self.bar.update(self.task, completed=self.bytes)

    def clear(self) -> None:
        """Take the line away for a moment: something is about to be printed on standard output."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = self.task = None

    def _make_bar(self) -> Bar:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress as Bar,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TransferSpeedColumn,
        )

        return Bar(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            *([] if self.total is None else [BarColumn()]),
            DownloadColumn(binary_units=True),
            TransferSpeedColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
