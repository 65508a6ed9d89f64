"""Progress of a Spark job: a bar on a terminal; elsewhere, with --progress, a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kafkafs.spark.jobs.progress import JobProgress, OnProgress

LINE_EVERY = 10.0


@contextmanager
def shown_progress(job: str, *, wanted: bool | None) -> Iterator[OnProgress]:
    """Yield the function that takes the progress of a job.

    Args:
        job: name of the job.
        wanted: whether to show progress; None shows it on a terminal only.
    """
    is_terminal = sys.stderr.isatty()
    if wanted is False or (wanted is None and not is_terminal):
        yield lambda _: None
    elif is_terminal:
        with _bar(job) as on_progress:
            yield on_progress
    else:
        yield _Lines(job)


class _Lines:
    def __init__(self, job: str) -> None:
        self._job = job
        self._last: tuple[str, float] | None = None

    def __call__(self, progress: JobProgress) -> None:
        now = time.monotonic()
        last = self._last
        is_news = last is None or last[0] != progress.step or progress.share >= 1
        if is_news or (last is not None and now - last[1] >= LINE_EVERY):
            self._last = progress.step, now
            click.echo(f"kafkafs {self._job}: {_said(progress)}", err=True)


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
