"""The log dir of broker 1 of three, with the metadata of the cluster."""

from __future__ import annotations

from pathlib import Path

from engine.record.control_records import ControlRecordType
from engine.record.encoding.quorum_records import encode_quorum_record
from engine.topics.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from tests.builders import Rec, batch, control_batch
from tests.replayed_bytes import (
    TOPIC_ID,
    group_record,
    in_batches,
    metadata_record,
    share_group,
    share_snapshot,
    topic_records,
    transaction_record,
    write_partition,
)

OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FEATURES = [
    {"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 30},
    {"name": "group.version", "minSupportedVersion": 0, "maxSupportedVersion": 1},
]


def _broker(number: int, rack: str) -> Rec:
    return metadata_record(
        "REGISTER_BROKER_RECORD", version=3, brokerId=number, brokerEpoch=number,
        incarnationId=TOPIC_ID, endPoints=[], features=FEATURES, rack=rack, fenced=number == 3,
    )  # fmt: skip


def _acl(number: int, kind: int, name: str, pattern: int, operation: int) -> Rec:
    return metadata_record(
        "ACCESS_CONTROL_ENTRY_RECORD", id=f"{'A' * 21}{'gwQA'[number]}", resourceType=kind,
        resourceName=name, patternType=pattern, principal="User:bob", host="*",
        operation=operation, permissionType=3,
    )  # fmt: skip


def _quota(key: str, value: float, **entity: str | None) -> Rec:
    parts = [{"entityType": kind.replace("_", "-"), "entityName": name} for kind, name in entity.items()]  # fmt: skip
    return metadata_record("CLIENT_QUOTA_RECORD", entity=parts, key=key, value=value, remove=False)


def _user(name: str, mechanism: int) -> Rec:
    return metadata_record(
        "USER_SCRAM_CREDENTIAL_RECORD", name=name, mechanism=mechanism, iterations=4096,
        salt=b"secret-salt", storedKey=b"secret-key", serverKey=b"secret-key",
    )  # fmt: skip


def _metadata() -> list[Rec]:
    moved = {"partitionId": 1, "topicId": TOPIC_ID, "version": 0}
    return [
        _broker(1, "a"), _broker(2, "b"), _broker(3, "c"),
        *topic_records("here", TOPIC_ID, 4),
        metadata_record("PARTITION_CHANGE_RECORD", **moved, leader=2, isr=[2], addingReplicas=[3],
                        replicas=[1, 2, 3]),
        metadata_record("PARTITION_CHANGE_RECORD", partitionId=2, topicId=TOPIC_ID, leader=-1,
                        isr=[]),
        metadata_record("PARTITION_CHANGE_RECORD", partitionId=3, topicId=TOPIC_ID, leader=2,
                        isr=[2]),
        *topic_records("elsewhere", OTHER_ID, 1),
        _acl(0, 2, "orders", 3, 3), _acl(1, 2, "or", 4, 4), _acl(2, 2, "*", 3, 8), _acl(3, 3, "orders", 3, 3),
        _quota("producer_byte_rate", 5.5, user="bob"), _quota("consumer_byte_rate", 7.0, user=None),
        _quota("request_percentage", 50.0, user="bob", client_id="c"),
        _user("bob", 1), _user("bob", 2), _user("ann", 1),
        metadata_record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=29),
        metadata_record("CONFIG_RECORD", resourceType=32, resourceName="g", name="x", value="1"),
        metadata_record("CONFIG_RECORD", resourceType=16, resourceName="m", name="y", value="1"),
        metadata_record("REGISTER_CONTROLLER_RECORD", controllerId=9, incarnationId=TOPIC_ID,
                        endPoints=[{"name": "C", "host": "h", "port": 65000, "securityProtocol": 0}],
                        features=[]),
    ]  # fmt: skip


def _elected() -> bytes:
    facts = {"version": 0, "leaderId": 9, "voters": [{"voterId": 9}], "grantingVoters": [{"voterId": 9}]}  # fmt: skip
    value = encode_quorum_record(ControlRecordType.LEADER_CHANGE, facts)
    return control_batch(ControlRecordType.LEADER_CHANGE, value, base_offset=100)


TOPOLOGY = {"subtopologyId": "0", "sourceTopics": ["here"], "sourceTopicRegex": [], "stateChangelogTopics": [], "repartitionSinkTopics": [], "repartitionSourceTopics": [], "copartitionGroups": []}  # fmt: skip


def write_source(folder: Path) -> Path:
    """The log dir of broker 1."""
    source = folder / "data"
    write_partition(source, "__cluster_metadata-0", [*in_batches(_metadata()), _elected()])
    for number in (0, 2, 3):
        path = write_partition(source, f"here-{number}", [batch([Rec(b"v")], producer_id=7, producer_epoch=1, base_sequence=5)])  # fmt: skip
        (path.parent / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")
    topics = [{"topic": "here", "partitionIds": [0, 2]}]
    write_partition(source, f"{TRANSACTION_STATE}-0", in_batches([
        transaction_record("pay-1", producerId=7, producerEpoch=1, transactionStatus=1, transactionTimeoutMs=60_000,
                           transactionPartitions=topics, transactionStartTimestampMs=1000),
        transaction_record("pay-2", producerId=8, producerEpoch=0, transactionStatus=4, transactionTimeoutMs=60_000,
                           transactionPartitions=[], transactionStartTimestampMs=-1),
        transaction_record("dead", producerId=9, producerEpoch=0, transactionStatus=6, transactionTimeoutMs=1,
                           transactionPartitions=[], transactionStartTimestampMs=-1),
    ]))  # fmt: skip
    write_partition(source, f"{CONSUMER_OFFSETS}-0", in_batches([
        group_record(11, {"groupId": "share"}, {"epoch": 3}), share_group("share", {TOPIC_ID: ("here", [0])}),
        group_record(17, {"groupId": "streams"}, {"epoch": 4, "metadataHash": 1}),
        group_record(23, {"groupId": "streams"}, {"epoch": 2, "subtopologies": [TOPOLOGY]}),
    ]))  # fmt: skip
    write_partition(source, f"{SHARE_GROUP_STATE}-0", in_batches([
        share_snapshot("share", 0, startOffset=0, leaderEpoch=6, deliveryCompleteCount=0)
    ]))  # fmt: skip
    return source
