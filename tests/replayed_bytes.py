"""Records of internal topics for tests of what is replayed from them, and the partitions that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.record.control_records import ControlRecordType
from engine.record.encoding.quorum_records import encode_quorum_record
from engine.topics.internal_topics import (
    GROUP_RECORDS,
    METADATA_RECORDS,
    SHARE_STATE_RECORDS,
    TRANSACTION_RECORDS,
)
from tests.builders import Rec, batch, control_batch, write_segment
from tests.message_bytes import coordinator_key, coordinator_value, framed

NOW = 1_700_000_000_000
TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"


def group_record(
    type_id: int,
    key: dict[str, Any],
    value: dict[str, Any] | None,
    *,
    version: int = 0,
    timestamp: int = NOW,
) -> Rec:
    """A record of __consumer_offsets; None is a tombstone."""
    kind = GROUP_RECORDS[type_id]
    data = None if value is None else coordinator_value(version, kind.value, **value)
    return Rec(data, coordinator_key(type_id, kind.key, **key), timestamp)


def commit(group: str, topic: str, partition: int, offset: int | None, timestamp: int = NOW) -> Rec:
    """A committed offset, or its tombstone."""
    key = {"group": group, "topic": topic, "partition": partition}
    value = None
    if offset is not None:
        value = {"offset": offset, "metadata": "m", "commitTimestamp": timestamp, "leaderEpoch": 4}
    return group_record(1, key, value, version=3, timestamp=timestamp)


def share_group(group: str, topics: dict[str, tuple[str, list[int]]], timestamp: int = NOW) -> Rec:
    """The record of __consumer_offsets that says which share partitions were initialized, by topic id."""
    initialized = [
        {"topicId": topic_id, "topicName": name, "partitions": partitions}
        for topic_id, (name, partitions) in topics.items()
    ]
    return group_record(
        15, {"groupId": group},
        {"initializingTopics": [], "initializedTopics": initialized, "deletingTopics": []},
        timestamp=timestamp,
    )  # fmt: skip


def share_snapshot(
    group: str, partition: int, *, topic_id: str = TOPIC_ID, timestamp: int = NOW, **values: Any
) -> Rec:
    """A snapshot in __share_group_state of what `values` say."""
    values = {
        "snapshotEpoch": 0, "stateEpoch": 0, "leaderEpoch": 0, "startOffset": -1,
        "deliveryCompleteCount": -1, "createTimestamp": timestamp, "writeTimestamp": timestamp,
        "stateBatches": [], **values,
    }  # fmt: skip
    return _share_record(0, group, topic_id, partition, values, timestamp)


def share_update(
    group: str, partition: int, *, topic_id: str = TOPIC_ID, timestamp: int = NOW, **values: Any
) -> Rec:
    """An update in __share_group_state of what `values` say."""
    values = {
        "snapshotEpoch": 0, "leaderEpoch": -1, "startOffset": -1, "deliveryCompleteCount": 0,
        "stateBatches": [], **values,
    }  # fmt: skip
    return _share_record(1, group, topic_id, partition, values, timestamp)


def share_tombstone(
    group: str, partition: int, *, topic_id: str = TOPIC_ID, timestamp: int = NOW
) -> Rec:
    """A record of __share_group_state that removes a share partition."""
    return _share_record(0, group, topic_id, partition, None, timestamp)


def _share_record(
    type_id: int, group: str, topic_id: str, partition: int, values: dict[str, Any] | None,
    timestamp: int,
) -> Rec:  # fmt: skip
    kind = SHARE_STATE_RECORDS[type_id]
    key = coordinator_key(type_id, kind.key, groupId=group, topicId=topic_id, partition=partition)
    data = None if values is None else coordinator_value(0, kind.value, **values)
    return Rec(data, key, timestamp)


def flights(*batches: tuple[int, int, int, int]) -> list[dict[str, int]]:
    """State batches of first offset, last offset, delivery state and delivery count."""
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    return [dict(zip(names, each, strict=True)) for each in batches]


def transaction_record(name: str, timestamp: int = NOW, **value: Any) -> Rec:
    """A record of __transaction_state; without values a tombstone."""
    kind = TRANSACTION_RECORDS[0]
    data = coordinator_value(1, kind.value, **value) if value else None
    return Rec(data, coordinator_key(0, kind.key, transactionalId=name), timestamp)


def metadata_record(kind: str, timestamp: int = NOW, version: int = 0, **values: Any) -> Rec:
    """A record of __cluster_metadata, by Kafka's name of its type."""
    number, found = next(item for item in METADATA_RECORDS.items() if item[1].name == kind)
    return Rec(framed(number, version, found.message, **values), None, timestamp)


