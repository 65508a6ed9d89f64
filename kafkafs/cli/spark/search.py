"""`kafkafs spark search`: find records by their content in whole volumes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import source_argument
from kafkafs.cli.printing.verbosity import note
from kafkafs.cli.spark.export import FORMATS
from kafkafs.cli.spark.job import job_options, report_damage, run_job
from kafkafs.cli.spark.selection import selected, selection_options
from kafkafs.exit_codes import EXIT_CANNOT_READ

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkafs.spark.jobs.progress import OnProgress
    from kafkafs.spark.jobs.search import SearchSummary


@click.command()
@source_argument
@click.option("--any", "anywhere", metavar="REGEX", help="Match the key, the value or a header.")
@click.option("--key", metavar="REGEX", help="Match the key.")
@click.option("--value", metavar="REGEX", help="Match the value.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="NAME[=REGEX]",
    help="Match records with this header, and its value. Repeatable.",
)
@click.option("--key-equals", metavar="TEXT", help="Match records with exactly this key.")
@click.option(
    "--where",
    metavar="SQL",
    help='Take only records that match this condition, such as "length(value) > 1000".',
)
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="Take REGEX as plain text.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore the case of letters.")
@click.option(
    "-m",
    "--max-count",
    "most",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Print at most the first N.",
)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="TARGET",
    help="Write all matches to files instead, in the layout of `export`.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="json",
    show_default=True,
    help="Format of the files.",
)
@selection_options("skip")
@job_options
def search(sources: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401 - click's options
    """Print records that match all conditions.

    \b
    kafkafs spark search /var/lib/kafka/data --value refund
    kafkafs spark search /snapshots/broker-1 --key-equals k17 --from 2024-01-01
    kafkafs spark search '/snapshots/broker-*' --header trace-id=9f3a -o found
    kafkafs spark search data --where "length(value) > 1000000"

    REGEX is a Python regular expression on the stored bytes; in Kafka's own topics (--internal) on
    the JSON that keys and values decode to. Damaged places are named on standard error and skipped.
    Exit status: 0 records matched, 1 none did, 3 places are damaged and were not searched, whatever
    matched elsewhere.
    """
    keywords = selected(sources, given)
    keywords |= {name: given[name] for name in ("where", "target", "form", "most")}
    if given["key_equals"] is not None:
        keywords["keyEquals"] = given["key_equals"]
    headers = tuple(_header(text) for text in given["headers"])

    def job(spark: SparkSession, on_progress: OnProgress) -> SearchSummary:
        from kafkafs.spark.jobs import search as searching
        from kafkafs.spark.jobs.record_filter import Predicate

        names = ("anywhere", "key", "value", "fixed", "ignore_case")
        chosen = {name: given[name] for name in names}
        predicate = Predicate(headers=headers, **chosen)
        return searching.search(spark, predicate=predicate, on_progress=on_progress, **keywords)

    run_job(given, "search", job, _print, _status)


def _status(summary: SearchSummary) -> int:
    """Return the exit status, as `kafkafs grep` defines it."""
    return EXIT_CANNOT_READ if summary.damaged else summary.findings


def _print(summary: SearchSummary) -> None:
    """Print the record lines; name damaged places on standard error."""
    report_damage(summary.damages, summary.damaged)
    for line in summary.lines():
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
    more = summary.records - len(summary.rows)
    if more and summary.target is None:
        note(f"{more} more: -m prints more, --output writes all")


def _header(text: str) -> tuple[str, str | None]:
    name, sign, pattern = text.partition("=")
    if not name:
        raise click.BadParameter(f"{text!r} is not NAME or NAME=REGEX", param_hint="--header")
    return name, pattern if sign else None
