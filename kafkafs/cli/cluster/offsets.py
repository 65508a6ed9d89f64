"""`kafkafs offsets`: print offsets as GetOffsetShell does, without a broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import click

from engine.log.log_directory import LogSource
from engine.log.partition_choice import Choosable, PartitionChoice
from engine.log.partition_log import PartitionLog
from engine.log.view.listed_offset import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    listed_offset,
)
from engine.log.view.log_view import LogView
from engine.log.view.proven_end import LostEnd, lost_end
from engine.topics.topic_names import KAFKA_TOPICS
from kafkafs.cli.arguments import (
    json_option,
    moment_then,
    open_log_source,
    source_argument,
)
from kafkafs.cli.options.isolation import committed_option
from kafkafs.cli.options.partitions import (
    internal_option,
    kafkas_choice,
    partition_options,
    require_choice,
    require_partitions,
)
from kafkafs.cli.options.times import moment_option, time_of, zone_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.losses import report_lost_partitions
from kafkafs.cli.printing.terminal.output import fail, say, write_line, write_output
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.cli.printing.terminal.table import print_json
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_FINDINGS
from kafkafs.time_grammar import FORMS
from kafkafs.tree.selection import proper_logs

SPECS = {
    "latest": LATEST_TIMESTAMP,
    "earliest": EARLIEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL_TIMESTAMP,
    "latest-tiered": LATEST_TIERED_TIMESTAMP,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD_TIMESTAMP,
}
"""GetOffsetShell's names of special timestamps, with their ListOffsets codes."""
_NAMES = SPECS | {str(code): code for code in SPECS.values()}


def offset_for(view: LogView, time: int, *, committed: bool) -> int | None:
    """Return the offset that ListOffsets answers for a timestamp or one of its codes; None for no such offset."""
    found = listed_offset(view, time, committed=committed)
    return None if found is None else found.offset


def lost_end_for(log: PartitionLog, view: LogView, time: int, offset: int | None) -> LostEnd | None:
    """Return the lost end of a log, if the offset in question can be in it; else None."""
    is_at_end = time in (SPECS["latest"], SPECS["max-timestamp"])
    if not is_at_end and (time < 0 or offset is not None):
        return None
    lost = lost_end(view)
    if lost is not None:  # or a broker is running: its checkpoints may be newer than the view
        lost = lost_end(log.view(max_age=0))
    return lost


def views_of(logs: Iterable[PartitionLog]) -> Iterator[tuple[PartitionLog, LogView]]:
    """Yield the logs that can be read, with their views; drop what was read of a log when the next one is asked for."""
    for log in logs:
        view = log.view_or_none()
        if view is not None:
            yield log, view
        log.forget()


