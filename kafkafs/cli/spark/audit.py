"""`kafkafs spark audit`: run `kafkafs check` over whole volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import source_argument, source_paths
from kafkafs.cli.options.partitions import topic_option
from kafkafs.cli.printing.verbosity import detail
from kafkafs.cli.spark.job import job_options, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from engine.log.partition_choice import PartitionChoice
    from kafkafs.spark.jobs.audit import Audit
    from kafkafs.spark.jobs.progress import OnProgress


@click.command(short_help="Check every byte of the logs of whole volumes.")
@source_argument
@click.option(
    "-o",
    "--output",
    "target",
    metavar="TARGET",
    help="Write the tables `findings` and `partitions` into this folder, new or empty.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("parquet", "orc", "json", "csv")),
    default="parquet",
    show_default=True,
    help="Format of the tables.",
)
@topic_option
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="ID",
    help="Show only findings of this rule; `kafkafs check --list-rules` prints all. Repeatable.",
)
@click.option(
    "--severity",
    type=click.Choice(("note", "warning", "error")),
    default="note",
    show_default=True,
    help="Show only findings of at least this severity.",
)
@click.option(
    "--most",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="Print at most N findings; TARGET has all.",
)
@click.option(
    "--task-bytes",
    type=click.IntRange(min=1),
    metavar="N",
    help="Size of a task, in about N bytes of logs; by default 128 MiB.",
)
@job_options
def audit(
    sources: tuple[str, ...],
    target: str | None,
    form: str,
    choice: PartitionChoice,
    rules: tuple[str, ...],
    severity: str,
    most: int,
    task_bytes: int | None,
    **given: Any,  # noqa: ANN401 - the options of every job
) -> None:
    """Check every byte of the logs of whole volumes, and of the files beside them.

    \b
    kafkafs spark audit /var/lib/kafka/data
    kafkafs spark audit /disk1/kafka /disk2/kafka --severity warning -o found
    kafkafs spark audit '/snapshots/broker-1/disk*' --topic 'orders*' --json

    The findings are those of `kafkafs check`. Tasks check partitions in parallel, large partitions
    segment by segment. Exit status: 0 nothing found but notes, 1 errors or warnings.
    """

    detail(f"reading {', '.join(source_paths(sources))}")

    def job(spark: SparkSession, on_progress: OnProgress) -> Audit:
        from kafkafs.spark.jobs import audit as auditing
        from kafkafs.spark.jobs.audit_plan import TASK_BYTES

        return auditing.audit(
            spark,
            source_paths(sources),
            target,
            topic=choice.topic_regex or None,
            rules=rules,
            severity=severity,
            form=form,
            most=most,
            task_bytes=task_bytes or TASK_BYTES,
            on_progress=on_progress,
        )

    run_job(given, "audit", job)
