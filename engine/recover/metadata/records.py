"""The metadata records of the recovered cluster, in the order of Kafka's snapshots, and their bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.coding.varint import encode_unsigned_varint
from engine.plan.loading.feature_levels import (
    FEATURE_LEVELS,
    KRAFT_VERSION,
    METADATA_VERSION,
    FeatureLevels,
)
from engine.recover.metadata.cluster_metadata import ClusterMetadata, TopicMetadata
from engine.replay.cluster_tables import (
    ACL_RESOURCE_TYPES,
    OPERATIONS,
    PATTERN_TYPES,
    PERMISSIONS,
    RESOURCE_TYPES,
)
from engine.topics.framed_records import FRAME_VERSION
from engine.topics.internal_topics import METADATA_RECORDS
from engine.topics.message.encoding import write_message
from engine.units import MAX_INT32

NEWEST_LEVELS = FEATURE_LEVELS[max(FEATURE_LEVELS)]
ELR = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
_DIRECTORIES_SINCE, _ELR_SINCE = 17, 23
"""Levels of metadata.version from which a PartitionRecord has directories, and eligible leader replicas."""
_THROTTLED = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
TIERED = "remote.storage.enable"
HELD = {"retention.ms": "-1", "retention.bytes": "-1"}
HELD_TIERED = {"local.retention.ms": "-2", "local.retention.bytes": "-2"}
_TYPES = {kind.name: (number, kind.message) for number, kind in METADATA_RECORDS.items()}


class MetadataRecord(NamedTuple):
    """A record of the metadata log: Kafka's name of its type, the version, and the fields by name."""

    kind: str
    version: int
    fields: Mapping[str, Any]


class PartitionPlacement(NamedTuple):
    """Where a partition is in the recovered cluster.

    Attributes:
        topic, partition: its name.
        replicas: new node ids; `leader` is one of them.
        leader: the node with the best copy, which alone is in sync at first.
        leader_epoch: larger than every epoch that any copy has seen.
        directories: directory.id by replica.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    directories: Mapping[int, str]


@dataclass(frozen=True)
class RecordOptions:
    """What is changed of the old cluster.

    Attributes:
        hold: keep all records until the operator lifts it.
        fits_min_isr: lower min.insync.replicas to the number of replicas.
        renumbered: new node id by the old one; without an entry it stays.
        nodes: ids of the new nodes; settings of others are left out.
        levels: levels of features that the release knows which will run the cluster.
    """

    hold: bool = False
    fits_min_isr: bool = False
    renumbered: Mapping[int, int] = field(default_factory=dict)
    nodes: frozenset[int] = frozenset()
    levels: FeatureLevels = NEWEST_LEVELS


def encode_record(record: MetadataRecord) -> bytes:
    """Return a record's value: version of the frame, type, version, message. Raises ValueError if a field does not fit."""
    number, message = _TYPES[record.kind]
    head = b"".join(map(encode_unsigned_varint, (FRAME_VERSION, number, record.version)))
    try:
        (data,) = write_message(message, record.version, record.fields, head)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"a {record.kind} cannot be written: {error}") from error
    return bytes(data)


def features_of(metadata: ClusterMetadata, levels: FeatureLevels) -> dict[str, int]:
    """Return the levels of the cluster's features but kraft.version, metadata.version first.

    Args:
        metadata: the cluster; without a metadata.version it gets the levels of a new cluster.
        levels: those that the release knows.
    """
    found = metadata.feature_levels()
    found.pop(KRAFT_VERSION, None)
    if METADATA_VERSION not in found:
        return {METADATA_VERSION: levels.released, **(levels.others or {}), **found}
    return {METADATA_VERSION: found.pop(METADATA_VERSION), **dict(sorted(found.items()))}


