"""The copies of each partition in all sources, without those of other topics of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.errors import InvalidNameError
from engine.files.file_names import FolderState, parse_folder_name
from engine.log.log_directory import LogSource
from engine.log.partition_choice import PartitionChoice
from engine.log.partition_log import PartitionLog
from engine.log.view.stable_offset import topic_id
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import TopicPartition


class PartitionCopy(NamedTuple):
    """A copy of a partition.

    Attributes:
        log: its log.
        source: index of its source.
        node_id: the node of its log dir, by meta.properties; None if unknown.
        state: state of its folder: LOG, or one that a broker had set aside.
    """

    log: PartitionLog
    source: int
    node_id: int | None
    state: FolderState

    @property
    def path(self) -> str:
        """Path of the folder, for messages."""
        return self.log.root.display(self.log.folder)


class LeftOutCopy(NamedTuple):
    """A folder of a partition that is no copy of it, and why."""

    path: str
    reason: str


class FoundCopies(NamedTuple):
    """The copies of the partitions, and the folders that are left out."""

    copies: dict[TopicPartition, list[PartitionCopy]]
    left_out: list[LeftOutCopy]


def copies_of(
    sources: Sequence[LogSource],
    topic_ids: Mapping[str, str] | None,
    choice: PartitionChoice,
) -> FoundCopies:
    """Return the copies of all partitions of the sources.

    A folder that a broker set aside (-stray, -future, -delete) is a copy if its topic id is that of a topic of the
    cluster: brokers rename folders when they start with other metadata, move a log, or give a replica away.

    Args:
        sources: all sources, one for each log dir.
        topic_ids: ids of the topics that exist, by name; None if no metadata states them.
        choice: the partitions to take.
    """
    found: dict[TopicPartition, list[PartitionCopy]] = {}
    left_out: list[LeftOutCopy] = []
    for number, source in enumerate(sources):
        nodes = dict(zip(source.roots, source.meta_properties, strict=True))
        for log in source.partitions().values():
            if log.topic_partition.topic == CLUSTER_METADATA or (choice and not choice.takes(log)):
                continue
            properties = nodes.get(log.root)
            node_id = None if properties is None else properties.node_id
            copy = PartitionCopy(log, number, node_id, _state_of(log))
            reason = _why_not(copy, topic_ids)
            if reason is None:
                found.setdefault(log.topic_partition, []).append(copy)
            else:
                left_out.append(LeftOutCopy(copy.path, reason))
    for each in found.values():
        each.sort(key=lambda copy: copy.state is not FolderState.LOG)
    return FoundCopies(dict(sorted(found.items())), left_out)


def _state_of(log: PartitionLog) -> FolderState:
    try:
        return parse_folder_name(log.name.partition("@")[0]).state
    except InvalidNameError:
        return FolderState.LOG


def _why_not(copy: PartitionCopy, topic_ids: Mapping[str, str] | None) -> str | None:
    """Return why a folder is no copy of the topic that the cluster has; None if it is one."""
    topic = copy.log.topic_partition.topic
    if topic_ids is None:
        return None if copy.state is FolderState.LOG else f"a {copy.state.value} folder"
    known = topic_ids.get(topic)
    if known is None:
        return "the metadata has no such topic"
    stated = topic_id(copy.log.context)
    if stated is None:
        return None if copy.state is FolderState.LOG else f"a {copy.state.value} folder"
    return None if stated == known else f"it is of another topic: its id is {stated}, not {known}"
