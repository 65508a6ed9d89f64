"""`kafkafs du`: what takes the disk, what a broker deletes next, and what may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import json_option, open_log_source, report_unread, source_argument
from kafkafs.cli.options.partitions import partition_options, require_choice
from kafkafs.cli.options.times import time_of, zone_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS
from kafkafs.time_grammar import FORMS

if TYPE_CHECKING:
    from engine.log.partition_choice import PartitionChoice


@click.command()
@source_argument
@partition_options
@click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the broker's server.properties, such as log.retention.hours=24: it holds for"
    " topics that do not set their own. Can be given several times. [default: Kafka's defaults]",
)
@click.option(
    "--now",
    metavar="TIME",
    callback=lambda _context, _option, text: None if text is None else time_of(text, "--now"),
    help=f"Predict as if it were this time ({FORMS}). [default: now]",
)
@zone_option
@json_option
@verbosity_options
def du(
    sources: tuple[str, ...],
    choice: PartitionChoice,
    settings: tuple[str, ...],
    now: int | None,
    as_json: bool,
) -> None:
    """Print what takes the disk, by topic, partition and kind, and what a broker deletes next.

    \b
    kafkafs du /var/lib/kafka/data
    kafkafs du /var/lib/kafka/data --topic orders --json
    kafkafs du /kafka/data --config log.retention.hours=24 --now 2024-01-01

    ALLOCATED is the sum of du -B1, APPARENT that of du --apparent-size -B1: with the bytes of
    folders, and hard links once. A-DAY: growth by the timestamps of records. SET-ASIDE: .deleted
    and .cleaned files, and folders that are no log.

    Retention and compaction are predicted by a broker's rules, with the topics' configurations
    of the metadata log, for a broker that leads the partitions, whose followers have all records.
    They take effect at its next check: log.retention.check.interval.ms, 5 minutes. Bytes are free
    file.delete.delay.ms later, a minute.

    When the disk is full is said only of one that a broker has open. Exit status 1: a log has no
    prediction, 3: not all could be read.
    """
    from engine.clock import SYSTEM_CLOCK
    from engine.usage.source_usage import source_usage
    from kafkafs.cli.printing.usage_report import print_usage, print_usage_json

    given = dict(map(_setting, settings))
    with open_log_source(sources, is_cluster=False) as source, Progress("counted") as progress:
        logs = source.partitions()
        require_choice(choice, logs)
        try:
            found = source_usage(
                source,
                SYSTEM_CLOCK.now_ms() if now is None else now,
                given,
                advance=progress.advance,
                takes=choice.takes if choice else None,
            )
        except ValueError as error:
            raise click.UsageError(f"--config: {error}") from error
        progress.clear()
        (print_usage_json if as_json else print_usage)(found)
        if report_unread(found.usage.unread):
            raise click.exceptions.Exit(EXIT_CANNOT_READ)
        if found.notes:
            raise click.exceptions.Exit(EXIT_FINDINGS)


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise click.UsageError(f"--config {text}: write NAME=VALUE, such as log.retention.hours=24")
    return name.strip(), value.strip()
