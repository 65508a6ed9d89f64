"""`kafkafs spark stats`: count the content of a volume by topic, partition, hour and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import source_argument
from kafkafs.cli.spark.job import job_options, report_damage, run_job
from kafkafs.cli.spark.selection import selected, selection_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkafs.spark.jobs.progress import OnProgress
    from kafkafs.spark.jobs.stats import Stats


@click.command()
@source_argument
@click.option(
    "--keys",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    metavar="N",
    help="Count the N most frequent keys of each topic; 0 reads only batch headers, which "
    "is many times faster.",
)
@click.option(
    "--hours",
    type=click.IntRange(min=0),
    default=24,
    show_default=True,
    metavar="N",
    help="Show the latest N hours; --json has all.",
)
@selection_options("skip")
@job_options
def stats(sources: tuple[str, ...], **given: Any) -> None:  # noqa: ANN401 - click's options
    """Count bytes, batches, records, codecs and keys.

    \b
    kafkafs spark stats /var/lib/kafka/data
    kafkafs spark stats /snapshots/broker-1 --keys 0
    kafkafs spark stats '/snapshots/broker-*' --topic orders --from -7d

    The hour of a batch is that of its largest timestamp, UTC. Damaged places are named on standard error
    and not counted. Exit status: 0 fine, 1 places are damaged.
    """
    keywords = selected(sources, given)

    def job(spark: SparkSession, on_progress: OnProgress) -> Stats:
        from kafkafs.spark.jobs import stats as counting

        found = counting.stats(
            spark,
            keys=given["keys"],
            shown_hours=given["hours"],
            on_progress=on_progress,
            **keywords,
        )
        report_damage(found.damages, found.damaged)
        return found

    run_job(given, "stats", job)
