"""Progress of a Spark job: a bar on a terminal, elsewhere a line now and then; with --verbose also one for each step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.progress import Progress, is_terminal
from kafkafs.cli.printing.terminal.verbosity import verbosity

if TYPE_CHECKING:
    from kafkafs.spark.jobs.progress import JobProgress, OnProgress


@contextmanager
def shown_progress(job: str) -> Iterator[OnProgress]:
    """Yield the function that takes the progress of a job of this name."""
    chosen = verbosity()
    if chosen.is_quiet:
        yield lambda _: None
    elif is_terminal():
        with _bar(job) as on_progress:
            yield on_progress
    else:
        yield _Lines(job, each_step=chosen.is_verbose)


class _Lines:
    def __init__(self, job: str, *, each_step: bool) -> None:
        self._job = job
        self._each_step = each_step
        self._step = ""
        self._printed = time.monotonic()

    def __call__(self, progress: JobProgress) -> None:
        now = time.monotonic()
        is_news = self._each_step and (progress.step != self._step or progress.share >= 1)
        if is_news or now - self._printed >= Progress.EVERY:
            self._step, self._printed = progress.step, now
            say(f"kafkafs {self._job}: {_said(progress)}", err=True)


@contextmanager
def _bar(job: str) -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(job),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)

        def on_progress(progress: JobProgress) -> None:
            bar.update(task, completed=progress.share, description=_counted(progress))

        yield on_progress


def _said(progress: JobProgress) -> str:
    return f"{100 * progress.share:.0f}%, {_counted(progress)}"


def _counted(progress: JobProgress) -> str:
    text = f"{progress.step}: {progress.done} of {progress.tasks} tasks, {progress.active} running"
    return f"{text}, {progress.failed} failed" if progress.failed else text
