"""`kafkafs spark restore`: make logs from an export."""

from __future__ import annotations

import json
from typing import Any

import click

from engine.coding.compression import CODEC_NAMES
from kafkafs.cli.options.executors import pairs
from kafkafs.cli.printing.terminal.verbosity import detail
from kafkafs.cli.spark.job import job_options, run_job

FORMATS = ("parquet", "json", "csv", "orc")


@click.command(short_help="Make a log dir from an export.")
@click.argument("source", metavar="EXPORT")
@click.argument("target", metavar="TARGET")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="LIST",
    help="Restore only these topics, by name, comma-separated or repeated.",
)
@click.option(
    "--rename", "renames", multiple=True, metavar="NAME=NEW", help="Rename a topic. Repeatable."
)
@click.option(
    "--topic-id",
    "topic_ids",
    multiple=True,
    metavar="TOPIC=ID",
    help="Give a topic (by its new name) this id, in the form of kafka-topics --describe; "
    "by default a new one.",
)
@click.option(
    "--compression",
    "codec",
    type=click.Choice(CODEC_NAMES),
    default="none",
    show_default=True,
    help="Codec of the batches.",
)
@click.option(
    "--batch-size",
    "batchBytes",
    metavar="SIZE",
    help="Size of a batch before compression; by default 64k.",
)
@click.option(
    "--segment-size", "segmentBytes", metavar="SIZE", help="Size of a .log file; by default 1g."
)
@click.option(
    "--cluster-id",
    "clusterId",
    metavar="ID",
    help="With --node-id: write a meta.properties for this broker.",
)
@click.option("--node-id", "nodeId", metavar="NUMBER", help="See --cluster-id.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Format of the files, in a folder with the layout of an export but without its manifest.",
)
@click.option("--incomplete", is_flag=True, help="Accept an unfinished export.")
@click.option(
    "--tasks",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Number of writing tasks; by default one per 128 MiB of files.",
)
@job_options
def restore(source: str, target: str, **given: Any) -> None:  # noqa: ANN401
    """Make a log dir TARGET, which a broker loads, from an export by `kafkafs export`.

    \b
    kafkafs spark restore /lake/kafka /var/lib/kafka/restored
    kafkafs spark restore s3a://lake/kafka restored -t orders --compression zstd
    kafkafs spark restore /lake/kafka restored --rename orders=old-orders

    Offsets, timestamps, keys, values and headers are those of the export. TARGET must not exist, or be
    empty. It is complete or absent, also after a crash: it is written beside its place, then renamed.
    kafkafs-spark.json in it lists its content.

    Exit status: 0 complete, 1 the number of records of a topic differs from the export, 2 refused, 3 failed.
    """
    options = {
        name: given[name]
        for name in ("codec", "batchBytes", "segmentBytes", "clusterId", "nodeId")
        if given[name] is not None
    }
    topic_ids = pairs(given["topic_ids"], "--topic-id")
    if topic_ids:
        options["topicIds"] = json.dumps(topic_ids)
    keywords = {name: given[name] for name in ("form", "topics", "incomplete", "tasks")}
    keywords["topics"] = ",".join(given["topics"]) or None
    keywords["renames"] = pairs(given["renames"], "--rename")

    detail(f"reading {source}")

    def job(spark: Any, on_progress: Any) -> Any:  # noqa: ANN401
        from kafkafs.spark.jobs.restore import restore as run

        return run(spark, source, target, on_progress=on_progress, **keywords, **options)

    run_job(given, "restore", job)