def topic_records(name: str, topic_id: str, partitions: int = 1, timestamp: int = NOW) -> list[Rec]:
    """The records that make a topic, led by broker 1."""
    state = {"replicas": [1, 2], "isr": [1, 2], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0}
    return [
        metadata_record("TOPIC_RECORD", timestamp, name=name, topicId=topic_id),
        *(
            metadata_record(
                "PARTITION_RECORD", timestamp, 1, partitionId=number, topicId=topic_id, **state
            )
            for number in range(partitions)
        ),
    ]


def write_partition(log_dir: Path, name: str, batches: Sequence[bytes], base: int = 0) -> Path:
    """A partition's folder with one segment; the .log's path."""
    meta = log_dir / "meta.properties"
    if not meta.exists():
        log_dir.mkdir(parents=True, exist_ok=True)
        meta.write_text("version=1\ncluster.id=EjRWeJCrze8SNFZ4kKvN7w\nnode.id=1\n")
    return write_segment(log_dir / name, batches, base)


def in_batches(records: Sequence[Rec], first: int = 0) -> list[bytes]:
    """Each record in a batch of its own."""
    return [batch([record], first + place) for place, record in enumerate(records)]


def snapshot_bytes(records: Sequence[Rec], timestamp: int = NOW, *, footer: bool = True) -> bytes:
    """A snapshot of the cluster metadata: a header, the records, and a footer if wanted."""
    header = encode_quorum_record(
        ControlRecordType.SNAPSHOT_HEADER, {"version": 0, "lastContainedLogTimestamp": timestamp}
    )
    end = encode_quorum_record(ControlRecordType.SNAPSHOT_FOOTER, {"version": 0})
    parts = [control_batch(ControlRecordType.SNAPSHOT_HEADER, header)]
    parts += in_batches(records, 1)
    if footer:
        parts.append(control_batch(ControlRecordType.SNAPSHOT_FOOTER, end, len(records) + 1))
    return b"".join(parts)


def write_metadata_log(log_dir: Path) -> Path:
    """A metadata log beside the partitions of a log dir, which assigns them to the node that the log dir states."""
    meta = dict(
        line.split("=", 1)
        for line in (log_dir / "meta.properties").read_text().splitlines()
        if "=" in line
    )
    node, partitions = int(meta["node.id"]), {}
    for folder in sorted(path for path in log_dir.iterdir() if path.is_dir()):
        topic, _, number = folder.name.rpartition("-")
        if number.isdigit():
            text = (folder / "partition.metadata").read_text()
            partitions.setdefault((topic, text.split()[-1]), []).append(int(number))
    records = []
    for (topic, topic_id), numbers in partitions.items():
        records.append(metadata_record("TOPIC_RECORD", name=topic, topicId=topic_id))
        for number in numbers:
            state = {"isr": [node], "leader": node, "leaderEpoch": 0, "partitionEpoch": 0}
            where = {"replicas": [node], "directories": [meta["directory.id"]]}
            records.append(
                metadata_record(
                    "PARTITION_RECORD",
                    NOW,
                    1,
                    partitionId=number,
                    topicId=topic_id,
                    **state,
                    **where,
                )
            )
    made = write_partition(log_dir, "__cluster_metadata-0", in_batches(records))
    (made.parent / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return made
