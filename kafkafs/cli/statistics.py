"""`kafkafs stats`: sizes, codecs, producers and times of logs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import (
    LostRead,
    jobs_option,
    json_option,
    open_log_source,
    source_argument,
    source_paths,
)
from kafkafs.cli.options.executors import SparkMaster, spark_options
from kafkafs.cli.options.leftovers import Leftovers, leftover_options
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.partitions import partition_options, require_choice, require_partitions
from kafkafs.cli.options.times import at_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.damage import report as report_damage
from kafkafs.cli.printing.terminal.output import fail, sentence_of
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.decode.error_line import shown_facts
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.check.log_dir_check import Event, SourceCheck
    from engine.log.partition_choice import PartitionChoice
    from engine.log.partition_log import PartitionLog
    from kafkafs.decode.key_counts import KeyItem
    from kafkafs.decode.searching.apart import Apart
    from kafkafs.spark.executors import Executors


@click.command()
@source_argument
@click.option(
    "--keys",
    "only_keys",
    is_flag=True,
    help="Print the number of keys and the most frequent ones instead; reads every record.",
)
@click.option(
    "--hours",
    "by_hour",
    is_flag=True,
    help="Print the records of each topic by hour instead.",
)
@partition_options
@jobs_option
@mask_option
@leftover_options
@at_option
@spark_options
@json_option
@verbosity_options
def stats(
    sources: tuple[str, ...],
    only_keys: bool,
    by_hour: bool,
    choice: PartitionChoice,
    jobs: int,
    masks: Masks,
    leftovers: Leftovers,
    spark: SparkMaster,
    as_json: bool,
) -> None:
    """Print bytes, batches, records, codecs, producers and times, by partition.

    \b
    kafkafs stats /var/lib/kafka/data
    kafkafs stats /var/lib/kafka/data --topic orders,payments
    kafkafs stats /backup/orders-0 --json
    kafkafs stats /var/lib/kafka/data --topic orders --keys
    kafkafs stats /var/lib/kafka/data --topic orders --hours

    Every batch is read, checked and decompressed. RATIO: bytes without compression, by
    bytes on disk. KEYLESS: records without a key. LATE: batches that are older than one
    before them. The sparkline has the records from FIRST to LAST; a batch counts at the
    time of its newest record. SKEW: records of a topic's largest partition, by the mean.

    --hours: hours (UTC) with records, and the mean rate of each. A topic with records
    of more than about 1,500 hours has longer rows; HOURS is their length.

    With --deleted, files that a broker set aside have a row each, of all that is in
    them; folders always have one. The sums are those of the rows.

    --keys: KEYS is exact up to 4,095 keys, above (~) with a standard error of 1.6 %.
    TOP-KEY, TOP-10, TOP-100: records of the most frequent keys, by all records; with ≥
    there are too many keys to count each: every key in more than 0.1 % of the records
    is found, and its number is too small by less than that.

    Exit status: 0 everything was counted, 1 damage keeps some records from it, 3 cannot read.
    """
    masks.refuse(None)
    if only_keys and by_hour:
        raise click.UsageError("--keys and --hours cannot be combined")
    if only_keys:
        _print_keys(sources, choice, jobs, masks, leftovers, spark, as_json=as_json)
        return
    from engine.check.log_check import PartitionSummary
    from engine.check.log_dir_check import CheckOptions, CheckProgress, SourceCheck
    from engine.check.rules.finding import Finding
    from engine.log.leftover_logs import is_set_aside
    from engine.replay.chosen_copies import chosen_copies
    from engine.workers import Workers
    from kafkafs.cli.printing.stats_report import HourStats, JsonStats, TextStats

    report = HourStats(as_json=as_json) if by_hour else JsonStats() if as_json else TextStats()
    with (
        open_log_source(sources, reads=LostRead()) as source,
        masks.told(source),
        Progress("counted") as progress,
        ExitStack() as stack,
    ):
        logs = require_partitions(source)
        require_choice(choice, logs)
        stack.enter_context(
            leftovers.told(source, choice.takes, as_json=as_json, with_folders=False)
        )
        report.leftovers = {name for name, log in logs.items() if is_set_aside(log)}
        if as_json and source.nodes:
            copies = chosen_copies(source)
            report.copy_of = lambda name: copies(logs[name])
        executors = stack.enter_context(spark.executors("stats", source, source_paths(sources)))
        elsewhere = None if executors is None else partial(_checked, executors)
        options = CheckOptions(
            jobs, choice.takes, counts=True, takes_files=False, elsewhere=elsewhere
        )
        check = SourceCheck(source, options)
        if progress.active:
            progress.total = check.size()
        for event in check.run():
            if isinstance(event, PartitionSummary):
                progress.clear()
                report.add(event, logs[event.partition].topic_partition.topic)
            elif isinstance(event, CheckProgress):
                progress.advance(event.size)
            elif isinstance(event, Finding):
                report.finding(event)
        with Workers(jobs) as workers:
            for log, _ in leftovers.files(source, choice.takes):
                report.leftovers.add(log.name)
                for event in check.partition(log, workers):
                    if isinstance(event, PartitionSummary):
                        event.losses.clear()  # what a leftover lacks is no loss
                        report.add(event, log.topic_partition.topic)
                    elif isinstance(event, Finding):
                        report.finding(event)
        progress.clear()
        report.end()
        if not report.is_whole:
            sys.exit(EXIT_FINDINGS)


def _print_keys(
    sources: tuple[str, ...],
    choice: PartitionChoice,
    jobs: int,
    masks: Masks,
    leftovers: Leftovers,
    spark: SparkMaster,
    *,
    as_json: bool,
) -> None:
    """Print what the keys of each partition add up to."""
    from engine.log.leftover_logs import is_set_aside
    from kafkafs.cli.printing.key_report import KeyReport, decoded_key, masked_key
    from kafkafs.decode.key_counts import KeyCounts
    from kafkafs.decode.searching.apart import Apart
    from kafkafs.schemas.sources.known_schemas import KnownSchemas

    output = KeyReport(as_json=as_json)
    places, is_read = 0, True
    with (
        open_log_source(sources, reads=LostRead()) as source,
        masks.told(source),
        Progress("counted") as progress,
        ExitStack() as stack,
    ):
        logs = require_partitions(source)
        require_choice(choice, logs)
        stack.enter_context(
            leftovers.told(source, choice.takes, as_json=as_json, with_folders=False)
        )
        known = KnownSchemas(source)
        chosen: list[tuple[PartitionLog, Apart | None]] = [
            (log, Apart(log.name, None) if is_set_aside(log) else None)
            for log in filter(choice.takes, logs.values())
        ]
        chosen += leftovers.files(source, choice.takes)
        executors = stack.enter_context(spark.executors("stats", source, source_paths(sources)))
        for (log, apart), items in zip(chosen, _keys(chosen, jobs, executors), strict=True):
            sums = KeyCounts()
            topic = log.topic_partition.topic
            mask = masks.of(topic)
            try:
                for item in items:
                    if isinstance(item, KeyCounts):
                        sums.add(item)
                    elif isinstance(item, dict):
                        places += 1
                        progress.clear()
                        report_damage(shown_facts(item, mask), as_json=False)
                    else:
                        progress.advance(item)
            except OSError as error:
                is_read = False
                progress.clear()
                fail(f"{log.name}: not all was counted: {sentence_of(error)}")
            progress.clear()
            show = decoded_key(topic, known) if mask is None else masked_key(topic, mask, known)
            output.add(log.name, sums, show, is_leftover=apart is not None)
        output.end()
        if not is_read:
            sys.exit(EXIT_CANNOT_READ)
        if places:
            sys.exit(EXIT_FINDINGS)


def _checked(
    executors: Executors, check: SourceCheck, logs: Sequence[PartitionLog]
) -> Iterator[Event]:
    from kafkafs.spark.checking import checked

    return checked(executors, check, logs)


def _keys(
    logs: Sequence[tuple[PartitionLog, Apart | None]], jobs: int, executors: Executors | None
) -> Iterator[Iterator[KeyItem]]:
    """Return what `count_keys` yields for each log; it may raise OSError on the way."""
    if executors is not None:
        from kafkafs.spark.searching import counted_keys

        return counted_keys(executors, logs)
    from kafkafs.decode.key_counts import count_keys

    return (count_keys(log, jobs, apart) for log, apart in logs)
