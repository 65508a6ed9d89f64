"""`kafkafs groups`: describe groups as kafka-consumer-groups does, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from engine.json_facts import facts_of
from engine.log.partition_choice import (
    Choosable,
    NamedPartition,
    NamePattern,
    PartitionChoice,
)
from engine.log.unmatched import CONTROLLER, is_of_controller, known_names
from engine.topics.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from engine.units import TopicPartition
from kafkafs.cli.arguments import (
    LostRead,
    json_option,
    one_source_argument,
    open_log_source,
)
from kafkafs.cli.completing import names as completing
from kafkafs.cli.options.partitions import (
    NothingMatchedError,
    partition_options,
    patterns_of,
)
from kafkafs.cli.options.times import at_option, time_of
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import print_json, print_table, replaying, warn
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.replay.groups.group import Group, Member
    from engine.replay.groups.known_groups import KnownGroups
    from engine.replay.groups.share_rows import ShareRow
    from engine.replay.source_state import GroupRow, SourceState

_HINT = "name a log dir that holds partitions of it, or of __share_group_state"
_OFFSETS: Sequence[str] = (
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST",
    "CLIENT-ID",
)  # fmt: skip
_KEYS: Sequence[str] = (
    "topic", "partition", "currentOffset", "logEndOffset", "lag", "memberId", "clientHost",
    "clientId",
)  # fmt: skip
_SHARE_OFFSETS: Sequence[str] = (
    "GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LOG-END-OFFSET", "LAG",
    "STATE-EPOCH", "COMPLETE-COUNT", "MOST-DELIVERIES",
)  # fmt: skip
_SHARE_KEYS: Sequence[str] = (
    "topic", "partition", "leaderEpoch", "startOffset", "logEndOffset", "lag", "stateEpoch",
    "deliveryCompleteCount", "mostDeliveries",
)  # fmt: skip
_MEMBERS = (
    "GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "EPOCH",
    "ASSIGNMENT",
)  # fmt: skip
_STATES = (
    "GROUP", "TYPE", "STATE", "PROTOCOL", "EPOCH", "#MEMBERS", "#OFFSETS", "COORDINATOR",
    "APPLICATION",
)  # fmt: skip


@click.command()
@one_source_argument
@click.argument("names", metavar="[GROUP]...", nargs=-1, shell_complete=completing.groups)
@click.option("--list", "form", flag_value="list", help="Print only the names of groups.")
@click.option(
    "--offsets",
    "form",
    flag_value="offsets",
    default="offsets",
    help="Print committed offsets and lag (the default).",
)
@click.option("--members", "form", flag_value="members", help="Print the members of groups.")
@click.option("--state", "form", flag_value="state", help="Print one line for each group.")
@click.option(
    "--times",
    "form",
    flag_value="times",
    help="Print the lag as time, and since when each group stands still.",
)
@click.option(
    "--history",
    "form",
    flag_value="history",
    help="Print every commit that is on disk, with the lag at its time.",
)
@click.option(
    "--export",
    "form",
    flag_value="export",
    help="Print offsets for kafka-consumer-groups --reset-offsets --from-file.",
)
@click.option(
    "--at-time",
    metavar="TIME",
    callback=lambda _context, _option, text: None if text is None else time_of(text, "--at-time"),
    help="With --export, print the offsets of the first records at or after this time.",
)
@partition_options
@at_option
@json_option
@verbosity_options
def groups(
    source: str,
    names: tuple[str, ...],
    form: str,
    at_time: int | None,
    choice: PartitionChoice,
    as_json: bool,
) -> None:
    """Describe consumer, share and streams groups from __consumer_offsets and __share_group_state.

    \b
    kafkafs groups /var/lib/kafka/data
    kafkafs groups /var/lib/kafka/data billing --members
    kafkafs groups /var/lib/kafka/data --state --at 2024-01-01T10:30:00Z
    kafkafs groups /disk1/kafka,/disk2/kafka 'bill*' --topic orders --json
    kafkafs groups /var/lib/kafka/data billing --times
    kafkafs groups /kafka/data billing --export --at-time 2024-01-01 > offsets

    GROUP is a name, a shell pattern or /REGEX/. With --topic or --partition only groups that have read these
    partitions, or have members for them, are described, and only these rows.
    LOG-END-OFFSET comes from the partition's log in SOURCE, and is - if SOURCE does not hold the log. If a
    log has lost its last records, a warning says so, and the end is the one that its checkpoints or
    snapshots prove. A partition that is assigned to a member is printed with the member. Share groups have
    start offsets; --json adds the records in flight, with their delivery counts and states.

    --times: NEXT is the time of the next record that the group has not read. BEHIND is its distance to
    the newest record, AGE to now or --at. STILL-SINCE: the first commit of this offset that is on disk,
    without another one after it.

    --history: LAG counts the records with timestamps up to the commit.

    --export: lines of topic,partition,offset, with the group first if there are several. An offset outside
    of the log in SOURCE becomes its start or end, with a warning. Share groups are left out.

    Exit status 1: damage was found, an exported offset was outside of its log, a log has lost its last records, or a named GROUP does not exist.
    """
    from engine.errors import SourceError
    from engine.replay.source_state import SourceState
    from kafkafs.cli.cluster.group_times import print_export, print_history, print_times

    if at_time is not None and form != "export":
        raise click.UsageError("--at-time is about --export")
    with open_log_source((source,), reads=LostRead(_has_groups)) as logs:
        with replaying() as advance:
            state = SourceState(logs, advance)
            if not state.has_groups:
                hint = CONTROLLER if is_of_controller(logs.partitions()) else _HINT
                raise SourceError(f"{source} holds no partition of __consumer_offsets", hint=hint)
            known = state.known_groups()
        patterns = patterns_of(names, "GROUP")
        is_missing = _report_missing(known, patterns)
        wanted = (
            name
            for name in known.names
            if not names or any(each.matches(name) for each in patterns)
        )
        chosen = [group for name in wanted if (group := known.group(name))]
        if choice:
            chosen = [
                group
                for group in chosen
                if any(choice.takes(_place(row)) for row in state.lag_rows(group, known))
            ]
            if not chosen:
                raise NothingMatchedError("no group has a row for --topic and --partition")
        forms: dict[str, Callable[..., list[str] | None]] = {
            "list": _list,
            "offsets": partial(_offsets, choice),
            "members": _members,
            "state": _state,
            "times": partial(print_times, choice),
            "history": partial(print_history, choice),
            "export": partial(print_export, choice, at_time),
        }
        said = forms[form](state, chosen, known, as_json=as_json) or []
        notes = said + [f"{group.group_id}: {note}" for group in chosen for note in group.notes]
        for group in chosen:
            if group.kind == "share":
                found = state.share_rows(group, known).notes()
                notes += [f"{group.group_id}, {note}" for note in found]
        notes += state.ends.notes()
        notes += [f"{name} has records in several partitions" for name in known.doubled]
        if warn(known.unreadable, notes) or is_missing:
            click.get_current_context().exit(EXIT_FINDINGS)


def _has_groups(log: Choosable) -> bool:
    return log.topic_partition.topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE)


def _report_missing(image: KnownGroups, patterns: Iterable[NamePattern]) -> bool:
    missing = [each.text for each in patterns if not any(map(each.matches, image.names))]
    for name in missing:
        there = known_names(list(image.names), "group", name)
        say(printable(f"kafkafs: there is no group {name!r}; {there}"), err=True)
    return bool(missing)


def _place(row: GroupRow | ShareRow) -> NamedPartition:
    facts = row.facts()
    return NamedPartition.of(TopicPartition(facts["topic"], facts["partition"]))


def _list(_: SourceState, found: Sequence[Group], __: KnownGroups, *, as_json: bool) -> None:
    for group in found:
        if as_json:
            print_json(facts_of(group, "group=group_id type=kind state"))
        else:
            click.echo(printable(group.group_id))


def _offsets(
    choice: PartitionChoice,
    state: SourceState,
    found: Sequence[Group],
    known: KnownGroups,
    *,
    as_json: bool,
) -> None:
    for group in found:
        header, keys = (_SHARE_OFFSETS, _SHARE_KEYS) if group.kind == "share" else (_OFFSETS, _KEYS)
        rows = state.lag_rows(group, known)
        if choice:
            rows = [row for row in rows if choice.takes(_place(row))]
        if as_json:
            for row in rows:
                print_json({"group": group.group_id, **row.facts()})
        elif shown := [_cells(group, row.facts(), keys) for row in rows]:
            print_table(header, shown, keys=3)
            click.echo()


def _cells(group: Group, facts: dict[str, Any], keys: Sequence[str]) -> list[object]:
    return [group.group_id, *(facts[key] for key in keys)]


def _members(state: SourceState, found: Sequence[Group], _: KnownGroups, *, as_json: bool) -> None:
    for group in found:
        if as_json:
            for member in group.members:
                print_json({"group": group.group_id, **member.facts()})
        elif group.members:
            print_table(
                _MEMBERS, (_member_row(state, group, each) for each in group.members), keys=2
            )
            click.echo()


def _member_row(state: SourceState, group: Group, member: Member) -> list[Any]:
    parts = []
    for each in member.assignment:
        topic = each.topic or state.topic_name(each.topic_id or "") or each.topic_id
        parts.append(f"{topic}({','.join(map(str, sorted(each.partitions)))})")
    count = sum(len(each.partitions) for each in member.assignment)
    return [
        group.group_id,
        member.member_id,
        member.instance_id,
        member.client_host,
        member.client_id,
        count,
        member.epoch,
        ",".join(sorted(parts)),
    ]


def _state(
    state: SourceState, found: Sequence[Group], known: KnownGroups, *, as_json: bool
) -> None:
    rows = []
    for group in found:
        shared = len(state.share_rows(group, known).places) if group.kind == "share" else 0
        if as_json:
            facts = {**group.facts(), "sharedPartitions": shared, "group": group.group_id}
            print_json(facts)
        protocol = group.details.get("protocol") or group.protocol_type
        offsets = len(group.offsets) + shared
        application = group.application
        rows.append(
            [
                group.group_id,
                group.kind,
                group.state,
                protocol,
                group.epoch,
                len(group.members),
                offsets,
                None if group.coordinator < 0 else group.coordinator,
                None if application is None else application.name,
            ]
        )
    if not as_json:
        print_table(_STATES, rows)
