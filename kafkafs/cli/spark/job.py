"""Shared by the commands of `kafkafs spark`: session, progress, summary, exit status.

A job's command takes `@job_options` (its function gets them as one dict, `given`) and calls
`run_job(given, "restore", lambda spark, on_progress: restore(spark, …, on_progress=on_progress))`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import Command
from kafkafs.cli.options.executors import pairs, spark_session
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.job_tables import show
from kafkafs.cli.printing.terminal.table import print_json
from kafkafs.cli.spark.progress import shown_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkafs.job_summary import JobSummary
    from kafkafs.spark.jobs.progress import OnProgress


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
