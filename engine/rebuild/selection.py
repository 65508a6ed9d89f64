"""Select the partitions of the sources for a rebuilt log dir, with their new names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.cut.cluster_cut import CutEnd
from engine.errors import InvalidNameError
from engine.files.file_names import FolderState, parse_folder_name, validate_topic
from engine.log.log_directory import LogSource
from engine.log.partition_choice import PartitionChoice
from engine.log.partition_log import PartitionLog
from engine.log.renames import is_partition, name_of, renamed, unknown_name
from engine.log.unmatched import unmatched_partition
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.options import RebuildOptions
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import TopicPartition
from engine.verdict.loss import Loss
from engine.verdict.source_losses import lost_partitions

NOT_ASKED_FOR = "its topic was not selected"


class LeftOut(NamedTuple):
    """A part of a source that is left out, and why; `is_loss` if it was wanted."""

    path: str
    reason: str
    is_loss: bool = False


class Chosen(NamedTuple):
    """A partition of the result.

    Attributes:
        partition: its new name.
        copies: its copies, first that of the source.
        taken_from: the further source that it is taken from, if the source does not have it.
        then: its end at the moment that is asked for; None for now.
    """

    partition: TopicPartition
    copies: list[PartitionLog]
    taken_from: str | None = None
    then: CutEnd | None = None


class RebuildSelection(NamedTuple):
    """Partitions of the result, the parts of the sources that are left out, and the source's lost partitions."""

    chosen: list[Chosen]
    left_out: list[LeftOut]
    lost: list[Loss]


def select(sources: Sequence[LogSource], options: RebuildOptions) -> RebuildSelection:
    """Choose the partitions: the first source decides which exist, the others have further copies.

    Raises:
        RebuildRefusedError: a topic name is invalid, two partitions have one name, or no partition is left.
        ValueError: a topic or a partition of the options is malformed.
    """
    for name in options.renames.values():
        try:
            validate_topic(name)
        except InvalidNameError as error:
            raise RebuildRefusedError(str(error), "rename the topic to another name") from None
    for log in (log for source in sources for log in source.partitions().values()):
        new = options.renames.get(name_of(log))
        if new is not None and not is_partition(new):
            raise RebuildRefusedError(
                f"{name_of(log)} is a partition, and {new!a} is no name of one",
                f"name a partition, such as {name_of(log)}={new}-0",
            )
    choice = PartitionChoice.parse(options.topics, options.partitions)
    chosen: dict[TopicPartition, Chosen] = {}
    left_out: list[LeftOut] = []
    for number, source in enumerate(sources):
        for log in source.partitions().values():
            reason = _take(log, number, chosen, options, choice)
            if reason is not None:
                left_out.append(LeftOut(log.root.display(log.folder), reason))
        linked = {each.path for each in source.unread_folders()}
        for other in source.others:
            path = other.root.display(other.name)
            left_out.append(LeftOut(path, other.reason, is_loss=path in linked))
    _refuse_unmatched(sources, choice)
    taken = {log.topic_partition for each in chosen.values() for log in each.copies}
    lost = [
        each.loss()
        for each in lost_partitions(sources[0])
        if choice.takes(each) and each.partition not in taken
    ]
    left_out += [LeftOut(each.partition, each.reason, is_loss=True) for each in lost]
    if not chosen:
        raise RebuildRefusedError(
            "no partition is left for the target",
            "see kafkafs ls for what there is, and name topics with --topic",
        )
    _refuse_unused(options, chosen)
    return RebuildSelection([chosen[name] for name in sorted(chosen)], left_out, lost)


def _take(
    log: PartitionLog,
    number: int,
    chosen: dict[TopicPartition, Chosen],
    options: RebuildOptions,
    choice: PartitionChoice,
) -> str | None:
    """Add a partition's log; or return why it is left out."""
    folder = log.name.partition("@")[0]
    try:
        state = parse_folder_name(folder).state
    except InvalidNameError:
        state = FolderState.LOG
    topic = log.topic_partition.topic
    is_named = bool(choice) and choice.takes(log)
    if state is not FolderState.LOG and not (
        is_named
        and any(
            each.matches(folder) and each.text.rstrip("/").endswith(state.value)
            for each in choice.folders()
        )
    ):
        return f"a {state.value} folder, which is not the log; name it with --partition to take it"
    if choice and not is_named:
        return NOT_ASKED_FOR
    try:
        new = renamed(log, options.renames)
        validate_topic(new.topic)
    except InvalidNameError as error:
        return f"{error}; --rename gives it another name"
    known = chosen.get(new)
    if number and topic == CLUSTER_METADATA and known is None and not is_named:
        return (
            "the source has no metadata log; name it with --partition to take that of another node"
        )
    if number:
        taken = Chosen(new, [], taken_from=log.root.display(log.folder))
        chosen.setdefault(new, taken).copies.append(log)
        return None
    if known is not None and "@" in log.name:
        return "a second copy of a partition, in a later log dir; merge it with --merge"
    if known is not None:
        raise RebuildRefusedError(
            f"{log.name} and {known.copies[0].name} would both be {new}", "rename one of them"
        )
    chosen[new] = Chosen(new, [log])
    return None


def _refuse_unmatched(sources: Sequence[LogSource], choice: PartitionChoice) -> None:
    """Refuse an item that takes no partition."""
    logs = {name: log for source in reversed(sources) for name, log in source.partitions().items()}
    unmatched = choice.unmatched(logs)
    if unmatched is not None:
        option, item = unmatched
        reason, _, there = unmatched_partition(option, item.text, logs).partition("; ")
        raise RebuildRefusedError(reason, there)


def _refuse_unused(options: RebuildOptions, chosen: dict[TopicPartition, Chosen]) -> None:
    missing = unknown_name(
        options.renames, (log for each in chosen.values() for log in each.copies)
    )
    if missing is not None:
        raise RebuildRefusedError(
            f"there is no topic or partition {missing!a} to rename", "see kafkafs ls"
        )
    new = {partition.topic for partition in chosen}
    unknown = [name for name in options.topic_ids if name not in new]
    if unknown:
        raise RebuildRefusedError(
            f"there is no topic {unknown[0]!a} in the result to give an id", "use its new name"
        )
