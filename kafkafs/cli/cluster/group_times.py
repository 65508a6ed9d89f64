"""Forms of `kafkafs groups` with times: lag as time, commits over time, and offsets for Kafka's own tool."""

from __future__ import annotations

import csv
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import click

from engine.clock import SYSTEM_CLOCK
from engine.json_facts import facts_of
from engine.log.partition_choice import NamedPartition, PartitionChoice
from engine.replay.groups.commits import StandingStill, StoredCommit, commits
from engine.replay.groups.group import Group
from engine.replay.groups.known_groups import SHARE, KnownGroups
from engine.replay.groups.lag_times import LagTime, lag_time
from engine.replay.log_ends import lag
from engine.replay.source_state import GroupRow, SourceState
from engine.topics.topic_names import CONSUMER_OFFSETS
from engine.units import Offset, TopicPartition
from kafkafs.amounts import counted
from kafkafs.cli.printing.terminal.table import duration, moment, print_json, print_table

MOST_ROWS = 5000
"""Commits that a table has; JSON has all."""
_TIMES = (
    "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LAG", "NEXT", "BEHIND", "AGE", "LAST-COMMIT",
    "STILL-SINCE",
)  # fmt: skip
_HISTORY = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "OFFSET", "LOG-END-OFFSET", "LAG")


def print_times(
    choice: PartitionChoice,
    state: SourceState,
    found: Sequence[Group],
    known: KnownGroups,
    *,
    as_json: bool,
) -> None:
    """Print the lag of each partition of groups as time; share groups have no such offset and are left out."""
    now = SYSTEM_CLOCK.now_ms() if state.time is None else state.time
    still = StandingStill(_commits(state, found))
    rows = []
    for group, row in _rows(choice, state, found):
        committed = row.committed
        view = state.ends.view_of(row.topic, row.partition)
        time = None if committed is None or view is None else lag_time(view, committed.offset)
        facts = _time_facts(group, row, time, now)
        facts["stillSince"] = still.since(group.group_id, row.topic, row.partition)
        if as_json:
            print_json(facts)
        rows.append(_time_cells(facts))
    if rows and not as_json:
        print_table(_TIMES, rows, keys=3)


def _time_facts(group: Group, row: GroupRow, time: LagTime | None, now: int) -> dict[str, Any]:
    committed = row.committed
    return {
        "group": group.group_id,
        "topic": row.topic,
        "partition": row.partition,
        "currentOffset": None if committed is None else committed.offset,
        "logEndOffset": row.log_end,
        "lag": row.lag,
        "nextOffset": None if time is None else time.next_offset,
        "nextTimestamp": None if time is None else time.next_timestamp,
        "newestTimestamp": None if time is None else time.newest_timestamp,
        "behindMs": None if time is None else time.behind,
        "ageMs": None if time is None else time.age(now),
        "isBelowLogStart": None if time is None else time.is_below_log_start,
        "commitTimestamp": None if committed is None else committed.commit_timestamp,
    }


def _time_cells(facts: dict[str, Any]) -> list[object]:
    behind, age = facts["behindMs"], facts["ageMs"]
    return [
        facts["group"],
        facts["topic"],
        facts["partition"],
        facts["currentOffset"],
        facts["lag"],
        moment(facts["nextTimestamp"]),
        None if behind is None else duration(behind),
        None if age is None else duration(age),
        moment(facts["commitTimestamp"]),
        moment(facts["stillSince"]),
    ]