@click.command()
@source_argument
@click.option(
    "--time",
    "time_text",
    default="latest",
    metavar="TIME",
    show_default=True,
    help="latest, earliest, max-timestamp, earliest-local, latest-tiered, earliest-pending-upload, their "
    f"codes -1 to -6, milliseconds since 1970, or a time ({FORMS}): the first record at or after it.",
)
@zone_option
@partition_options
@click.option(
    "--topic-partitions",
    metavar="LIST",
    help="Kafka's form, as GetOffsetShell takes it, instead of --topic and --partition: TOPIC, "
    "TOPIC:PARTITION or TOPIC:LOW-HIGH (HIGH exclusive), comma-separated; TOPIC is a regular expression.",
)
@internal_option(is_default=True)
@committed_option("Use isolation level read_committed: latest is the last stable offset.")
@json_option
@click.option(
    "--explain", is_flag=True, help="With --at, print what the end of each log is known by."
)
@moment_option
@verbosity_options
def offsets(
    sources: tuple[str, ...],
    time_text: str,
    choice: PartitionChoice,
    topic_partitions: str | None,
    internal: bool,
    committed: bool,
    as_json: bool,
    explain: bool,
) -> None:
    """Print topic:partition:offset for each partition, as GetOffsetShell does from a broker.

    \b
    kafkafs offsets /var/lib/kafka/data
    kafkafs offsets /var/lib/kafka/data --time earliest -t orders -p 0..2
    kafkafs offsets /var/lib/kafka/data --time 2024-01-01T10:30:00Z --json
    kafkafs offsets /var/lib/kafka/data --at before-delete:orders --explain

    A partition without an offset at or after the time is left out. Exit status 1: no partition is
    left, or the records files of a log end before the log end that its checkpoints or snapshots prove
    (reported on standard error).
    """
    time = time_of(time_text, "--time", _NAMES)
    kafkas = None if topic_partitions is None else "--topic-partitions"
    if topic_partitions is not None:
        choice = kafkas_choice(choice, topic_partitions)
    if explain and (moment_then() is None or committed or time != SPECS["latest"]):
        raise click.UsageError("--explain is about --at; it takes no --time and no --committed")
    shown = short = 0
    with open_log_source(sources) as source, Progress("looked up") as progress:
        copy_of = _copies(source) if as_json and source.nodes else None
        logs = require_partitions(source)
        require_choice(choice, logs, kafkas)
        chosen = [
            log
            for log in map(logs.__getitem__, proper_logs(logs))
            if (internal or log.topic_partition.topic not in KAFKA_TOPICS) and choice.takes(log)
        ]
        if explain:
            _explain(source, chosen, as_json=as_json)
            return
        for log, view in views_of(sorted(chosen, key=attrgetter("topic_partition"))):
            if time == SPECS["latest"] and view.unread_end is not None:
                progress.clear()
                fail(
                    f"{log.name}: the log end cannot be read; no record is known from offset"
                    f" {view.log_end_offset} on"
                )
                continue
            offset = offset_for(view, time, committed=committed)
            lost = lost_end_for(log, view, time, offset)
            progress.clear()
            if offset is not None:
                copy = {} if copy_of is None else copy_of(log)
                print_offset(log, offset, lost, copy, as_json=as_json)
                shown += 1
            if lost is not None:
                fail(f"{log.name}: {lost.sentence}")
                short += 1

        def takes(each: Choosable) -> bool:
            is_hidden = not internal and each.topic_partition.topic in KAFKA_TOPICS
            return choice.takes(each) and not is_hidden

        write_output(b"", flush=True)  # a full disk is told alone
        is_lost = report_lost_partitions(source, takes)
        if short:
            sys.exit(EXIT_FINDINGS)
        if not shown and not source.unread():
            sentence = f"kafkafs: no partition has an offset for --time {time_text}"
            say(printable(sentence), err=True)
            sys.exit(EXIT_FINDINGS)
        if is_lost:
            sys.exit(EXIT_FINDINGS)


def _explain(source: LogSource, chosen: Iterable[PartitionLog], *, as_json: bool) -> None:
    # Imported here: it is seldom asked for.
    from engine.cut.opening import cut_of
    from kafkafs.cli.cluster.cut_evidence import print_evidence

    cut, names = cut_of(source), {log.name for log in chosen}
    assert cut is not None
    if not print_evidence(cut, lambda log: log.name in names, as_json=as_json):
        sys.exit(EXIT_FINDINGS)


def _copies(source: LogSource) -> Callable[[PartitionLog], dict[str, Any]]:
    # Imported here: most sources are of one node.
    from engine.replay.chosen_copies import chosen_copies

    return chosen_copies(source)


def print_offset(
    log: PartitionLog, offset: int, lost: LostEnd | None, copy: Mapping[str, Any], *, as_json: bool
) -> None:
    """Print the line of a partition; as JSON with the copy that was chosen, and the proven log end if it is later."""
    topic, partition = log.topic_partition
    if as_json:
        fact = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "folder": log.name,
            **copy,
        }
        print_json(fact if lost is None else fact | {"provenLogEndOffset": lost.end.offset})
    else:
        write_line(printable(f"{topic}:{partition}:{offset}"))
