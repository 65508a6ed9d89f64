"""Print losses as a table, and report on standard error those that no reader of logs can meet: whole partitions, emptied logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

from kafkafs.cli.printing.terminal.output import fail, say
from kafkafs.cli.printing.terminal.table import print_table

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import Choosable, PartitionChoice
    from engine.verdict.loss import Loss

    Takes: TypeAlias = Callable[[Choosable], bool]

_MOST_NAMES = 4
_MOST_ROWS = 20
CHOICE = "kafkafs.choice"
"""Key of the command's choice of partitions in click's context."""


def chosen() -> PartitionChoice:
    """Return the running command's choice of partitions."""
    from engine.log.partition_choice import ALL_PARTITIONS

    context = click.get_current_context(silent=True)
    choice = None if context is None else context.meta.get(CHOICE)
    return choice or ALL_PARTITIONS


def print_losses(losses: Sequence[Loss]) -> None:
    """Print a table of losses, and how many more there are than it shows."""
    from kafkafs.loss_words import loss_table

    print_table(*loss_table(losses[:_MOST_ROWS]))
    if len(losses) > _MOST_ROWS:
        say(f"{len(losses) - _MOST_ROWS} more losses; --json has them all")


def report_lost(source: LogSource, takes: Takes | None = None) -> bool:
    """Report what a source lost and no reader of its logs can meet; return whether there was anything.

    Args:
        source: the logs.
        takes: returns whether a log is one of those in question; by default those that the command's options choose.
    """
    is_lost = report_lost_logs(source, takes)
    return report_lost_partitions(source, takes) or is_lost


def report_lost_logs(source: LogSource, takes: Takes | None = None) -> bool:
    """Report the logs that were read, and have lost all their records; return whether there were any.

    Args:
        source: the logs.
        takes: as in `report_lost`.
    """
    from engine.verdict.log_losses import losses_of
    from kafkafs.loss_words import sentence_of_loss

    takes, is_found = takes or chosen().takes, False
    for log in source.partitions().values():
        view = log.view_or_none() if log.is_loaded and takes(log) else None
        if view is None or view.log_start_offset < view.log_end_offset:
            continue
        lost = losses_of(view).end
        if lost is not None:
            is_found = True
            fail(sentence_of_loss(lost))
    return is_found


def report_lost_partitions(source: LogSource, takes: Takes | None = None) -> bool:
    """Report the partitions whose folders are certainly lost; return whether there were any.

    Args:
        source: the logs.
        takes: as in `report_lost`.
    """
    from engine.verdict.source_losses import lost_partitions
    from kafkafs.loss_words import sentence_of_loss

    takes = takes or chosen().takes
    lost = [each for each in lost_partitions(source) if takes(each)]
    if len(lost) == 1:
        fail(sentence_of_loss(lost[0].loss()))
    elif lost:
        names = ", ".join(each.name for each in lost[:_MOST_NAMES])
        more = f" and {len(lost) - _MOST_NAMES} more" if len(lost) > _MOST_NAMES else ""
        fail(
            f"the folders of {len(lost)} partitions are gone: {names}{more}; the log dir's checkpoints"
            " name them and the metadata assigns them to this node: see kafkafs check"
        )
    return bool(lost)
