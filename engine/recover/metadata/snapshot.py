"""Write what each node of the recovered cluster needs beside its logs: metadata snapshot, meta.properties, settings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from engine.checkpoint.base64_uuid import random_uuid
from engine.checkpoint.meta_properties import MetaProperties, MetaPropertiesVersion
from engine.checkpoint.properties_file import render_properties
from engine.clock import SYSTEM_CLOCK
from engine.disk.disk import DISK, Disk
from engine.files.file_names import META_PROPERTIES, kraft_checkpoint_name
from engine.log.folder_listing import KRaftSnapshot
from engine.plan.loading.broker_versions import CURRENT, broker_version
from engine.plan.loading.feature_levels import METADATA_VERSION, FeatureLevels
from engine.record.control_records import ControlRecordType
from engine.record.encoding.building import quorum_batch, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.recover.errors import RecoverRefusedError
from engine.recover.metadata.cluster_metadata import ClusterMetadata
from engine.recover.metadata.records import (
    MetadataRecord,
    PartitionPlacement,
    RecordOptions,
    cluster_records,
    encode_record,
    features_of,
    left_out_settings,
)
from engine.recover.metadata.settings import (
    START_TEXT,
    ClusterSettings,
    server_properties,
    start_text,
)
from engine.recover.nodes import ClusterNode, controller_listeners
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT32, Offset, Timestamp

SERVER_PROPERTIES = "server.properties"
SECRET_MODE = 0o600
"""The snapshot has SCRAM credentials and settings that may be passwords."""
_PER_BATCH, _BYTES_PER_BATCH = 1000, 1 << 20
_DYNAMIC_SINCE = 21
"""Level of metadata.version from which a quorum may be dynamic."""


@dataclass(frozen=True)
class ClusterOptions:
    """How the recovered cluster is written.

    Attributes:
        cluster_id: "keep", or "new".
        quorum: "static" or "dynamic".
        hold: keep all records until the operator lifts it.
        fits_min_isr: lower min.insync.replicas to the number of replicas.
        kafka_version: release that will run it.
        renumbered: new node id by the old one.
        final_target: folder that `target` will be, for the settings; None if it is that already.
        disk: the disk.
    """

    cluster_id: str = "keep"
    quorum: str = "static"
    hold: bool = False
    fits_min_isr: bool = False
    kafka_version: str = CURRENT
    renumbered: Mapping[int, int] = field(default_factory=dict)
    final_target: Path | None = None
    disk: Disk = DISK


class WrittenCluster(NamedTuple):
    """What was written: the cluster id, the snapshot, and the paths of files below the target."""

    cluster_id: str
    snapshot: KRaftSnapshot
    files: tuple[str, ...]


def check_cluster(
    metadata: ClusterMetadata, nodes: Sequence[ClusterNode], options: ClusterOptions
) -> FeatureLevels:
    """Return the levels of features that the release knows.

    Raises RecoverRefusedError if the nodes cannot become a cluster, or the release cannot read the metadata.
    """
    try:
        levels = broker_version(options.kafka_version).feature_levels
    except ValueError as error:
        raise RecoverRefusedError(str(error), "name a release that is known") from None
    if levels is None:
        raise RecoverRefusedError(
            f"Kafka {options.kafka_version} has no metadata log that can be made anew",
            "name Kafka 3.3 or a later release with --kafka-version",
        )
    features = features_of(metadata, levels)
    failure = levels.refusal(features)
    if failure is not None:
        raise RecoverRefusedError(
            f"Kafka {options.kafka_version} cannot read this cluster's metadata: {failure.reason}",
            "name the release that ran it, or a later one, with --kafka-version",
        )
    if options.quorum == "dynamic" and features[METADATA_VERSION] < _DYNAMIC_SINCE:
        raise RecoverRefusedError(
            f"metadata.version {features[METADATA_VERSION]} has no dynamic quorum",
            "take --quorum static",
        )
    for role in ("broker", "controller"):
        if not any(role in node.roles for node in nodes):
            raise RecoverRefusedError(f"no node is a {role}", "name one with --nodes FILE")
    for node in nodes:
        clients = set(node.listeners) - controller_listeners(nodes)
        if (node.is_controller and node.controller_address is None) or (
            node.is_broker and not clients
        ):
            missing = "controllers" if node.is_controller and clients else "clients"
            raise RecoverRefusedError(
                f"no disk states the address of node {node.id} for {missing}",
                "name the nodes and their listeners with --nodes FILE",
            )
    ids = [each for node in nodes for each in node.directory_ids]
    if len(set(ids)) < len(ids):
        raise RecoverRefusedError("two log dirs have one directory.id", "name it once")
    return levels


def write_cluster(
    target: Path,
    metadata: ClusterMetadata,
    nodes: Sequence[ClusterNode],
    placements: Iterable[PartitionPlacement],
    next_producer_id: int,
    options: ClusterOptions,
) -> WrittenCluster:
    """Write the files of all nodes into target/node-N/ and the instructions into the target; sync them.

    Folders that exist stay. Each log dir gets a meta.properties, the first one of each controller the snapshot.

    Args:
        target: a folder.
        metadata: the old cluster.
        nodes: all new nodes.
        placements: all partitions.
        next_producer_id: above every producer id that was ever given out.
        options: how.

    Raises:
        RecoverRefusedError: see `check_cluster`.
        OSError: a file exists or cannot be written.
    """
    levels = check_cluster(metadata, nodes, options)
    placements = list(placements)
    is_kept = options.cluster_id == "keep" and metadata.cluster_id is not None
    cluster_id = metadata.cluster_id if is_kept and metadata.cluster_id else random_uuid()
    snapshot = _snapshot_id(metadata)
    of_records = RecordOptions(
        options.hold,
        options.fits_min_isr,
        options.renumbered,
        frozenset(node.id for node in nodes),
        levels,
    )
    records = list(cluster_records(metadata, placements, next_producer_id, of_records))
    is_dynamic = options.quorum == "dynamic"
    try:
        voters = voters_of(nodes) if is_dynamic else None
        batches = list(snapshot_batches(snapshot, records, voters))
    except ValueError as error:
        raise RecoverRefusedError(
            str(error), "choose another copy of the metadata with --metadata DIR"
        ) from error
    plan = ClusterSettings(
        cluster_id,
        snapshot,
        tuple(nodes),
        is_dynamic,
        options.hold,
        str(options.final_target or target),
        {name: max(rows) + 1 for name, rows in _numbers(placements).items()},
        (*metadata.unknown, *left_out_settings(metadata, of_records)),
        {each.topic: metadata.topics[each.topic].configs for each in placements},
        metadata.image is not None and bool(metadata.image.table("tokens")),
    )
    writer = _Writer(target, options.disk)
    for node in nodes:
        folder = f"node-{node.id}"
        for name, directory_id in zip(node.log_dirs, node.directory_ids, strict=True):
            properties = MetaProperties(
                version=MetaPropertiesVersion.V1,
                cluster_id=cluster_id,
                node_id=node.id,
                directory_id=directory_id,
            )
            data = render_properties(properties.to_properties())
            writer.write(f"{folder}/{name}/{META_PROPERTIES}", data)
        if node.is_controller:
            path = f"{folder}/{node.log_dirs[0]}/{CLUSTER_METADATA}-0"
            writer.write(f"{path}/{kraft_checkpoint_name(*snapshot)}", *batches, mode=SECRET_MODE)
        writer.write(f"{folder}/{SERVER_PROPERTIES}", server_properties(node, plan).encode())
    writer.write(START_TEXT, start_text(plan).encode())
    return WrittenCluster(cluster_id, snapshot, tuple(writer.files))


def _numbers(placements: Iterable[PartitionPlacement]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for each in placements:
        found.setdefault(each.topic, []).append(each.partition)
    return found


def _snapshot_id(metadata: ClusterMetadata) -> KRaftSnapshot:
    """Return an end and an epoch above all that the old controllers can have written."""
    epoch = max(metadata.end[0], metadata.highest[0], 0) + 1
    end = max(metadata.end[1], metadata.highest[1], 0) + 1
    if epoch > MAX_INT32:
        raise RecoverRefusedError(
            f"the metadata states the leader epoch {epoch - 1}: no larger one is possible",
            "choose another copy with --metadata DIR",
        )
    return KRaftSnapshot(end, epoch)


def voters_of(nodes: Sequence[ClusterNode]) -> list[dict[str, Any]]:
    """Return the voters of a dynamic quorum, as the fields of a VotersRecord."""
    voters = []
    for node in nodes:
        address = node.controller_address
        if not node.is_controller or address is None:
            continue
        host, _, port = address.rpartition(":")
        voters.append(
            {
                "voterId": node.id,
                "voterDirectoryId": node.directory_ids[0],
                "endpoints": [
                    {
                        "name": node.controller_listener,
                        "host": host.strip("[]"),
                        "port": int(port),
                    }
                ],
                "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
            }
        )
    return voters


def snapshot_batches(
    snapshot: KRaftSnapshot,
    records: Iterable[MetadataRecord],
    voters: Sequence[Mapping[str, Any]] | None = None,
    timestamp: Timestamp | None = None,
) -> Iterator[bytes]:
    """Yield the batches of a snapshot file: header, voters of a dynamic quorum, records, footer.

    Args:
        snapshot: its end and epoch.
        records: what it holds.
        voters: see `voters_of`; None for a static quorum.
        timestamp: of all records; now, if not given.
    """
    now = SYSTEM_CLOCK.now_ms() if timestamp is None else timestamp
    offset: Offset = 0

    def control(kind: ControlRecordType, fields: Mapping[str, Any]) -> bytes:
        batch = quorum_batch(
            kind, fields, base_offset=offset, timestamp=now, leader_epoch=snapshot.epoch
        )
        return bytes(batch.buffer)

    yield control(ControlRecordType.SNAPSHOT_HEADER, {"lastContainedLogTimestamp": now})
    offset += 1
    if voters is not None:
        yield control(ControlRecordType.KRAFT_VERSION, {"kRaftVersion": 1})
        offset += 1
        yield control(ControlRecordType.KRAFT_VOTERS, {"voters": list(voters)})
        offset += 1
    for values in _batched(records):
        batch = records_of(
            *(SimpleRecord(None, value, timestamp=now) for value in values),
            base_offset=offset,
            partition_leader_epoch=snapshot.epoch,
        )
        yield bytes(batch.buffer)
        offset += len(values)
    yield control(ControlRecordType.SNAPSHOT_FOOTER, {})


def _batched(records: Iterable[MetadataRecord]) -> Iterator[list[bytes]]:
    values: list[bytes] = []
    size = 0
    for record in records:
        value = encode_record(record)
        if values and (len(values) >= _PER_BATCH or size + len(value) > _BYTES_PER_BATCH):
            yield values
            values, size = [], 0
        values.append(value)
        size += len(value)
    if values:
        yield values


class _Writer:
    """Writes new files below a folder.

    Attributes:
        files: their paths below it.
    """

    def __init__(self, target: Path, disk: Disk) -> None:
        self._target = os.fspath(target)
        self._disk = disk
        self.files: list[str] = []

    def write(self, name: str, *chunks: bytes, mode: int = 0o644) -> None:
        """Write a new file, which has its mode before its first byte."""
        path = os.path.join(self._target, name)
        folder = os.path.dirname(path)
        self._disk.make_folder(folder)
        with self._disk.open(path, exclusive=True) as file:
            self._disk.set_access(path, mode)
            position = 0
            for chunk in chunks:
                file.write_at(position, chunk)
                position += len(chunk)
            file.sync()
        self._disk.sync_folder(folder)
        self.files.append(name)
