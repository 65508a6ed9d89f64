"""`kafkafs spark export`: records as Parquet, JSON, CSV or ORC files."""

from __future__ import annotations

from typing import Any

import click

from kafkafs.cli.arguments import source_argument
from kafkafs.cli.spark.job import job_options, run_job
from kafkafs.cli.spark.selection import selected, selection_options

FORMATS = ("parquet", "json", "csv", "orc")


@click.command()
@source_argument
@click.argument("target", metavar="TARGET")
@click.option("--format", "form", type=click.Choice(FORMATS), default="parquet",
              show_default=True, help="Of the files.")  # fmt: skip
@click.option("--values", type=click.Choice(["text", "base64"]), default="text", show_default=True,
              help="How JSON and CSV hold keys and values; text is base64 where bytes are no UTF-8.")  # fmt: skip
@click.option("--compression", metavar="CODEC", help="Of the files; Spark's default when not given.")  # fmt: skip
@click.option("--where", metavar="SQL",
              help="Only records for which this is true, such as \"partition = 0 and value is not null\".")  # fmt: skip
@click.option("--resume", is_flag=True,
              help="Go on with the export that is there, or add what the logs have got since.")  # fmt: skip
@click.option("--chunk-size", "chunk_bytes", type=click.IntRange(min=1), metavar="BYTES",
              help="Of the logs, written in one go; 1 GiB or more when not given.")  # fmt: skip
@selection_options("fail")
@job_options
def export(sources: tuple[str, ...], target: str, **given: Any) -> None:  # noqa: ANN401
    """Write records to files, by topic and day.

    \b
    kafkafs spark export /var/lib/kafka/data /lake/kafka
    kafkafs spark export /snapshots/broker-1 /lake/orders --topics orders --since 2024-01-01
    kafkafs spark export /snapshots/broker-1 /lake/orders --topics orders --resume
    kafkafs spark export /var/lib/kafka/data out --format json --where "key is not null"
    kafkafs spark export /mnt/broker-1 s3a://lake/kafka --master yarn

    Files lie in TARGET/topic=…/date=… (of the timestamps, UTC); Spark, and what else reads such a
    layout, takes topic and date for columns. Nothing is lost on the way: kafkafs spark restore makes
    logs of it again. The work is done in chunks, each of which is there as a whole or not at all, so
    that what was killed goes on with --resume and repeats nothing.
    """
    keywords = selected(sources, given)
    names = ("form", "values", "compression", "where", "resume", "chunk_bytes")
    keywords |= {name: given[name] for name in names}

    def job(spark: Any, tell: Any) -> Any:  # noqa: ANN401
        from kafkafs.spark.jobs.export import export as run

        return run(spark, target=target, tell=tell, **keywords)

    run_job(given, "export", job)