def print_history(
    choice: PartitionChoice,
    state: SourceState,
    found: Sequence[Group],
    known: KnownGroups,
    *,
    as_json: bool,
) -> None:
    """Print the commits of groups that are on disk, in their order, with the lag at the time of each."""
    rows: deque[list[object]] = deque(maxlen=MOST_ROWS)
    passed = 0
    for commit in _commits(state, found):
        if choice and not choice.takes(_place(commit.topic, commit.partition)):
            continue
        end = state.ends.end_of(commit.topic, commit.partition, commit.timestamp)
        facts = {
            **facts_of(commit, "group topic partition commitTimestamp=timestamp offset"),
            "logEndOffset": end,
            "lag": lag(commit.offset, end),
            "recordOffset": commit.record_offset,
        }
        if as_json:
            print_json(facts)
            continue
        shown = "deleted" if commit.offset is None else commit.offset
        place = commit.group, commit.topic, commit.partition
        passed += len(rows) == MOST_ROWS
        rows.append([*place, moment(commit.timestamp), shown, end, facts["lag"]])
    if rows:
        print_table(_HISTORY, rows, keys=3)
    if passed:
        click.echo(f"{counted(passed, 'earlier commit')}: --json has all")


def print_export(
    choice: PartitionChoice,
    at_time: int | None,
    state: SourceState,
    found: Sequence[Group],
    known: KnownGroups,
    *,
    as_json: bool,
) -> list[str]:
    """Print offsets as kafka-consumer-groups reads them; return a note on each that is not the group's own."""
    notes: list[str] = []
    lines = csv.writer(sys.stdout, lineterminator="\n")
    consumers = [group for group in found if group.kind != SHARE]
    for group, row in _rows(choice, state, consumers):
        if row.committed is None:
            continue
        place = f"{row.topic}-{row.partition}"
        own, offset = row.committed.offset, row.committed.offset
        bounds = _bounds(state, row)
        if bounds is None and at_time is not None:
            notes.append(f"{group.group_id}, {place} is left out: its log is not here")
            continue
        if bounds is None:
            notes.append(
                f"{group.group_id}, {place}: its log is not here, so {own} may be outside of it"
            )
        else:
            if at_time is not None:
                offset = own = _at_time(state, row, at_time, bounds)
            offset = min(max(offset, bounds[0]), bounds[1])
            if offset != own:
                notes.append(
                    f"{group.group_id}, {place}: offset {own} is outside of the log, {bounds[0]} to"
                    f" {bounds[1]}: {offset} is written"
                )
        if as_json:
            print_json(
                {
                    "group": group.group_id,
                    "topic": row.topic,
                    "partition": row.partition,
                    "offset": offset,
                    "currentOffset": row.committed.offset,
                    "isInLog": bounds is not None,
                }
            )
        else:
            first = [group.group_id] if len(consumers) > 1 else []
            lines.writerow([*first, row.topic, row.partition, offset])
    return notes


def _bounds(state: SourceState, row: GroupRow) -> tuple[Offset, Offset] | None:
    """Return log start and end of a row's partition; None if the source does not hold it."""
    view = state.ends.view_of(row.topic, row.partition)
    if view is None or row.log_end is None:
        return None
    return view.log_start_offset, max(row.log_end, view.log_start_offset)


def _at_time(state: SourceState, row: GroupRow, time: int, bounds: tuple[Offset, Offset]) -> Offset:
    """Return the offset of the first record at or after a time; the log end without one, as Kafka's tool does."""
    view = state.ends.view_of(row.topic, row.partition)
    at = None if view is None else view.offset_for_time(time)
    return bounds[1] if at is None else at.offset


def _rows(
    choice: PartitionChoice, state: SourceState, found: Sequence[Group]
) -> Iterator[tuple[Group, GroupRow]]:
    for group in found:
        if group.kind == SHARE:
            continue
        for row in state.rows(group):
            if not choice or choice.takes(_place(row.topic, row.partition)):
                yield group, row


def _commits(state: SourceState, found: Sequence[Group]) -> Iterator[StoredCommit]:
    names = {group.group_id for group in found}
    return commits(state.logs.of(CONSUMER_OFFSETS), names.__contains__)


def _place(topic: str, partition: int) -> NamedPartition:
    return NamedPartition.of(TopicPartition(topic, partition))
