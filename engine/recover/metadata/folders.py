"""Topics as the folders of their partitions state them: names, ids, partitions, replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from engine.checkpoint.base64_uuid import random_uuid
from engine.errors import KafkaStorageError
from engine.files.file_names import FolderState, parse_folder_name
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.view.stable_offset import topic_id
from engine.recover.metadata.partition_counts import PROVEN_TOPICS, proven_count
from engine.topics.topic_names import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)

_COMPACT = {"cleanup.policy": "compact"}
_SEGMENTS = {"segment.bytes": "104857600"}
INTERNAL_CONFIGS: Mapping[str, Mapping[str, str]] = {
    CONSUMER_OFFSETS: {**_COMPACT, **_SEGMENTS, "compression.type": "producer"},
    TRANSACTION_STATE: {
        **_COMPACT,
        **_SEGMENTS,
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    SHARE_GROUP_STATE: {**_COMPACT, **_SEGMENTS, "compression.type": "producer"},
    REMOTE_LOG_METADATA: {"cleanup.policy": "delete", "retention.ms": "-1"},
}
"""Configurations with which Kafka creates its own topics; without them retention takes offsets and transactions."""


@dataclass(frozen=True)
class FoundTopic:
    """A topic in folders.

    Attributes:
        topic_id: made up if no folder states one.
        replicas: node ids that have each partition, by its number; empty for a partition without a folder.
        configs: those that are certain.
        is_id_made: whether the topic id is made up.
    """

    topic_id: str
    replicas: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str] = field(default_factory=dict)
    is_id_made: bool = False


@dataclass(frozen=True)
class FoundTopics:
    """Topics by name, and sentences about what is not known."""

    topics: Mapping[str, FoundTopic]
    unknown: tuple[str, ...] = ()


@dataclass
class _Gathered:
    """Folders of one topic: its logs by partition, with their nodes."""

    logs: dict[int, list[tuple[int, PartitionLog]]] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=dict)
    is_compacted: bool = False


def found_topics(sources: Sequence[LogSource]) -> FoundTopics:
    """Return the topics whose partitions have folders in the sources, but for the metadata log.

    Folders that a broker deletes, moves or set aside do not count. If the folders of a topic have several ids, most
    folders decide.
    """
    gathered: dict[str, _Gathered] = {}
    for node, log in _live_logs(sources):
        topic, partition = log.topic_partition
        each = gathered.setdefault(topic, _Gathered())
        each.logs.setdefault(partition, []).append((node, log))
        stated = _stated_id(log)
        if stated is not None:
            each.ids.setdefault(stated, []).append(log.root.display(log.folder))
        each.is_compacted |= bool(log.checkpoints.cleaner_offset(log.topic_partition))
    topics: dict[str, FoundTopic] = {}
    unknown: list[str] = []
    for name in sorted(gathered):
        topics[name] = _topic(name, gathered[name], unknown)
    return FoundTopics(topics, tuple(unknown))


def live_ids(sources: Sequence[LogSource]) -> frozenset[str]:
    """Return the ids of all topics that have a folder, but for those that a broker deletes, moves or set aside."""
    return frozenset(filter(None, (_stated_id(log) for _, log in _live_logs(sources))))


def _live_logs(sources: Sequence[LogSource]) -> Iterator[tuple[int, PartitionLog]]:
    """Yield the logs of partitions with the id of their node, -1 if unknown."""
    for source in sources:
        nodes = {
            root.path: -1 if stated is None or stated.node_id is None else stated.node_id
            for root, stated in zip(source.roots, source.meta_properties, strict=True)
        }
        for log in source.partitions().values():
            if log.topic_partition.topic == CLUSTER_METADATA:
                continue
            if log.is_named and parse_folder_name(log.folder).state is not FolderState.LOG:
                continue
            yield nodes[log.root.path], log


def _stated_id(log: PartitionLog) -> str | None:
    try:
        return topic_id(log.context)
    except (KafkaStorageError, OSError):
        return None


def _topic(name: str, found: _Gathered, unknown: list[str]) -> FoundTopic:
    ids = sorted(found.ids, key=lambda each: len(found.ids[each]), reverse=True)
    if not ids:
        unknown.append(f"the id of {name}: no folder has a partition.metadata; a new one is taken")
    unknown += [
        f"{', '.join(found.ids[other][:3])} has the topic id {other}, but most folders of {name} have {ids[0]}"
        for other in ids[1:]
    ]
    count = max(found.logs) + 1
    if name in PROVEN_TOPICS:
        logs = {number: [log for _, log in logs] for number, logs in found.logs.items()}
        proof = proven_count(name, logs)
        if proof.sentence:
            unknown.append(proof.sentence)
        count = proof.partitions
    missing = [number for number in range(count) if number not in found.logs]
    if missing:
        unknown.append(
            f"{name} has no folder for {len(missing)} of {count} partitions ({_listed(missing)}): they begin empty"
        )
    replicas = {
        number: tuple(sorted({node for node, _ in found.logs.get(number, ()) if node >= 0}))
        for number in range(count)
    }
    configs = INTERNAL_CONFIGS.get(name, _COMPACT if found.is_compacted else {})
    if name not in INTERNAL_CONFIGS and found.is_compacted:
        unknown.append(f"{name} was compacted: it gets cleanup.policy=compact")
    return FoundTopic(ids[0] if ids else random_uuid(), replicas, configs, not ids)


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return shown if len(numbers) <= 5 else f"{shown}, …"
