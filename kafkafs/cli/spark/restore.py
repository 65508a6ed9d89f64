"""`kafkafs spark restore`: logs of an export again."""

from __future__ import annotations

import json
from typing import Any

import click

from engine.coding.compression import CODEC_NAMES
from kafkafs.cli.spark.job import job_options, pairs, run_job

FORMATS = ("parquet", "json", "csv", "orc")


@click.command()
@click.argument("source", metavar="EXPORT")
@click.argument("target", metavar="TARGET")
@click.option("--topics", metavar="LIST", help="Only topics of these names, separated by commas.")
@click.option("--rename", "renames", multiple=True, metavar="OLD=NEW", help="Rename a topic.")
@click.option("--topic-id", "topic_ids", multiple=True, metavar="TOPIC=ID",
              help="Give a topic (by its new name) this id, as kafka-topics --describe shows it; "
              "a new one when not given.")  # fmt: skip
@click.option("--codec", type=click.Choice(CODEC_NAMES), default="none", show_default=True,
              help="Of the batches.")  # fmt: skip
@click.option("--batch-size", "batchBytes", metavar="SIZE", help="Records in a batch, before compression; 64k.")  # fmt: skip
@click.option("--segment-size", "segmentBytes", metavar="SIZE", help="Of a .log file; 1g.")
@click.option("--cluster-id", "clusterId", metavar="ID",
              help="With --node-id: write a meta.properties for this broker.")  # fmt: skip
@click.option("--node-id", "nodeId", metavar="NUMBER", help="See --cluster-id.")
@click.option("--format", "form", type=click.Choice(FORMATS),
              help="Of a folder that is laid out like an export and is none.")  # fmt: skip
@click.option("--incomplete", is_flag=True, help="Take an export that did not come to its end.")
@click.option("--tasks", type=click.IntRange(min=1), metavar="NUMBER",
              help="That write; one for each 128 MiB of files when not given.")  # fmt: skip
@job_options
def restore(source: str, target: str, **given: Any) -> None:  # noqa: ANN401
    """Make a log dir TARGET, which a broker loads, of what `kafkafs spark export` wrote.

    \b
    kafkafs spark restore /lake/kafka /var/lib/kafka/restored
    kafkafs spark restore s3a://lake/kafka restored --topics orders --codec zstd
    kafkafs spark restore /lake/kafka restored --rename orders=orders-2024 --topic-id orders-2024=sgf5MsZgRTuEMv68ZXKJbQ

    Offsets, timestamps, keys, values and headers are those of the export. TARGET is whole or not there:
    it is made beside its place and renamed, also when something is killed meanwhile. It must not exist,
    or be empty. kafkafs-spark.json in it says what it holds.

    Exit status: 0 all is there, 1 a topic has not as many records as the export says, 2 refused, 3 failed.
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
    keywords["renames"] = pairs(given["renames"], "--rename")

    def job(spark: Any, tell: Any) -> Any:  # noqa: ANN401
        from kafkafs.spark.jobs.restore import restore as run

        return run(spark, source, target, tell=tell, **keywords, **options)

    run_job(given, "restore", job)
