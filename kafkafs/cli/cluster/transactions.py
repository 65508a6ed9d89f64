"""`kafkafs transactions`: list and find transactions as kafka-transactions does, without a broker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from engine.log.partition_choice import Choosable, NamedPartition, PartitionChoice
from kafkafs.cli.arguments import (
    LostRead,
    json_option,
    one_source_argument,
    open_log_source,
)
from kafkafs.cli.options.partitions import partition_options, require_choice, require_partitions
from kafkafs.cli.options.times import at_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import (
    duration,
    moment,
    print_json,
    print_table,
    replaying,
    warn,
)
from kafkafs.exit_codes import EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.replay.source_state import SourceState
    from engine.replay.transactions import OpenTransaction, Transaction

_HINT = "--open and --hanging read the logs themselves"
_IDS = (
    "TRANSACTIONAL-ID", "PRODUCER-ID", "PRODUCER-EPOCH", "STATE", "TIMEOUT", "START", "LAST-UPDATE",
    "PARTITIONS",
)  # fmt: skip
_OPEN = (
    "TOPIC", "PARTITION", "PRODUCER-ID", "PRODUCER-EPOCH", "FIRST-OFFSET", "SINCE", "AGE",
    "TRANSACTIONAL-ID", "STATE", "HANGS",
)  # fmt: skip


@click.command()
@one_source_argument
@click.option(
    "--open",
    "form",
    flag_value="open",
    help="List transactions without an end marker, by partition.",
)
@click.option(
    "--hanging",
    "form",
    flag_value="hanging",
    help="List only the open transactions that no coordinator will end.",
)
@partition_options
@at_option
@json_option
@verbosity_options
def transactions(source: str, form: str | None, choice: PartitionChoice, as_json: bool) -> None:
    """List transactional ids from __transaction_state, or open transactions from the logs.

    \b
    kafkafs transactions /var/lib/kafka/data
    kafkafs transactions /var/lib/kafka/data --open
    kafkafs transactions /var/lib/kafka/data --hanging --topic orders --json

    An open transaction hangs when its coordinator no longer knows it: read_committed consumers never get
    past it. If SOURCE lacks the partitions of __transaction_state, this is unknown, and --hanging lists such
    transactions, too. AGE ends now, or at --at. Exit status 1: a transaction hangs, or damage was found.
    """
    from engine.errors import SourceError
    from engine.log.unmatched import CONTROLLER, is_of_controller
    from engine.replay.source_state import SourceState

    with open_log_source((source,), reads=LostRead()) as logs:
        known: dict[str, Choosable] = dict(require_partitions(logs))
        with replaying() as advance:
            state = SourceState(logs, advance)
            if state.transactions.exists:
                known |= _in_transactions(state)
        require_choice(choice, known)
        if form is None and not state.transactions.exists:
            hint = CONTROLLER if is_of_controller(logs.partitions()) else _HINT
            raise SourceError(f"{source} holds no partition of __transaction_state", hint=hint)
        if form is None:
            has_findings = _show_ids(state, choice, as_json=as_json)
        else:
            hanging = form == "hanging"
            has_findings = _show_open(state, choice, hanging=hanging, as_json=as_json)
        if has_findings:
            click.get_current_context().exit(EXIT_FINDINGS)


def _in_transactions(state: SourceState) -> dict[str, NamedPartition]:
    """Return the partitions that transactional ids name, also those without a log in the source."""
    image = state.transactions.image()
    found = (each for name in image.names if (each := image.transaction(name)))
    return {str(place): NamedPartition.of(place) for each in found for place in each.partitions}


def _show_ids(state: SourceState, choice: PartitionChoice, *, as_json: bool) -> bool:
    image = state.transactions.image()
    found = [each for name in image.names if (each := image.transaction(name))]
    if choice:
        found = [
            each
            for each in found
            if any(choice.takes(NamedPartition.of(place)) for place in each.partitions)
        ]
    if as_json:
        for each in found:
            print_json(each.facts())
    else:
        print_table(_IDS, map(_id_row, found))
    notes = [f"{each.transactional_id}: {each.note}" for each in found if each.note]
    return warn(image.unreadable, notes)


def _id_row(found: Transaction) -> Sequence[object]:
    return (
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        None if found.timeout_ms is None else duration(found.timeout_ms),
        moment(found.start_timestamp),
        moment(found.update_timestamp),
        ",".join(map(str, found.partitions)),
    )


def _show_open(
    state: SourceState,
    choice: PartitionChoice,
    *,
    hanging: bool,
    as_json: bool,
) -> bool:
    found = [
        each
        for each in state.open_transactions()
        if choice.takes(NamedPartition.of(each.partition))
    ]
    if hanging:
        found = [each for each in found if each.hangs is not False]
    if as_json:
        for each in found:
            print_json(each.facts())
    else:
        print_table(
            _OPEN,
            (_open_row(each, _now() if state.time is None else state.time) for each in found),
            keys=2,
        )
    if not found:
        say(f"kafkafs: no transaction {'hangs' if hanging else 'is open'}", err=True)
    return any(each.hangs for each in found)


def _open_row(found: OpenTransaction, now: int) -> Sequence[object]:
    since = found.first_timestamp
    hangs = found.reason or "no"
    if found.hangs is None:
        hangs = f"not known: {hangs}"
    return (
        found.partition.topic,
        found.partition.partition,
        found.producer_id,
        found.producer_epoch,
        found.first_offset,
        moment(since),
        None if since is None else duration(max(now - since, 0)),
        found.transactional_id,
        found.coordinator_state,
        hangs,
    )


def _now() -> int:
    from engine.clock import SYSTEM_CLOCK

    return SYSTEM_CLOCK.now_ms()
