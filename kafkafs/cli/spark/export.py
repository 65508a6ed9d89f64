"""`kafkafs spark export`: write records to Parquet, JSON, CSV or ORC files."""

from __future__ import annotations

import json
from typing import Any

import click

from kafkafs.cli.arguments import DEFAULT_SCHEMAS, schemas_option, source_argument
from kafkafs.cli.spark.job import job_options, run_job
from kafkafs.cli.spark.selection import selected, selection_options

FORMATS = ("parquet", "json", "csv", "orc")


@click.command()
@source_argument
@click.argument("target", metavar="TARGET")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="parquet",
    show_default=True,
    help="Format of the files.",
)
@click.option(
    "--values",
    type=click.Choice(["text", "base64"]),
    default="text",
    show_default=True,
    help="Form of keys and values in JSON and CSV; text becomes base64 where bytes are not UTF-8.",
)
@click.option(
    "--compression", metavar="CODEC", help="Codec of the files; by default that of Spark."
)
@click.option(
    "--decode",
    type=click.Choice(["json", "columns"]),
    help="Add decoded keys and values: JSON (not in csv), or columns of the types of each topic's newest schema "
    "(in parquet).",
)
@schemas_option
@click.option(
    "--where",
    metavar="SQL",
    help='Take only records that match this condition, such as "partition = 0 and value is not null".',
)
@click.option(
    "--resume", is_flag=True, help="Continue the export in TARGET, or add newer records to it."
)
@click.option(
    "--chunk-size",
    "chunk_bytes",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Size of a chunk, in bytes of logs; by default 1 GiB or more.",
)
@selection_options("fail")
@job_options
def export(sources: tuple[str, ...], target: str, **given: Any) -> None:  # noqa: ANN401
    """Write records to files, by topic and day.

    \b
    kafkafs spark export /var/lib/kafka/data /lake/kafka
    kafkafs spark export /snapshots/broker-1 /lake -t orders --from 2024-01-01
    kafkafs spark export /snapshots/broker-1 /lake/orders --topic orders --resume
    kafkafs spark export data out --format json --where "key is not null"
    kafkafs spark export data lake --topic orders --decode columns
    kafkafs spark export /mnt/broker-1 s3a://lake/kafka --master yarn

    Files are written to TARGET/topic=…/date=… (dates of the timestamps, UTC); Spark and other readers
    of this layout see topic and date as columns. Nothing is lost: kafkafs spark restore makes logs
    from an export. Records are written in chunks; each chunk is complete or absent, so that a killed export
    continues with --resume and repeats nothing.
    """
    keywords = selected(sources, given)
    names = ("form", "values", "compression", "where", "resume", "chunk_bytes")
    keywords |= {name: given[name] for name in names}
    if given["decode"] is not None:
        keywords["decode"] = "true" if given["decode"] == "json" else "columns"
    if given["schemas"] != DEFAULT_SCHEMAS:
        keywords["schemas"] = json.dumps(given["schemas"])

    def job(spark: Any, on_progress: Any) -> Any:  # noqa: ANN401
        from kafkafs.spark.jobs.export import export as run

        return run(spark, target=target, on_progress=on_progress, **keywords)

    run_job(given, "export", job)
