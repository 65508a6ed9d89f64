"""What admin tools are told of a cluster of three brokers, of which the source has one's log dir."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.record.control_records import ControlRecordType
from engine.topics.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from engine.writing.records.quorum_records import encode_quorum_record
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.messages.acls import DESCRIBE_ACLS
from kafkafs.serve.protocol.messages.cluster import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC_PARTITIONS,
    METADATA,
)
from kafkafs.serve.protocol.messages.configs import DESCRIBE_CONFIGS, LIST_CONFIG_RESOURCES
from kafkafs.serve.protocol.messages.credentials import (
    DESCRIBE_DELEGATION_TOKEN,
    DESCRIBE_USER_SCRAM_CREDENTIALS,
)
from kafkafs.serve.protocol.messages.groups.share_groups import SHARE_GROUP_DESCRIBE
from kafkafs.serve.protocol.messages.groups.share_offsets import DESCRIBE_SHARE_GROUP_OFFSETS
from kafkafs.serve.protocol.messages.groups.streams_groups import STREAMS_GROUP_DESCRIBE
from kafkafs.serve.protocol.messages.producers import DESCRIBE_PRODUCERS
from kafkafs.serve.protocol.messages.quorum import DESCRIBE_QUORUM
from kafkafs.serve.protocol.messages.quotas import (
    DESCRIBE_CLIENT_QUOTAS,
    GET_TELEMETRY_SUBSCRIPTIONS,
)
from kafkafs.serve.protocol.messages.replicas import DESCRIBE_LOG_DIRS, LIST_PARTITION_REASSIGNMENTS
from kafkafs.serve.protocol.messages.transactions import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from tests.builders import Rec, batch, control_batch
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import Served, serving
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
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
FEATURES = [
    {"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": 30},
    {"name": "group.version", "minSupportedVersion": 0, "maxSupportedVersion": 1},
]


def broker(number: int, rack: str) -> Rec:
    return metadata_record(
        "REGISTER_BROKER_RECORD", version=3, brokerId=number, brokerEpoch=number,
        incarnationId=TOPIC_ID, endPoints=[], features=FEATURES, rack=rack, fenced=number == 3,
    )  # fmt: skip


def acl(number: int, kind: int, name: str, pattern: int, operation: int) -> Rec:
    return metadata_record(
        "ACCESS_CONTROL_ENTRY_RECORD", id=f"{'A' * 21}{'gwQA'[number]}", resourceType=kind,
        resourceName=name, patternType=pattern, principal="User:bob", host="*",
        operation=operation, permissionType=3,
    )  # fmt: skip


def quota(key: str, value: float, **entity: str | None) -> Rec:
    parts = [{"entityType": kind.replace("_", "-"), "entityName": name} for kind, name in entity.items()]  # fmt: skip
    return metadata_record("CLIENT_QUOTA_RECORD", entity=parts, key=key, value=value, remove=False)


def user(name: str, mechanism: int) -> Rec:
    return metadata_record(
        "USER_SCRAM_CREDENTIAL_RECORD", name=name, mechanism=mechanism, iterations=4096,
        salt=b"secret-salt", storedKey=b"secret-key", serverKey=b"secret-key",
    )  # fmt: skip


def metadata() -> list[Rec]:
    moved = {"partitionId": 1, "topicId": TOPIC_ID, "version": 0}
    return [
        broker(1, "a"), broker(2, "b"), broker(3, "c"),
        *topic_records("here", TOPIC_ID, 3),
        metadata_record("PARTITION_CHANGE_RECORD", **moved, leader=2, isr=[2], addingReplicas=[3],
                        replicas=[1, 2, 3]),
        metadata_record("PARTITION_CHANGE_RECORD", partitionId=2, topicId=TOPIC_ID, leader=-1,
                        isr=[]),
        *topic_records("elsewhere", OTHER_ID, 1),
        acl(0, 2, "orders", 3, 3), acl(1, 2, "or", 4, 4), acl(2, 2, "*", 3, 8), acl(3, 3, "orders", 3, 3),
        quota("producer_byte_rate", 5.5, user="bob"), quota("consumer_byte_rate", 7.0, user=None),
        quota("request_percentage", 50.0, user="bob", client_id="c"),
        user("bob", 1), user("bob", 2), user("ann", 1),
        metadata_record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=29),
        metadata_record("CONFIG_RECORD", resourceType=32, resourceName="g", name="x", value="1"),
        metadata_record("CONFIG_RECORD", resourceType=16, resourceName="m", name="y", value="1"),
        metadata_record("REGISTER_CONTROLLER_RECORD", controllerId=9, incarnationId=TOPIC_ID,
                        endPoints=[{"name": "C", "host": "h", "port": 65000, "securityProtocol": 0}],
                        features=[]),
    ]  # fmt: skip


def elected() -> bytes:
    facts = {"version": 0, "leaderId": 9, "voters": [{"voterId": 9}], "grantingVoters": [{"voterId": 9}]}  # fmt: skip
    value = encode_quorum_record(ControlRecordType.LEADER_CHANGE, facts)
    return control_batch(ControlRecordType.LEADER_CHANGE, value, base_offset=100)


TOPOLOGY = {"subtopologyId": "0", "sourceTopics": ["here"], "sourceTopicRegex": [], "stateChangelogTopics": [], "repartitionSinkTopics": [], "repartitionSourceTopics": [], "copartitionGroups": []}  # fmt: skip


def write_source(folder: Path) -> Path:
    """The log dir of broker 1."""
    source = folder / "data"
    write_partition(source, "__cluster_metadata-0", [*in_batches(metadata()), elected()])
    for number in (0, 2):
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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def cluster(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(source, tmp_path_factory.mktemp("log"), "--nodes") as found:
        yield found


@pytest.fixture(scope="module")
def one_broker(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(source, tmp_path_factory.mktemp("log")) as found:
        yield found


def ask(served: Served, api: Api, version: int | None = None, **fields: Any) -> dict[str, Any]:
    """The answer to one request, by default in the newest version."""
    with Connection(served) as connection:
        return connection.ask(api.key, api.request.last_version if version is None else version, **fields)  # fmt: skip


# Nodes


def test_nodes_have_numbers_and_racks_of_the_metadata_and_the_address_of_the_server(cluster):
    found = ask(cluster, METADATA, topics=[])["brokers"]
    assert [(each["nodeId"], each["rack"]) for each in found] == [(1, "a"), (2, "b"), (3, "c")]
    assert {(each["host"], each["port"]) for each in found} == {(cluster.host, cluster.port)}
    fenced = ask(cluster, DESCRIBE_CLUSTER, includeFencedBrokers=True)
    assert [each["isFenced"] for each in fenced["brokers"]] == [False, False, True]
    assert fenced["controllerId"] == 1
    plain = ask(cluster, DESCRIBE_CLUSTER)["brokers"]
    assert [each["isFenced"] for each in plain] == [False, False, False]


def test_leaders_and_replicas_are_those_of_the_metadata_where_the_source_has_the_log(cluster):
    [topic] = ask(cluster, DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "here"}], responsePartitionLimit=9)["topics"]  # fmt: skip
    shown = [
        (each["leaderId"], each["replicaNodes"], each["isrNodes"], each["offlineReplicas"])
        for each in topic["partitions"]
    ]
    assert shown == [
        (1, [1, 2], [1, 2], []),
        (-1, [1, 2, 3], [2], [1, 2, 3]),
        (1, [1, 2], [], []),  # nobody led it when the metadata ends: it is read from broker 1's log
    ]
    metadata = ask(cluster, METADATA, topics=[{"name": "here"}])["topics"][0]["partitions"]
    assert [(each["leaderId"], each["replicaNodes"], each["isrNodes"], each["offlineReplicas"]) for each in metadata] == shown  # fmt: skip
    assert [bool(each["errorCode"]) for each in metadata] == [False, True, False]


def test_topics_without_a_log_in_the_source_are_shown_without_leaders(cluster, one_broker):
    found = ask(cluster, METADATA, topics=[{"name": "elsewhere"}])["topics"][0]
    assert (found["topicId"], found["errorCode"]) == (OTHER_ID, ErrorCode.NONE)
    assert [each["leaderId"] for each in found["partitions"]] == [-1]
    alone = ask(one_broker, METADATA, topics=[{"name": "elsewhere"}])["topics"][0]
    assert alone["errorCode"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_broker_has_all_partitions_of_the_source(one_broker):
    found = ask(one_broker, METADATA, topics=[{"name": "here"}])
    assert [each["nodeId"] for each in found["brokers"]] == [1]
    partitions = found["topics"][0]["partitions"]
    assert [(each["leaderId"], each["replicaNodes"]) for each in partitions] == [(1, [1]), (-1, []), (1, [1])]  # fmt: skip


def test_moves_of_replicas_are_those_of_the_metadata(cluster, one_broker):
    [topic] = ask(cluster, LIST_PARTITION_REASSIGNMENTS, topics=None)["topics"]
    assert topic == {
        "name": "here",
        "partitions": [{"partitionIndex": 1, "replicas": [1, 2, 3], "addingReplicas": [3], "removingReplicas": []}],
    }  # fmt: skip
    asked = [{"name": "here", "partitionIndexes": [0]}]
    assert ask(cluster, LIST_PARTITION_REASSIGNMENTS, topics=asked)["topics"] == []
    assert ask(one_broker, LIST_PARTITION_REASSIGNMENTS, topics=None)["topics"] == []


def test_nodes_need_the_metadata_of_the_cluster(tmp_path):
    source = tmp_path / "data"
    write_partition(source, "t-0", [batch([Rec(b"v")])])
    refused = pytest.raises(AssertionError, match="no metadata of the cluster")
    with refused, serving(source, tmp_path, "--nodes"):
        pass


# Topics in parts


def names_and_numbers(answer: dict[str, Any]) -> list[tuple[str, list[int]]]:
    return [
        (topic["name"], [each["partitionIndex"] for each in topic["partitions"]])
        for topic in answer["topics"]
    ]


def test_partitions_are_described_in_parts_that_add_up_to_all(cluster):
    whole = ask(cluster, DESCRIBE_TOPIC_PARTITIONS, responsePartitionLimit=2000)
    assert whole["nextCursor"] is None
    names = [name for name, _ in names_and_numbers(whole)]
    assert names == sorted([TRANSACTION_STATE, CONSUMER_OFFSETS, SHARE_GROUP_STATE, "here", "elsewhere"])  # fmt: skip
    for limit in (1, 2, 3):
        parts: dict[str, list[int]] = {}
        cursor, turns = None, 0
        while cursor is not None or not turns:
            answer = ask(cluster, DESCRIBE_TOPIC_PARTITIONS, responsePartitionLimit=limit, cursor=cursor)  # fmt: skip
            found = names_and_numbers(answer)
            assert 0 < sum(len(numbers) for _, numbers in found) <= limit
            for name, numbers in found:
                parts.setdefault(name, []).extend(numbers)
            cursor, turns = answer["nextCursor"], turns + 1
        assert list(parts.items()) == names_and_numbers(whole)


def test_topics_that_are_asked_for_have_an_error_each(cluster):
    wanted = [{"name": name} for name in ("here", "nope", "a/b")]
    found = ask(cluster, DESCRIBE_TOPIC_PARTITIONS, topics=wanted, responsePartitionLimit=9)
    assert [(each["name"], each["errorCode"]) for each in found["topics"]] == [
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("here", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("cursor", [("here", -1), ("hera", 0)])
def test_a_cursor_that_no_answer_gave_is_refused(cluster, cursor):
    found = ask(
        cluster, DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "here"}], responsePartitionLimit=9,
        cursor={"topicName": cursor[0], "partitionIndex": cursor[1]},
    )  # fmt: skip
    assert [each["errorCode"] for each in found["topics"]] == [ErrorCode.INVALID_REQUEST]


# Log dirs, producers, transactions


def test_log_dirs_have_the_sizes_of_the_logs(cluster, source):
    [found] = ask(cluster, DESCRIBE_LOG_DIRS, topics=None)["results"]
    assert (found["logDir"], found["errorCode"]) == (str(source), ErrorCode.NONE)
    assert found["totalBytes"] >= found["usableBytes"] > 0
    sizes = {
        f"{topic['name']}-{each['partitionIndex']}": each["partitionSize"]
        for topic in found["topics"]
        for each in topic["partitions"]
    }
    files = {path.parent.name: path.stat().st_size for path in source.glob("*/*.log")}
    del files["__cluster_metadata-0"]
    assert sizes == files
    [found] = ask(cluster, DESCRIBE_LOG_DIRS, topics=[{"topic": "here", "partitions": [2, 5]}])["results"]  # fmt: skip
    [topic] = found["topics"]
    assert [each["partitionIndex"] for each in topic["partitions"]] == [2]


def test_a_log_that_will_take_anothers_place_is_a_future_one(source, tmp_path):
    copy = tmp_path / "data"
    future = f"here-0.{'0' * 32}-future"
    write_partition(copy, "here-0", [batch([Rec(b"v")] * 3)])
    write_partition(copy, future, [batch([Rec(b"v")])])
    write_partition(copy, f"here-0.{'1' * 32}-delete", [batch([Rec(b"v")])])
    with serving(copy, tmp_path) as served:
        [found] = ask(served, DESCRIBE_LOG_DIRS, topics=None)["results"]
    partitions = found["topics"][0]["partitions"]
    assert [(each["isFutureKey"], each["offsetLag"]) for each in partitions] in (
        [(False, 0), (True, 2)],
        [(True, 2), (False, 0)],
    )


def test_producers_are_those_of_the_log(cluster):
    topics = [{"name": "here", "partitionIndexes": [0, 1]}]
    found = ask(cluster, DESCRIBE_PRODUCERS, topics=topics)["topics"][0]["partitions"]
    assert [each["errorCode"] for each in found] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]  # fmt: skip
    [producer] = found[0]["activeProducers"]
    assert (producer["producerId"], producer["producerEpoch"], producer["lastSequence"]) == (7, 1, 5)  # fmt: skip
    assert producer["currentTxnStartOffset"] == -1


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["pay-1", "pay-2"]),
        ({"stateFilters": ["Ongoing", "Nope"]}, ["pay-1"]),
        ({"stateFilters": ["Nope"]}, []),
        ({"producerIdFilters": [8]}, ["pay-2"]),
        ({"transactionalIdPattern": "pay-[2-9]"}, ["pay-2"]),
        ({"transactionalIdPattern": "(a*)*b"}, []),
        ({"durationFilter": 2**62}, []),
    ],
)
def test_transactions_are_listed_as_far_as_filters_let_them_through(cluster, asked, names):
    found = ask(cluster, LIST_TRANSACTIONS, **asked)
    assert [each["transactionalId"] for each in found["transactionStates"]] == names
    assert found["unknownStateFilters"] == ["Nope"] * ("Nope" in asked.get("stateFilters", ()))


def test_a_pattern_that_is_none_is_an_error(cluster):
    found = ask(cluster, LIST_TRANSACTIONS, transactionalIdPattern="(")
    assert found["errorCode"] == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_has_its_partitions(cluster):
    names = ["pay-1", "dead", "nope"]
    found = ask(cluster, DESCRIBE_TRANSACTIONS, transactionalIds=names)["transactionStates"]
    assert [each["errorCode"] for each in found] == [ErrorCode.NONE, *[ErrorCode.TRANSACTIONAL_ID_NOT_FOUND] * 2]  # fmt: skip
    assert found[0]["topics"] == [{"topic": "here", "partitions": [0, 2]}]
    assert (found[0]["transactionState"], found[0]["transactionStartTimeMs"]) == ("Ongoing", 1000)


# ACLs, credentials, quotas


def acls(served: Served, **asked: Any) -> list[tuple[int, str, int, int]]:
    fields = {"resourceTypeFilter": 1, "resourceNameFilter": None, "patternTypeFilter": 1, "principalFilter": None, "hostFilter": None, "operation": 1, "permissionType": 1}  # fmt: skip
    return [
        (each["resourceType"], each["resourceName"], each["patternType"], acl["operation"])
        for each in ask(served, DESCRIBE_ACLS, **fields | asked)["resources"]
        for acl in each["acls"]
    ]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, ["*", "or", "orders", "orders"]),
        ({"resourceTypeFilter": 3}, ["orders"]),
        ({"resourceTypeFilter": 2, "resourceNameFilter": "orders"}, ["orders"]),
        (
            {"resourceTypeFilter": 2, "resourceNameFilter": "orders", "patternTypeFilter": 2},
            ["*", "or", "orders"],
        ),
        ({"patternTypeFilter": 4}, ["or"]),
        ({"operation": 8}, ["*"]),
        ({"principalFilter": "User:ann"}, []),
        ({"permissionType": 2}, []),
        ({"hostFilter": "*"}, ["*", "or", "orders", "orders"]),
    ],
)
def test_acls_are_those_of_the_metadata_that_a_filter_lets_through(cluster, asked, names):
    assert [name for _, name, _, _ in acls(cluster, **asked)] == names


def test_a_filter_with_an_unknown_element_is_refused(cluster):
    assert ask(cluster, DESCRIBE_ACLS, resourceTypeFilter=0)["errorCode"] == ErrorCode.INVALID_REQUEST  # fmt: skip


def test_credentials_are_shown_without_secrets(cluster):
    with Connection(cluster) as connection:
        found = connection.ask(DESCRIBE_USER_SCRAM_CREDENTIALS.key, 0, users=None)
    assert {
        each["user"]: [(info["mechanism"], info["iterations"]) for info in each["credentialInfos"]]
        for each in found["results"]
    } == {"bob": [(1, 4096), (2, 4096)], "ann": [(1, 4096)]}
    names = [{"name": name} for name in ("nobody", "bob", "bob")]
    results = ask(cluster, DESCRIBE_USER_SCRAM_CREDENTIALS, users=names)["results"]
    assert {each["user"]: each["errorCode"] for each in results} == {
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "bob": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert ask(cluster, DESCRIBE_DELEGATION_TOKEN)["errorCode"] == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED  # fmt: skip


def component(kind: str, match: int, name: str | None = None) -> dict[str, Any]:
    return {"entityType": kind, "matchType": match, "match": name}


@pytest.mark.parametrize(
    ("components", "strict", "values"),
    [
        ([], False, [5.5, 7.0, 50.0]),
        ([component("user", 0, "bob")], False, [5.5, 50.0]),
        ([component("user", 0, "bob")], True, [5.5]),
        ([component("user", 1)], True, [7.0]),
        ([component("user", 2), component("client-id", 2)], True, [50.0]),
        ([component("ip", 2)], False, []),
    ],
)
def test_quotas_are_those_of_the_metadata_that_a_filter_lets_through(cluster, components, strict, values):  # fmt: skip
    found = ask(cluster, DESCRIBE_CLIENT_QUOTAS, components=components, strict=strict)
    assert [each["values"][0]["value"] for each in found["entries"]] == values


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([component("", 2)], ErrorCode.INVALID_REQUEST),
        ([component("user", 2), component("user", 1)], ErrorCode.INVALID_REQUEST),
        ([component("user", 0)], ErrorCode.INVALID_REQUEST),
        ([component("user", 9)], ErrorCode.INVALID_REQUEST),
        ([component("user", 2), component("ip", 2)], ErrorCode.INVALID_REQUEST),
        ([component("shoe-size", 2)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_filter_of_quotas_that_a_broker_refuses_is_refused(cluster, components, error):
    found = ask(cluster, DESCRIBE_CLIENT_QUOTAS, components=components)
    assert (found["errorCode"], found["entries"]) == (error, None)


# The controllers, features, configurations, groups


def test_the_quorum_is_that_of_the_newest_election(cluster):
    asked = [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]
    found = ask(cluster, DESCRIBE_QUORUM, topics=asked)
    partition = found["topics"][0]["partitions"][0]
    assert (partition["leaderId"], partition["highWatermark"]) == (9, 101)
    assert [each["replicaId"] for each in partition["currentVoters"]] == [9]
    assert [each["logEndOffset"] for each in partition["currentVoters"]] == [-1]
    assert found["nodes"] == [{"nodeId": 9, "listeners": [{"name": "C", "host": "h", "port": 65000}]}]  # fmt: skip
    wrong = [{"topicName": "here", "partitions": [{"partitionIndex": 0}]}]
    assert ask(cluster, DESCRIBE_QUORUM, topics=wrong)["errorCode"] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "supported"), [(3, ["metadata.version"]), (4, ["metadata.version", "group.version"])])  # fmt: skip
def test_features_are_those_of_the_metadata(one_broker, version, supported):
    found = ask(one_broker, API_VERSIONS, version, clientSoftwareName="test", clientSoftwareVersion="1")  # fmt: skip
    assert [each["name"] for each in found["supportedFeatures"]] == supported
    assert [(each["name"], each["maxVersionLevel"]) for each in found["finalizedFeatures"]] == [("metadata.version", 29)]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "kinds", "found"),
    [
        (0, [], [(16, "m")]),
        (1, [16], [(16, "m")]),
        (1, [32, 4], [(32, "g"), (4, "1"), (4, "2"), (4, "3")]),
        (1, [77], []),
    ],
)
def test_resources_with_configurations_are_listed(cluster, version, kinds, found):
    answer = ask(cluster, LIST_CONFIG_RESOURCES, version, resourceTypes=kinds)
    assert bool(answer["errorCode"]) == (77 in kinds)
    assert [(each["resourceType"], each["resourceName"]) for each in answer["configResources"]] == found  # fmt: skip


def test_settings_that_nobody_made_are_defaults(cluster):
    wanted = [{"resourceType": 2, "resourceName": "here", "configurationKeys": ["retention.ms", "cleanup.policy"]}]  # fmt: skip
    [found] = ask(cluster, DESCRIBE_CONFIGS, resources=wanted)["results"]
    assert [(each["name"], each["value"], each["configSource"]) for each in found["configs"]] == [
        ("cleanup.policy", "delete", 5),
        ("retention.ms", "604800000", 5),
    ]


def test_each_shown_broker_has_settings(cluster):
    names = ["1", "3", "4"]
    wanted = [{"resourceType": 4, "resourceName": name, "configurationKeys": None} for name in names]  # fmt: skip
    found = ask(cluster, DESCRIBE_CONFIGS, resources=wanted)["results"]
    assert [each["errorCode"] for each in found] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]  # fmt: skip


def test_share_and_streams_groups_are_described(cluster):
    names = ["share", "streams", "nope"]
    found = ask(cluster, SHARE_GROUP_DESCRIBE, groupIds=names)["groups"]
    assert [each["errorCode"] for each in found] == [ErrorCode.NONE, *[ErrorCode.GROUP_ID_NOT_FOUND] * 2]  # fmt: skip
    assert (found[0]["groupState"], found[0]["groupEpoch"]) == ("Empty", 3)
    found = ask(cluster, STREAMS_GROUP_DESCRIBE, groupIds=names)["groups"]
    assert [each["errorCode"] for each in found] == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]  # fmt: skip
    assert found[1]["topology"]["subtopologies"][0]["sourceTopics"] == ["here"]


def test_share_groups_have_start_offsets_and_lag(cluster):
    wanted = [{"groupId": "share", "topics": None}, {"groupId": "nope", "topics": None}]
    share, missing = ask(cluster, DESCRIBE_SHARE_GROUP_OFFSETS, groups=wanted)["groups"]
    assert missing["errorCode"] == ErrorCode.GROUP_ID_NOT_FOUND
    [topic] = share["topics"]
    assert (topic["topicName"], topic["topicId"]) == ("here", TOPIC_ID)
    [partition] = topic["partitions"]
    assert (partition["startOffset"], partition["leaderEpoch"], partition["lag"]) == (0, 6, 1)
    wanted = [{"groupId": "share", "topics": [{"topicName": "here", "partitions": [2]}]}]
    [share] = ask(cluster, DESCRIBE_SHARE_GROUP_OFFSETS, groups=wanted)["groups"]
    assert share["topics"][0]["partitions"][0]["startOffset"] == -1


def test_no_metric_is_subscribed_to(cluster):
    first = ask(cluster, GET_TELEMETRY_SUBSCRIPTIONS, clientInstanceId=ZERO_ID)
    assert (first["requestedMetrics"], first["errorCode"]) == ([], ErrorCode.NONE)
    assert first["clientInstanceId"] != ZERO_ID
    again = ask(cluster, GET_TELEMETRY_SUBSCRIPTIONS, clientInstanceId=first["clientInstanceId"])
    assert again["clientInstanceId"] == first["clientInstanceId"]
