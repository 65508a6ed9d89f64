"""`kafkafs check`: verify logs and report findings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import (
    AlreadyReported,
    jobs_option,
    open_log_source,
    source_argument,
    source_paths,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.broker_user import broker_user_option
from kafkafs.cli.options.check_scope import CheckExtent, scope_options
from kafkafs.cli.options.evidence import evidence_option
from kafkafs.cli.options.executors import SparkMaster, spark_options
from kafkafs.cli.options.partitions import partition_options, require_choice
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.check.log_dir_check import Event
    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import PartitionChoice
    from engine.log.partition_log import PartitionLog
    from engine.rights.broker_user import BrokerUser
    from kafkafs.cli.printing.check_report import CheckReport, FindingFilter

SEVERITIES = ("note", "warning", "error")


def _list_rules(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from engine.check.rules.rules import RULES

        width = max(map(len, RULES)) + 2
        for rule in RULES.values():
            say(f"{rule.id:<{width}}{rule.severity.value:<9}{rule.title}", hang=4)
        context.exit()


@click.command()
@source_argument
@partition_options
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="ID",
    shell_complete=names.rules,
    help="Show only findings of this rule. Repeatable.",
)
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    default="note",
    show_default=True,
    help="Show only findings of at least this severity.",
)
@jobs_option
@click.option(
    "--replica",
    "replicas",
    metavar="OTHER",
    multiple=True,
    help="Compare SOURCE with this replica instead: report where the two diverge, by epoch "
    "and offset. Repeatable.",
)
@broker_user_option
@evidence_option
@scope_options
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object a line: findings, partitions with their holes, a summary.",
)
@click.option(
    "--list-rules",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_rules,
    help="Print all rules and exit.",
)
@spark_options
@verbosity_options
def check(
    sources: tuple[str, ...],
    choice: PartitionChoice,
    rules: tuple[str, ...],
    severity: str,
    jobs: int,
    replicas: tuple[str, ...],
    broker_user: BrokerUser | None,
    evidence: str | None,
    asked: CheckExtent,
    as_json: bool,
    spark: SparkMaster,
) -> None:
    """Check every byte of a log and of the files beside it.

    \b
    kafkafs check /var/lib/kafka/data
    kafkafs check /var/lib/kafka/data --topic orders,payments --severity error
    kafkafs check /backup/orders-0 --json
    kafkafs check /broker1/data --replica /broker2/data
    kafkafs check broker1/orders-0 --replica broker2/orders-0
    kafkafs check /backup/data --evidence case-17.sha256
    kafkafs check /var/lib/kafka/data --resume progress --max-duration 4h

    Checks batches and their checksums, bytes that no checksum covers, records, offsets, epochs,
    producers, indexes, snapshots and checkpoints, and explains missing offsets. A broker may be
    running on SOURCE. Exit status: 0 nothing found but notes, 1 errors or warnings, or nothing
    to check, 3 something could not be read, or was left when the time was over.
    """
    from engine.verdict.metadata_log import forgets_topics
    from kafkafs.cli.options.check_run import CheckRun
    from kafkafs.cli.printing.check_report import JsonReport, TextReport

    if replicas and not (asked.is_everything and evidence is None):
        raise click.UsageError(
            "--replica cannot be combined with --evidence, --part, --sample, --max-duration or --resume"
        )
    if spark and (replicas or evidence is not None):
        raise click.UsageError(
            "--replica and --evidence read everything on this machine: leave out --spark"
        )
    passing = _filter(rules, severity)
    report: CheckReport = JsonReport(passing) if as_json else TextReport(passing)
    paths = source_paths(sources)
    with (
        open_log_source(sources, is_cluster=False) as source,
        Progress("checked") as progress,
        spark.executors("check", source, paths) as executors,
    ):
        require_choice(choice, source.partitions())
        if broker_user is not None and None in source.log_dirs:
            raise click.UsageError("--broker-user is about log dirs: name one, not a part of it")
        if replicas:
            _take(_comparison(source, replicas, choice.takes), report, progress)
            report.end()
        else:
            with CheckRun(source, paths, choice.takes, asked, evidence, executors) as run:
                run.take_finished(report)
                _take(run.events(jobs, progress, broker_user), report, progress)
                report.scope, report.not_looked_at = run.scope, run.not_looked_at
                is_whole = run.scope is None and not (choice or run.not_looked_at)
                report.forgets_topics = is_whole and forgets_topics(source)
                report.end()
                run.finish(report)
        if report.not_looked_at:
            raise AlreadyReported(EXIT_CANNOT_READ)
        if report.is_unsound:
            sys.exit(EXIT_FINDINGS)


def _filter(rules: tuple[str, ...], severity: str) -> FindingFilter:
    from engine.check.rules.rules import RULES, Severity
    from engine.log.unmatched import most_like
    from kafkafs.cli.printing.check_report import FindingFilter

    for rule in rules:
        if rule not in RULES:
            like = most_like(rule, RULES)
            raise click.BadParameter(
                f"no rule is called {rule!r}; {f'did you mean {like}? ' if like else ''}"
                "see kafkafs check --list-rules",
                param_hint="--rule",
            )
    return FindingFilter(rules, Severity(severity))


def _comparison(
    source: LogSource, replicas: tuple[str, ...], is_named: Callable[[PartitionLog], bool]
) -> Iterator[Event]:
    """Compare the partitions of a source with those of a replica, which may span several log dirs."""
    from engine.check.replicas.replica_comparison import compare_sources

    with open_log_source(replicas, is_cluster=False) as other:
        yield from compare_sources(source, other, is_named)


def _take(events: Iterator[Event], report: CheckReport, progress: Progress) -> None:
    from engine.check.log_check import PartitionSummary
    from engine.check.log_dir_check import CheckProgress
    from engine.check.rules.finding import Finding
    from engine.verdict.loss import Loss

    for event in events:
        if isinstance(event, Finding):
            progress.clear()
            report.finding(event)
        elif isinstance(event, PartitionSummary):
            progress.clear()
            report.partition(event)
        elif isinstance(event, Loss):
            report.lost_partitions.append(event)
        elif isinstance(event, CheckProgress):
            progress.say(event.file)
            progress.advance(event.size)
