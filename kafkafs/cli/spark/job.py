"""Shared by the commands of `kafkafs spark`: session, progress, summary, exit status.

A job's command takes `@job_options` (its function gets them as one dict, `given`) and calls
`run_job(given, "restore", lambda spark, on_progress: restore(spark, …, on_progress=on_progress))`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import Command
from kafkafs.cli.options.executors import pairs, spark_session
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.job_tables import show
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.progress import Progress, is_terminal
from kafkafs.cli.printing.terminal.table import print_json
from kafkafs.cli.printing.terminal.verbosity import verbosity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkafs.job_summary import JobSummary
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


def job_options(command: Command) -> Command:
    """Add --spark, --spark-conf and --json, as keyword arguments of a command, and --quiet and --verbose."""
    for option in (
        verbosity_options,
        click.option(
            "--json", "as_json", is_flag=True, help="Print the summary as one JSON object."
        ),
        click.option(
            "--spark-conf",
            "--conf",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set a property of Spark, such as spark.driver.memory=4g. Repeatable.",
        ),
        click.option(
            "--spark",
            "--master",
            "master",
            metavar="MASTER",
            help="Master of Spark; by default local[*], all cores of this machine. Under "
            "spark-submit its --master applies.",
        ),
    ):
        command = option(command)
    return command


def run_job(
    given: dict[str, Any],
    name: str,
    job: Callable[[SparkSession, OnProgress], JobSummary],
) -> None:
    """Run a job, print its summary, and exit with 1 if it has findings, else with 0.

    Args:
        given: the options of `job_options`.
        name: name of the job.
        job: runs the job and returns its summary.
    """
    with spark_session(name, given["master"], pairs(given["settings"], "--spark-conf")) as spark:
        with shown_progress(name) as on_progress:
            summary = job(spark, on_progress)
        if given["as_json"]:
            print_json(summary.facts())
        else:
            show(summary)
    sys.exit(bool(summary.findings))
