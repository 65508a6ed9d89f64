"""What admin tools are told of a cluster of three brokers, of which the source has one's log dir."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.topics.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kafkafs.api.source_logs import SourceLogs
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.admin.answers import ADMIN_ANSWERS, answer_or_error
from kafkafs.serve.handlers.refusals import REFUSALS
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.request import Request
from tests.builders import Rec, batch
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import Served, serving
from tests.kafkafs.serve.three_brokers import OTHER_ID, write_source
from tests.replayed_bytes import (
    TOPIC_ID,
    write_partition,
)

ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


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
        return connection.ask(api, api.request.last_version if version is None else version, **fields)  # fmt: skip


# Nodes


def test_nodes_have_numbers_and_racks_of_the_metadata_and_the_address_of_the_server(cluster):
    found = ask(cluster, Api.METADATA, topics=[])["brokers"]
    assert [(each["nodeId"], each["rack"]) for each in found] == [(1, "a"), (2, "b"), (3, "c")]
    assert {(each["host"], each["port"]) for each in found} == {(cluster.host, cluster.port)}
    fenced = ask(cluster, Api.DESCRIBE_CLUSTER, includeFencedBrokers=True)
    assert [each["isFenced"] for each in fenced["brokers"]] == [False, False, True]
    assert fenced["controllerId"] == 1
    plain = ask(cluster, Api.DESCRIBE_CLUSTER)["brokers"]
    assert [each["isFenced"] for each in plain] == [False, False, False]


def test_leaders_and_replicas_are_those_of_the_metadata_where_the_source_has_the_log(cluster):
    [topic] = ask(cluster, Api.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "here"}], responsePartitionLimit=9)["topics"]  # fmt: skip
    shown = [
        (each["leaderId"], each["replicaNodes"], each["isrNodes"], each["offlineReplicas"])
        for each in topic["partitions"]
    ]
    assert shown == [
        (1, [1, 2], [1, 2], []),
        (-1, [1, 2, 3], [2], [1, 2, 3]),
        (1, [1, 2], [], []),  # nobody led it when the metadata ends: it is read from broker 1's log
        (2, [1, 2], [2], []),  # it is read from broker 1's log, too
    ]
    metadata = ask(cluster, Api.METADATA, topics=[{"name": "here"}])["topics"][0]["partitions"]
    assert [(each["leaderId"], each["replicaNodes"], each["isrNodes"], each["offlineReplicas"]) for each in metadata] == shown  # fmt: skip
    assert [bool(each["errorCode"]) for each in metadata] == [False, True, False, False]


def test_topics_without_a_log_in_the_source_are_shown_without_leaders(cluster, one_broker):
    found = ask(cluster, Api.METADATA, topics=[{"name": "elsewhere"}])["topics"][0]
    assert (found["topicId"], found["errorCode"]) == (OTHER_ID, ErrorCode.NONE)
    assert [each["leaderId"] for each in found["partitions"]] == [-1]
    alone = ask(one_broker, Api.METADATA, topics=[{"name": "elsewhere"}])["topics"][0]
    assert alone["errorCode"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_broker_has_all_partitions_of_the_source(one_broker):
    found = ask(one_broker, Api.METADATA, topics=[{"name": "here"}])
    assert [each["nodeId"] for each in found["brokers"]] == [1]
    partitions = found["topics"][0]["partitions"]
    assert [(each["leaderId"], each["replicaNodes"]) for each in partitions] == [(1, [1]), (-1, []), (1, [1]), (1, [1])]  # fmt: skip


def test_moves_of_replicas_are_those_of_the_metadata(cluster, one_broker):
    [topic] = ask(cluster, Api.LIST_PARTITION_REASSIGNMENTS, topics=None)["topics"]
    assert topic == {
        "name": "here",
        "partitions": [{"partitionIndex": 1, "replicas": [1, 2, 3], "addingReplicas": [3], "removingReplicas": []}],
    }  # fmt: skip
    asked = [{"name": "here", "partitionIndexes": [0]}]
    assert ask(cluster, Api.LIST_PARTITION_REASSIGNMENTS, topics=asked)["topics"] == []
    assert ask(one_broker, Api.LIST_PARTITION_REASSIGNMENTS, topics=None)["topics"] == []


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
    whole = ask(cluster, Api.DESCRIBE_TOPIC_PARTITIONS, responsePartitionLimit=2000)
    assert whole["nextCursor"] is None
    names = [name for name, _ in names_and_numbers(whole)]
    assert names == sorted([TRANSACTION_STATE, CONSUMER_OFFSETS, SHARE_GROUP_STATE, "here", "elsewhere"])  # fmt: skip
    for limit in (1, 2, 3):
        parts: dict[str, list[int]] = {}
        cursor, turns = None, 0
        while cursor is not None or not turns:
            answer = ask(cluster, Api.DESCRIBE_TOPIC_PARTITIONS, responsePartitionLimit=limit, cursor=cursor)  # fmt: skip
            found = names_and_numbers(answer)
            assert 0 < sum(len(numbers) for _, numbers in found) <= limit
            for name, numbers in found:
                parts.setdefault(name, []).extend(numbers)
            cursor, turns = answer["nextCursor"], turns + 1
        assert list(parts.items()) == names_and_numbers(whole)


def test_topics_that_are_asked_for_have_an_error_each(cluster):
    wanted = [{"name": name} for name in ("here", "nope", "a/b")]
    found = ask(cluster, Api.DESCRIBE_TOPIC_PARTITIONS, topics=wanted, responsePartitionLimit=9)
    assert [(each["name"], each["errorCode"]) for each in found["topics"]] == [
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("here", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("cursor", [("here", -1), ("hera", 0)])
def test_a_cursor_that_no_answer_gave_is_refused(cluster, cursor):
    found = ask(
        cluster, Api.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "here"}], responsePartitionLimit=9,
        cursor={"topicName": cursor[0], "partitionIndex": cursor[1]},
    )  # fmt: skip
    assert [each["errorCode"] for each in found["topics"]] == [ErrorCode.INVALID_REQUEST]


# Log dirs, producers, transactions


def test_log_dirs_have_the_sizes_of_the_logs(cluster, source):
    [found] = ask(cluster, Api.DESCRIBE_LOG_DIRS, topics=None)["results"]
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
    [found] = ask(cluster, Api.DESCRIBE_LOG_DIRS, topics=[{"topic": "here", "partitions": [2, 5]}])["results"]  # fmt: skip
    [topic] = found["topics"]
    assert [each["partitionIndex"] for each in topic["partitions"]] == [2]


def test_a_log_that_will_take_anothers_place_is_a_future_one(source, tmp_path):
    copy = tmp_path / "data"
    future = f"here-0.{'0' * 32}-future"
    write_partition(copy, "here-0", [batch([Rec(b"v")] * 3)])
    write_partition(copy, future, [batch([Rec(b"v")])])
    write_partition(copy, f"here-0.{'1' * 32}-delete", [batch([Rec(b"v")])])
    with serving(copy, tmp_path) as served:
        [found] = ask(served, Api.DESCRIBE_LOG_DIRS, topics=None)["results"]
    partitions = found["topics"][0]["partitions"]
    assert [(each["isFutureKey"], each["offsetLag"]) for each in partitions] in (
        [(False, 0), (True, 2)],
        [(True, 2), (False, 0)],
    )


def test_producers_are_those_of_the_log(cluster):
    topics = [{"name": "here", "partitionIndexes": [0, 1]}]
    found = ask(cluster, Api.DESCRIBE_PRODUCERS, topics=topics)["topics"][0]["partitions"]
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
    found = ask(cluster, Api.LIST_TRANSACTIONS, **asked)
    assert [each["transactionalId"] for each in found["transactionStates"]] == names
    assert found["unknownStateFilters"] == ["Nope"] * ("Nope" in asked.get("stateFilters", ()))


def test_a_pattern_that_is_none_is_an_error(cluster):
    found = ask(cluster, Api.LIST_TRANSACTIONS, transactionalIdPattern="(")
    assert found["errorCode"] == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_transaction_has_its_partitions(cluster):
    names = ["pay-1", "dead", "nope"]
    found = ask(cluster, Api.DESCRIBE_TRANSACTIONS, transactionalIds=names)["transactionStates"]
    assert [each["errorCode"] for each in found] == [ErrorCode.NONE, *[ErrorCode.TRANSACTIONAL_ID_NOT_FOUND] * 2]  # fmt: skip
    assert found[0]["topics"] == [{"topic": "here", "partitions": [0, 2]}]
    assert (found[0]["transactionState"], found[0]["transactionStartTimeMs"]) == ("Ongoing", 1000)


# ACLs, credentials, quotas


def acls(served: Served, **asked: Any) -> list[tuple[int, str, int, int]]:
    fields = {"resourceTypeFilter": 1, "resourceNameFilter": None, "patternTypeFilter": 1, "principalFilter": None, "hostFilter": None, "operation": 1, "permissionType": 1}  # fmt: skip
    return [
        (each["resourceType"], each["resourceName"], each["patternType"], acl["operation"])
        for each in ask(served, Api.DESCRIBE_ACLS, **fields | asked)["resources"]
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


def test_a_filter_with_an_unknown_element_ends_the_connection_as_a_brokers_does(cluster):
    with Connection(cluster) as connection:
        connection.send(request(Api.DESCRIBE_ACLS, 3, 1, resourceTypeFilter=0))
        assert connection.is_closed


def test_credentials_are_shown_without_secrets(cluster):
    with Connection(cluster) as connection:
        found = connection.ask(Api.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None)
    assert {
        each["user"]: [(info["mechanism"], info["iterations"]) for info in each["credentialInfos"]]
        for each in found["results"]
    } == {"bob": [(1, 4096), (2, 4096)], "ann": [(1, 4096)]}
    names = [{"name": name} for name in ("nobody", "bob", "bob")]
    results = ask(cluster, Api.DESCRIBE_USER_SCRAM_CREDENTIALS, users=names)["results"]
    assert {each["user"]: each["errorCode"] for each in results} == {
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "bob": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert ask(cluster, Api.DESCRIBE_DELEGATION_TOKEN)["errorCode"] == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED  # fmt: skip


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
    found = ask(cluster, Api.DESCRIBE_CLIENT_QUOTAS, components=components, strict=strict)
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
    found = ask(cluster, Api.DESCRIBE_CLIENT_QUOTAS, components=components)
    assert (found["errorCode"], found["entries"]) == (error, None)


# The controllers, features, configurations, groups


def test_the_quorum_is_that_of_the_newest_election(cluster):
    asked = [{"topicName": "__cluster_metadata", "partitions": [{"partitionIndex": 0}]}]
    found = ask(cluster, Api.DESCRIBE_QUORUM, topics=asked)
    partition = found["topics"][0]["partitions"][0]
    assert (partition["leaderId"], partition["highWatermark"]) == (9, 101)
    assert [each["replicaId"] for each in partition["currentVoters"]] == [9]
    assert [each["logEndOffset"] for each in partition["currentVoters"]] == [-1]
    assert found["nodes"] == [{"nodeId": 9, "listeners": [{"name": "C", "host": "h", "port": 65000}]}]  # fmt: skip
    wrong = [{"topicName": "here", "partitions": [{"partitionIndex": 0}]}]
    [topic] = ask(cluster, Api.DESCRIBE_QUORUM, topics=wrong)["topics"]
    assert topic["partitions"][0]["errorCode"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("version", "supported"), [(3, ["metadata.version"]), (4, ["metadata.version", "group.version"])])  # fmt: skip
def test_features_are_those_of_the_metadata(one_broker, version, supported):
    found = ask(one_broker, Api.API_VERSIONS, version, clientSoftwareName="test", clientSoftwareVersion="1")  # fmt: skip
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
    answer = ask(cluster, Api.LIST_CONFIG_RESOURCES, version, resourceTypes=kinds)
    assert bool(answer["errorCode"]) == (77 in kinds)
    assert [(each["resourceType"], each["resourceName"]) for each in answer["configResources"]] == found  # fmt: skip


def test_settings_that_nobody_made_are_defaults(cluster):
    wanted = [{"resourceType": 2, "resourceName": "here", "configurationKeys": ["retention.ms", "cleanup.policy"]}]  # fmt: skip
    [found] = ask(cluster, Api.DESCRIBE_CONFIGS, resources=wanted)["results"]
    assert [(each["name"], each["value"], each["configSource"]) for each in found["configs"]] == [
        ("cleanup.policy", "delete", 5),
        ("retention.ms", "604800000", 5),
    ]


def test_each_shown_broker_has_settings(cluster):
    names = ["1", "3", "4"]
    wanted = [{"resourceType": 4, "resourceName": name, "configurationKeys": None} for name in names]  # fmt: skip
    found = ask(cluster, Api.DESCRIBE_CONFIGS, resources=wanted)["results"]
    assert [each["errorCode"] for each in found] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]  # fmt: skip


def test_share_and_streams_groups_are_described(cluster):
    names = ["share", "streams", "nope"]
    found = ask(cluster, Api.SHARE_GROUP_DESCRIBE, groupIds=names)["groups"]
    assert [each["errorCode"] for each in found] == [ErrorCode.NONE, *[ErrorCode.GROUP_ID_NOT_FOUND] * 2]  # fmt: skip
    assert (found[0]["groupState"], found[0]["groupEpoch"]) == ("Empty", 3)
    found = ask(cluster, Api.STREAMS_GROUP_DESCRIBE, groupIds=names)["groups"]
    assert [each["errorCode"] for each in found] == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]  # fmt: skip
    assert found[1]["topology"]["subtopologies"][0]["sourceTopics"] == ["here"]


def test_share_groups_have_start_offsets_and_lag(cluster):
    wanted = [{"groupId": "share", "topics": None}, {"groupId": "nope", "topics": None}]
    share, missing = ask(cluster, Api.DESCRIBE_SHARE_GROUP_OFFSETS, groups=wanted)["groups"]
    assert missing["errorCode"] == ErrorCode.GROUP_ID_NOT_FOUND
    [topic] = share["topics"]
    assert (topic["topicName"], topic["topicId"]) == ("here", TOPIC_ID)
    [partition] = topic["partitions"]
    assert (partition["startOffset"], partition["leaderEpoch"], partition["lag"]) == (0, 6, 1)
    wanted = [{"groupId": "share", "topics": [{"topicName": "here", "partitions": [2]}]}]
    [share] = ask(cluster, Api.DESCRIBE_SHARE_GROUP_OFFSETS, groups=wanted)["groups"]
    assert share["topics"][0]["partitions"][0]["startOffset"] == -1


def test_no_metric_is_subscribed_to(cluster):
    first = ask(cluster, Api.GET_TELEMETRY_SUBSCRIPTIONS, clientInstanceId=ZERO_ID)
    assert (first["requestedMetrics"], first["errorCode"]) == ([], ErrorCode.NONE)
    assert first["clientInstanceId"] != ZERO_ID
    again = ask(
        cluster, Api.GET_TELEMETRY_SUBSCRIPTIONS, clientInstanceId=first["clientInstanceId"]
    )
    assert again["clientInstanceId"] == first["clientInstanceId"]


# Sources of every kind


KNOWN: dict[Api, dict[str, Any]] = {
    Api.PRODUCE: {"acks": 1},
    Api.DESCRIBE_ACLS: {"resourceTypeFilter": 1, "patternTypeFilter": 1, "operation": 1, "permissionType": 1},
}  # fmt: skip
"""Fields without which there is no answer."""


def _file(folder: Path) -> Path:
    return write_partition(folder / "data", "t-0", [batch([Rec(b"v")])])


def _partition(folder: Path) -> Path:
    return _file(folder).parent


def _without_metadata(folder: Path) -> Path:
    return _partition(folder).parent


@pytest.mark.parametrize("make", [_file, _partition, _without_metadata, write_source])
def test_each_version_of_each_request_has_an_answer(tmp_path, make):
    with serving(make(tmp_path), tmp_path) as served, Connection(served) as connection:
        for api in (*ADMIN_ANSWERS, *REFUSALS, Api.DESCRIBE_CONFIGS, Api.DESCRIBE_CLUSTER):
            for version in range(api.request.first_version, api.request.last_version + 1):
                fields = KNOWN.get(api, {})
                connection.ask(api, version, **fields)
        logged = served.log.read_text()
    assert "ERROR" not in logged
    warnings = [line for line in logged.splitlines() if "WARNING" in line]
    assert all(line.endswith("refused: the server is read-only") for line in warnings)
    assert len(warnings) == len(REFUSALS)


class Unreadable:
    """A cluster whose metadata cannot be read."""

    shows_nodes = False

    def image(self) -> None:
        raise OSError(5, "Input/output error")


def test_a_source_that_cannot_be_read_is_an_error_in_the_answer():
    fields = {"components": [], "strict": False}
    cluster: Any = Unreadable()
    found = answer_or_error(Api.DESCRIBE_CLIENT_QUOTAS, cluster, Request(1, fields, "", 0))
    assert found["errorCode"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "Input/output error" in found["errorMessage"]


def test_topics_are_told_without_the_metadata_that_cannot_be_read(source, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        cluster = ClusterView(SourceLogs([str(source)]))
        patched.setattr(ClusterView, "image", Unreadable.image)
        assert cluster.missing(cluster.topics()["here"]) == [1]
