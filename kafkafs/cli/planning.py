"""`kafkafs plan`: predict what a broker would do to log dirs if it started now."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import closing as ending, suppress
from functools import partial
from typing import TYPE_CHECKING

import click

import engine
from engine.errors import KafkaStorageError
from kafkafs.amounts import counted
from kafkafs.cli.arguments import report_unread, source_argument, source_paths
from kafkafs.cli.options.broker_user import broker_user_option
from kafkafs.cli.options.partitions import partition_options, require_choice
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.cli.printing.terminal.table import print_json
from kafkafs.cli.printing.terminal.verbosity import detail
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.log.log_directory import Unread
    from engine.log.partition_choice import PartitionChoice
    from engine.plan.start_plan import StartPlan
    from engine.rights.broker_user import BrokerUser
    from engine.verdict.loss import Loss


@click.command(
    epilog="Exit status: 0 no data is lost or changed and no damage was found, 1 some is, or a log does not"
    " load, 2 usage, 3 cannot read."
)
@source_argument
@partition_options
@click.option(
    "--clean/--unclean",
    default=None,
    help="Plan as after a clean stop, or as after a crash. [default: as .kafka_cleanshutdown says]",
)
@click.option(
    "--broker-version",
    metavar="VERSION",
    default="4.4.0",
    show_default=True,
    help="Release of the broker, 2.8 to 4.4.",
)
@click.option(
    "--records/--no-records",
    "verify",
    default=True,
    show_default=True,
    help="Read and check the records that the broker does not read.",
)
@broker_user_option
@click.option(
    "--changed-files", "files", is_flag=True, help="Print all logs and every file that changes."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object for each log and log dir."
)
@verbosity_options
def plan(
    sources: tuple[str, ...],
    choice: PartitionChoice,
    clean: bool | None,
    broker_version: str,
    verify: bool,
    broker_user: BrokerUser | None,
    files: bool,
    as_json: bool,
) -> None:
    """Predict what a broker would do to SOURCE if it started now. Nothing is changed.

    SOURCE is all log dirs of one broker, or one partition's folder. Each log is loaded as that broker loads it;
    truncations, deletions, renames and rewrites stay in memory. The output lists log starts and ends before and
    after, lost records, changed files, and reasons why a broker does not start. A broker does not read segments
    that it does not recover: plan reads them, too, and names damage in them. With --topic or --partition only
    those logs are planned, and the closing line is about those alone.

    \b
    kafkafs plan /var/lib/kafka/data
    kafkafs plan --unclean /var/lib/kafka/data
    kafkafs plan --unclean --changed-files /var/lib/kafka/data/orders-0
    kafkafs plan --broker-version 3.9.1 --json /data1 /data2
    """
    from engine.files.read_failures import IMAGE_FIRST, is_of_device
    from engine.files.unreadable import UNREADABLE_FILES
    from engine.log.log_directory import Unread
    from engine.log.partition_choice import NamedPartition
    from engine.plan.loading.broker_failure import Outcome
    from engine.plan.loading.broker_versions import broker_version as version_of
    from engine.plan.start_plan import StartPlan

    logging.getLogger(engine.__name__).setLevel(
        logging.CRITICAL
    )  # the plan reports all warnings of loading
    try:
        version = version_of(broker_version)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--broker-version") from error
    with StartPlan(
        source_paths(sources),
        version,
        clean=clean,
        verifies=verify,
        choice=choice,
        broker_user=broker_user,
    ) as start:
        folders = {each.name: each for log_dir in start.log_dirs for each in log_dir.folders}
        for each in start.log_dirs:
            detail(f"reading {each.path}: {counted(len(each.folders), 'partition')}")
        named = {name: NamedPartition(name, each.partition) for name, each in folders.items()}
        require_choice(choice, named)
        unread = [
            Unread.link(os.path.join(each.path, name))
            for each in start.log_dirs
            for name in each.links
        ]
        look = partial(_lost_before, start, choice, unread, may_read=verify)
        is_harmless = _print_json(start, look) if as_json else _print_text(start, look, files=files)
        is_known = all(each.outcome is not Outcome.UNKNOWN for each in start.failures)
    if UNREADABLE_FILES.are_met and not any(is_of_device(each.errno) for each in unread):
        say(f"kafkafs: {IMAGE_FIRST}", err=True)
    if report_unread(unread) or not is_known or UNREADABLE_FILES.are_met:
        sys.exit(EXIT_CANNOT_READ)
    if not is_harmless:
        sys.exit(EXIT_FINDINGS)


def _lost_before(
    start: StartPlan, choice: PartitionChoice, unread: list[Unread], *, may_read: bool
) -> list[Loss]:
    """Return what the chosen logs have lost already, as the check does, and lost folders.

    Logs that the plan found hurt, or did not reach, are read once more. Unless it `may_read`, as far as no batch has to be read for it.
    What a failing device does not give is added to `unread`.
    """
    from engine.files.read_failures import is_of_device
    from engine.log.log_directory import open_source
    from engine.verdict.all_losses import all_losses, losses_at_ends
    from engine.verdict.log_losses import losses_of
    from engine.verdict.time_span import with_times
    from kafkafs.tree.selection import proper_logs

    found: list[Loss] = []
    paths = [each.path for each in start.log_dirs if not each.is_abandoned]
    with suppress(OSError, KafkaStorageError), ending(open_source(paths)) as source:
        logs = source.partitions()
        for log in map(logs.__getitem__, proper_logs(logs)):
            view = log.view_or_none() if choice.takes(log) else None
            if view is None:
                continue
            if may_read:
                is_sound = log.root.display(log.folder) in start.sound
                lost = losses_at_ends(view) if is_sound else None
                found += all_losses(view) if lost is None else lost
            else:
                found += [with_times(view, loss) for loss in losses_of(view).cheap()]
            log.forget()
        unread += [each for each in source.unread() if is_of_device(each.errno)]
    return found + [
        each.missing.loss()
        for each in start.lost_folders
        if each.stray is None and not each.missing.is_harmless
    ]


def _print_json(start: StartPlan, look: Callable[[], Sequence[Loss]]) -> bool:
    from engine.verdict.loss import LossKind
    from kafkafs.cli.printing import plan_report as report

    summary = report.PlanSummary()
    with Progress("planned") as progress:
        start.on_read = progress.advance
        for log_dir, log in start.logs():
            summary.add(log)
            print_json(report.log_facts(log_dir, log))
    lost_before = look()
    summary.finish(start, lost_before)
    for lost in start.lost_folders:
        print_json(report.folder_facts(lost))
    for loss in lost_before:
        if loss.kind is not LossKind.PARTITION:  # these are with their folders
            print_json({"kind": "loss", "loss": loss.to_json()})
    for log_dir in start.log_dirs:
        print_json(report.dir_facts(log_dir))
    print_json(report.broker_facts(start, summary))
    return summary.is_harmless and start.starts and not lost_before


def _print_text(start: StartPlan, look: Callable[[], Sequence[Loss]], *, files: bool) -> bool:
    from kafkafs.cli.printing import plan_report as report
    from kafkafs.cli.printing.losses import print_losses

    for log_dir in start.log_dirs:
        for line in report.dir_lines(log_dir):
            say(line)
    summary = report.PlanSummary()
    with Progress("planned") as progress:
        start.on_read = progress.advance
        for _, log in start.logs():
            summary.add(log)
            progress.advance(log.bytes_read)
            if files or log.notes or not log.is_harmless:
                progress.clear()
                for line in report.log_lines(log, files=files):
                    say(line)
    lost_before = look()
    summary.finish(start, lost_before)
    for line in report.start_lines(start):
        say(line)
    if lost_before:
        print_losses(lost_before)
    for line in report.closing_lines(start, summary):
        say(line)
    return summary.is_harmless and start.starts and not lost_before