def cluster_records(
    metadata: ClusterMetadata,
    placements: Iterable[PartitionPlacement],
    next_producer_id: int,
    options: RecordOptions,
) -> Iterator[MetadataRecord]:
    """Yield the records of the recovered cluster, without its nodes: these register at their start.

    Args:
        metadata: the old cluster.
        placements: all partitions; topics without one are left out.
        next_producer_id: above every producer id that was ever given out.
        options: what is changed.

    Raises:
        KeyError: a placement is of a topic that the metadata does not name.
    """
    features = features_of(metadata, options.levels)
    for name, level in features.items():
        yield MetadataRecord("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level})
    placed: dict[str, list[PartitionPlacement]] = {}
    for placement in placements:
        placed.setdefault(placement.topic, []).append(placement)
    for name in sorted(placed):
        yield from _topic(metadata.topics[name], placed[name], features[METADATA_VERSION])
    yield from _configs(metadata, placed, features, options)
    if metadata.image is not None:
        for item in metadata.image.table("quotas").values():
            yield from _quota(item.facts)
    producer_ids = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": next_producer_id}
    yield MetadataRecord("PRODUCER_IDS_RECORD", 0, producer_ids)
    if metadata.image is not None:
        for item in metadata.image.table("acls").values():
            yield _acl(item.facts)
    for facts in metadata.credentials.values():
        yield MetadataRecord("USER_SCRAM_CREDENTIAL_RECORD", 0, _with_bytes(facts))
    if metadata.image is not None:
        for item in metadata.image.table("tokens").values():
            yield MetadataRecord("DELEGATION_TOKEN_RECORD", 0, item.facts)


def left_out_settings(metadata: ClusterMetadata, options: RecordOptions) -> list[str]:
    """Return sentences about settings of brokers that the recovered cluster does not have."""
    configs = () if metadata.image is None else metadata.image.table("configs")
    return [
        f"the settings of broker {name} are left out: it is none of the new nodes"
        for kind, name in configs
        if kind == "broker" and _renumbered(name, options) is None
    ]


def _topic(
    topic: TopicMetadata, placements: Sequence[PartitionPlacement], metadata_version: int
) -> Iterator[MetadataRecord]:
    yield MetadataRecord("TOPIC_RECORD", 0, {"name": topic.name, "topicId": topic.topic_id})
    version = (metadata_version >= _DIRECTORIES_SINCE) + (metadata_version >= _ELR_SINCE)
    for each in sorted(placements, key=lambda each: each.partition):
        known = topic.partitions.get(each.partition)
        yield MetadataRecord(
            "PARTITION_RECORD",
            version,
            {
                "partitionId": each.partition,
                "topicId": topic.topic_id,
                "replicas": list(each.replicas),
                "isr": [each.leader],
                "removingReplicas": [],
                "addingReplicas": [],
                "leader": each.leader,
                "leaderEpoch": each.leader_epoch,
                "partitionEpoch": 0 if known is None else min(known.partition_epoch + 1, MAX_INT32),
                "directories": [each.directories[replica] for replica in each.replicas],
            },
        )


def _configs(
    metadata: ClusterMetadata,
    placed: Mapping[str, Sequence[PartitionPlacement]],
    features: Mapping[str, int],
    options: RecordOptions,
) -> Iterator[MetadataRecord]:
    for name in sorted(placed):
        replicas = min(len(each.replicas) for each in placed[name])
        configs = topic_configs(metadata.topics[name].configs, replicas, options)
        yield from _config_records("topic", name, configs)
    brokers: dict[str, dict[str, str]] = {}
    if metadata.image is not None:
        for (kind, name), item in metadata.image.table("configs").items():
            configs = dict(item.facts["configs"])
            if kind == "broker":
                number = _renumbered(name, options)
                if number is not None:
                    brokers.setdefault(number, {}).update(configs)
            elif kind != "topic":
                yield from _config_records(kind, name, configs)
    if features.get(ELR):
        # The controller of a new cluster takes it from its own properties, but finds a snapshot here.
        brokers.setdefault("", {}).setdefault(MIN_ISR, "1")
    largest = max((len(each.replicas) for rows in placed.values() for each in rows), default=1)
    for number in sorted(brokers):
        yield from _config_records("broker", number, _fitted(brokers[number], largest, options))


def topic_configs(
    configs: Mapping[str, str], replicas: int, options: RecordOptions
) -> dict[str, str]:
    """Return the configuration of a topic in the recovered cluster, whose partitions have at least `replicas`."""
    found = _fitted(configs, replicas, options)
    for name in _THROTTLED:
        if name in found and options.renumbered:
            found[name] = _renumbered_throttle(found[name], options)
    if options.hold:
        found |= HELD
        if found.get(TIERED) == "true":
            found |= HELD_TIERED
    return found


def _fitted(configs: Mapping[str, str], replicas: int, options: RecordOptions) -> dict[str, str]:
    found = dict(configs)
    least = found.get(MIN_ISR, "")
    if options.fits_min_isr and least.isdecimal() and int(least) > replicas:
        found[MIN_ISR] = str(replicas)
    return found


def _renumbered(name: str, options: RecordOptions) -> str | None:
    """Return the resource name of a broker in the recovered cluster; None if it has no such node."""
    if not name.isdecimal():
        return name
    number = options.renumbered.get(int(name), int(name))
    return str(number) if number in options.nodes else None


def _renumbered_throttle(value: str, options: RecordOptions) -> str:
    """Return a list of partition:broker with the new numbers of brokers."""
    parts = []
    for part in value.split(","):
        partition, colon, broker = part.partition(":")
        if colon and broker.isdecimal():
            part = f"{partition}:{options.renumbered.get(int(broker), int(broker))}"
        parts.append(part)
    return ",".join(parts)


def _config_records(kind: str, name: str, configs: Mapping[str, str]) -> Iterator[MetadataRecord]:
    number = _number(RESOURCE_TYPES, kind)
    for key in sorted(configs):
        yield MetadataRecord(
            "CONFIG_RECORD",
            0,
            {"resourceType": number, "resourceName": name, "name": key, "value": configs[key]},
        )


def _quota(facts: Mapping[str, Any]) -> Iterator[MetadataRecord]:
    entity = [
        {"entityType": kind, "entityName": name} for kind, name in sorted(facts["entity"].items())
    ]
    for key, value in sorted(facts["quotas"].items()):
        yield MetadataRecord(
            "CLIENT_QUOTA_RECORD",
            0,
            {"entity": entity, "key": key, "value": float(value), "remove": False},
        )


def _acl(facts: Mapping[str, Any]) -> MetadataRecord:
    fields = {
        **facts,
        "resourceType": _number(ACL_RESOURCE_TYPES, facts["resourceType"]),
        "patternType": _number(PATTERN_TYPES, facts["patternType"]),
        "operation": _number(OPERATIONS, facts["operation"]),
        "permissionType": _number(PERMISSIONS, facts["permissionType"]),
    }
    return MetadataRecord("ACCESS_CONTROL_ENTRY_RECORD", 0, fields)


def _number(names: Mapping[int, str], name: str) -> int:
    """Return the code of a name in a table; a code without a name is shown as its number."""
    for number, known in names.items():
        if known == name:
            return number
    return int(name)


def _with_bytes(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a SCRAM credential with bytes in place of their base64."""
    secrets = ("salt", "storedKey", "serverKey")
    return {**facts, **{name: base64.b64decode(facts[name]) for name in secrets}}
