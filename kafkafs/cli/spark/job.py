"""Shared by the commands of `kafkafs spark`: session, progress, summary, exit status.

A job's command takes `@job_options` (its function gets them as one dict, `given`) and calls
`run_job(given, "export", lambda spark, on_progress: export(spark, …, on_progress=on_progress))`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkafs.cli.arguments import Command
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.job_tables import show
from kafkafs.cli.printing.table import print_json
from kafkafs.cli.printing.verbosity import verbosity
from kafkafs.cli.spark.progress import shown_progress
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_USAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkafs.job_summary import JobSummary
    from kafkafs.spark.jobs.progress import OnProgress

MOST_WARNINGS = 20
_PYTHON = re.compile(
    r"^(?:[\w.]*\.)?(?P<name>[A-Za-z_]\w*(?:Error|Exception)): (?P<said>.+)$",
    re.MULTILINE,
)
_REFUSALS = frozenset({"OptionError"})
_CONDITION = re.compile(r"SQLSTATE: \w+")
Found = TypeVar("Found", bound="JobSummary")


def job_options(command: Command) -> Command:
    """Add --master, --conf and --json, as keyword arguments of a command, and --quiet and --verbose."""
    for option in (
        verbosity_options,
        click.option(
            "--json", "as_json", is_flag=True, help="Print the summary as one JSON object."
        ),
        click.option(
            "--conf",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            help="Set a property of Spark, such as spark.driver.memory=4g. Repeatable.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="Master of Spark; by default local[*], all cores of this machine. Under "
            "spark-submit its --master applies.",
        ),
    ):
        command = option(command)
    return command


def run_job(
    given: dict[str, Any],
    name: str,
    job: Callable[[SparkSession, OnProgress], Found],
    results: Callable[[Found], None] | None = None,
    status: Callable[[Found], int] | None = None,
) -> None:
    """Run a job, print its summary, and exit with its status.

    Args:
        given: the options of `job_options`.
        name: name of the job.
        job: runs the job and returns its summary.
        results: prints the results on standard output; the summary is then a note on standard error. --json prints the
            summary alone.
        status: computes the exit status; by default 1 when there are findings, else 0.
    """
    with job_session(given, name) as spark:
        with shown_progress(name) as on_progress:
            summary = job(spark, on_progress)
        if given["as_json"]:
            print_json(summary.facts())
        elif results is None:
            show(summary)
        else:
            results(summary)
            if not verbosity().is_quiet:
                show(summary, err=True)
    sys.exit(bool(summary.findings) if status is None else status(summary))


def report_damage(damages: Sequence[str], count: int) -> None:
    """Name damaged places on standard error.

    Args:
        damages: facts of the first places, as JSON.
        count: number of all places.
    """
    for damage in damages[:MOST_WARNINGS]:
        facts = json.loads(damage)
        where = printable(f"{facts['file']}: byte {facts['position']}")
        click.echo(f"kafkafs: {where}: {facts['reason']}", err=True)
    if count > MOST_WARNINGS:
        click.echo(f"kafkafs: {count - MOST_WARNINGS} more damaged places", err=True)


@contextmanager
def job_session(given: dict[str, Any], name: str) -> Iterator[SparkSession]:
    """Open a session by the options, and stop it after the job; turn errors into one line.

    Raises:
        RefusedError: no session is possible, or the job was refused before it started.
        JobError: the job failed.
    """
    from kafkafs.spark.session import why_not

    reason = why_not()
    if reason is not None:
        raise RefusedError(reason)
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    from kafkafs.spark.errors import DataLossError, OptionError
    from kafkafs.spark.session import session

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it repeats every error
    is_own = SparkContext._active_spark_context is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark warns about itself
        spark = session(
            f"kafkafs {name}", master=given["master"], settings=pairs(given["settings"], "--conf")
        )
    try:
        yield spark
    except OptionError as error:
        raise RefusedError(str(error)) from error
    except DataLossError as error:
        raise JobError(str(error)) from error
    except (PySparkException, Py4JJavaError) as error:
        sentence, is_refusal = failure_of(error)
        raise (RefusedError if is_refusal else JobError)(sentence) from error
    finally:
        if is_own:
            spark.stop()


def failure_of(error: BaseException) -> tuple[str, bool]:
    """Return the cause of a failure in one line, and whether the query was refused before it read anything.

    Spark wraps a Python trace into a Java trace.

    Args:
        error: error of PySpark, raised while a query was planned or run.
    """
    text = str(error)
    found = list(_raised(text))
    if found:
        name, said = found[-1]
        return said, name in _REFUSALS
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _CONDITION.sub("", first).strip().rstrip(";"), False


def _raised(text: str) -> Iterator[tuple[str, str]]:
    """Yield the exceptions at the ends of Python traces in a text."""
    for trace in text.split("Traceback (most recent call last):")[1:]:
        for match in _PYTHON.finditer(trace):
            yield match["name"], match["said"].strip()
            break


class JobError(click.ClickException):
    """A job that failed, or could not read its source."""

    exit_code = EXIT_CANNOT_READ

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - as click has it
        """Print one line on standard error."""
        click.echo(f"kafkafs: {printable(self.message)}", file=file, err=True)


class RefusedError(JobError):
    """A job that was refused before it started."""

    exit_code = EXIT_USAGE


def pairs(texts: tuple[str, ...], option: str) -> dict[str, str]:
    """Return NAME=VALUE options as a dict.

    Raises:
        click.BadParameter: an option has no name or no "=".
    """
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (name and sign):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        found[name] = value
    return found
