"""`kafkafs topics`: describe topics as kafka-topics does, without a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from engine.log.partition_choice import NamePattern, PartitionChoice
from engine.log.unmatched import known_names
from engine.topics.topic_names import KAFKA_TOPICS
from kafkafs.cli.arguments import (
    json_option,
    one_source_argument,
    open_log_source,
)
from kafkafs.cli.completing import names as completing
from kafkafs.cli.options.partitions import (
    choice_of,
    internal_option,
    require_partitions,
    topic_option,
)
from kafkafs.cli.options.times import at_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import print_json, replaying, warn
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.replay.cluster import ClusterImage
    from engine.replay.source_state import SourceState


@click.command()
@one_source_argument
@click.argument("names", metavar="[TOPIC]...", nargs=-1, shell_complete=completing.topics)
@click.option("--list", "only_names", is_flag=True, help="Print only the names of topics.")
@topic_option
@internal_option(is_default=True)
@at_option
@json_option
@verbosity_options
def topics(
    source: str,
    names: tuple[str, ...],
    choice: PartitionChoice,
    only_names: bool,
    internal: bool,
    as_json: bool,
) -> None:
    """Describe topics from __cluster_metadata: ids, partitions, leaders, in-sync replicas, configs.

    \b
    kafkafs topics /var/lib/kafka/data
    kafkafs topics /var/lib/kafka/data orders 'audit-*'
    kafkafs topics /var/lib/kafka/data --json --at 2024-01-01T10:30:00Z

    TOPIC is a name, a shell pattern or /REGEX/, as for --topic. If SOURCE has no metadata log, topics come from the folders and their
    partition.metadata, and leaders and replicas are unknown (-). Exit status 1: damage was found, a TOPIC
    matched nothing, or (with --json) a log has lost its last records; its logEndOffset is then the end that
    its checkpoints or snapshots prove.
    """
    from engine.replay.source_state import SourceState

    choice = choice_of([*names, *(item.text for item in choice.topics)])
    with open_log_source((source,)) as logs:
        require_partitions(logs)
        with replaying() as advance:
            state = SourceState(logs, advance)
            image = state.cluster.image() if state.cluster.exists else None
        if image is None:
            found = _by_folders(logs)
        else:
            found = {name: image.topic_facts(name) or {} for name in image.topics}
        chosen = {
            name: facts
            for name, facts in found.items()
            if choice.takes_topic(name) and (internal or name not in KAFKA_TOPICS)
        }
        _show(state, chosen, only_names=only_names, as_json=as_json)
        is_damaged = _warn(image, state.ends.notes())
        is_missing = [_report_missing(each.text, chosen, list(found)) for each in choice.topics]
        if is_damaged or any(is_missing):
            click.get_current_context().exit(EXIT_FINDINGS)


def _report_missing(text: str, chosen: Iterable[str], names: list[str]) -> bool:
    """Report a pattern that matches no topic; return whether that is so."""
    if any(map(NamePattern.parse(text).matches, chosen)):
        return False
    there = known_names(names, "topic", text)
    say(printable(f"kafkafs: no topic matches {text}; {there}"), err=True)
    return True


def _warn(image: ClusterImage | None, short: Iterable[str]) -> bool:
    if image is None:
        return warn((), short)
    notes = [*image.notes, *short]
    if image.missing is not None:
        notes.append(
            f"the records before offset {image.missing} are missing: the result goes without them"
        )
    return warn(image.unreadable, notes)


def _by_folders(logs: LogSource) -> dict[str, dict[str, Any]]:
    """Return topics by the folders of their partitions."""
    found: dict[str, dict[str, Any]] = {}
    named = ((log.topic_partition, name, log) for name, log in logs.partitions().items())
    for (topic, number), name, log in sorted(named, key=lambda item: item[0]):
        if name != f"{topic}-{number}":
            continue
        facts = found.setdefault(
            topic, {"name": topic, "topicId": None, "partitions": [], "configs": {}}
        )
        view = log.view_or_none()
        facts["topicId"] = facts["topicId"] or (None if view is None else view.topic_id)
        facts["partitions"].append({"partition": number})
    return found


def _show(
    state: SourceState,
    found: Mapping[str, dict[str, Any]],
    *,
    only_names: bool,
    as_json: bool,
) -> None:
    for name, facts in found.items():
        if only_names:
            if as_json:
                print_json({"name": name, "topicId": facts["topicId"]})
            else:
                click.echo(printable(name))
            continue
        if as_json:
            rows = [
                {**row, "logEndOffset": state.ends.end_of(name, row["partition"])}
                for row in facts["partitions"]
            ]
            print_json({**facts, "partitions": rows})
        else:
            click.echo(_heading(name, facts))
            for row in facts["partitions"]:
                click.echo(_line(name, row))


def _heading(name: str, facts: Mapping[str, Any]) -> str:
    rows = facts["partitions"]
    replicas = max((len(row.get("replicas", ())) for row in rows), default=0)
    configs = ",".join(f"{key}={value}" for key, value in sorted(facts["configs"].items()))
    parts = (
        f"Topic: {printable(name)}",
        f"TopicId: {facts['topicId'] or '-'}",
        f"PartitionCount: {len(rows)}",
        f"ReplicationFactor: {replicas or '-'}",
        f"Configs: {printable(configs)}",
    )
    return "\t".join(parts)


def _line(name: str, row: Mapping[str, Any]) -> str:
    leader = row.get("leader")
    parts = [
        f"\tTopic: {printable(name)}",
        f"Partition: {row['partition']}",
        f"Leader: {'-' if leader is None else 'none' if leader < 0 else leader}",
        f"Replicas: {_numbers(row.get('replicas'))}",
        f"Isr: {_numbers(row.get('isr'))}",
    ]
    if leader is not None:
        parts.append(f"LeaderEpoch: {row['leaderEpoch']}")
        parts.append(f"Elr: {_numbers(row['eligibleLeaderReplicas'])}")
        parts.append(f"LastKnownElr: {_numbers(row['lastKnownElr'])}")
    return "\t".join(parts)


def _numbers(numbers: Iterable[int] | None) -> str:
    return "-" if numbers is None else ",".join(map(str, numbers))
