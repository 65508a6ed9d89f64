"""Report on standard error what a source lost and no reader of its logs can meet: whole partitions, emptied logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafkafs.cli.printing.output import fail
from kafkafs.cli.printing.verbosity import note

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import PartitionChoice

_MOST_NAMES = 4
CHOICE = "kafkafs.choice"
"""Key of the command's choice of partitions in click's context."""


def chosen() -> PartitionChoice:
    """Return the running command's choice of partitions."""
    from engine.log.partition_choice import ALL_PARTITIONS

    context = click.get_current_context(silent=True)
    choice = None if context is None else context.meta.get(CHOICE)
    return choice or ALL_PARTITIONS


def report_lost_logs(source: LogSource) -> bool:
    """Report the chosen logs that were read, and have lost all their records; return whether there were any."""
    from engine.verdict.log_losses import losses_of
    from kafkafs.loss_words import sentence_of_loss

    choice, is_found = chosen(), False
    for log in source.partitions().values():
        view = log.view_or_none() if log.is_loaded and choice.takes(log) else None
        if view is None or view.log_start_offset < view.log_end_offset:
            continue
        lost = losses_of(view).end
        if lost is not None:
            is_found = True
            fail(sentence_of_loss(lost))
    return is_found


def report_lost_partitions(source: LogSource) -> bool:
    """Note the chosen partitions whose folders are certainly lost; return whether there were any."""
    from engine.verdict.source_losses import lost_partitions
    from kafkafs.loss_words import sentence_of_loss

    choice = chosen()
    lost = [each for each in lost_partitions(source) if choice.takes(each)]
    if len(lost) == 1:
        note(sentence_of_loss(lost[0].loss()))
    elif lost:
        names = ", ".join(each.name for each in lost[:_MOST_NAMES])
        more = f" and {len(lost) - _MOST_NAMES} more" if len(lost) > _MOST_NAMES else ""
        note(
            f"the folders of {len(lost)} partitions are gone: {names}{more}; the log dir's checkpoints"
            " name them and the metadata assigns them to this node: see kafkafs check"
        )
    return bool(lost)
