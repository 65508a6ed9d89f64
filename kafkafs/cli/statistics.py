"""`kafkafs stats`: sizes, codecs, producers and times of logs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import jobs_option, json_option, open_log_source, source_argument
from kafkafs.cli.options.partitions import partition_options, require_choice, require_partitions
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.progress import Progress
from kafkafs.exit_codes import EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.log.partition_choice import PartitionChoice


@click.command()
@source_argument
@partition_options
@jobs_option
@json_option
@verbosity_options
def stats(sources: tuple[str, ...], choice: PartitionChoice, jobs: int, as_json: bool) -> None:
    """Print bytes, batches, records, codecs, producers and times, by partition.

    \b
    kafkafs stats /var/lib/kafka/data
    kafkafs stats /var/lib/kafka/data --topic orders,payments
    kafkafs stats /backup/orders-0 --json

    Every batch is read, checked and decompressed. RATIO: bytes without compression, by
    bytes on disk. KEYLESS: records without a key. LATE: batches that are older than one
    before them. The sparkline has the records from FIRST to LAST; a batch counts at the
    time of its newest record. SKEW: records of a topic's largest partition, by the mean.

    Exit status: 0 everything was counted, 1 damage keeps some records from it, 3 cannot read.
    """
    from engine.check.log_check import PartitionSummary
    from engine.check.log_dir_check import CheckOptions, CheckProgress, SourceCheck
    from kafkafs.cli.printing.stats_report import JsonStats, TextStats

    report = JsonStats() if as_json else TextStats()
    with open_log_source(sources) as source, Progress("counted") as progress:
        logs = require_partitions(source)
        require_choice(choice, logs)
        options = CheckOptions(jobs, choice.takes, counts=True, takes_files=False)
        check = SourceCheck(source, options)
        if progress.active:
            progress.total = check.size()
        for event in check.run():
            if isinstance(event, PartitionSummary):
                progress.clear()
                report.add(event, logs[event.partition].topic_partition.topic)
            elif isinstance(event, CheckProgress):
                progress.advance(event.size)
            else:
                report.finding(event)
        progress.clear()
        report.end()
        if not report.is_whole:
            sys.exit(EXIT_FINDINGS)
