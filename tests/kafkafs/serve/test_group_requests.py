"""Requests of groups on the wire: in every version, with the groups on disk below, and within limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkafs.serve.protocol.api import Api
from tests.fixtures_data import log_dir
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import Served, serving

OFFSET_COMMIT, OFFSET_FETCH, JOIN, HEARTBEAT, LEAVE, SYNC = 8, 9, 11, 12, 13, 14
DESCRIBE_GROUPS, LIST_GROUPS, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 15, 16, 68, 69
ZERO_ID = "A" * 22


def versions(key: int) -> range:
    """All versions of an API."""
    request = Api(key).request
    return range(request.first_version, request.last_version + 1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(log_dir("current"), tmp_path_factory.mktemp("log")) as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[Connection]:
    with Connection(served) as found:
        yield found


@pytest.fixture(scope="module")
def topic_id(served: Served) -> str:
    with Connection(served) as connection:
        answer = connection.ask(3, 12, topics=[{"name": "orders", "topicId": ZERO_ID}])
    return str(answer["topics"][0]["topicId"])


def join(
    client: Connection, group: str, version: int, member: str = "", **fields: Any
) -> dict[str, Any]:
    given = {
        "groupId": group, "sessionTimeoutMs": 6000, "rebalanceTimeoutMs": 6000, "memberId": member,
        "groupInstanceId": None, "protocolType": "consumer", "protocols": [{"name": "range", "metadata": b"topics"}],
    }  # fmt: skip
    return client.ask(JOIN, version, **given | fields)


def commit(client: Connection, version: int, group: str, *, topic: str = "orders", topic_id: str = ZERO_ID,
           partition: int = 0, offset: int = 7, metadata: str | None = "mine", **fields: Any) -> list[int]:  # fmt: skip
    """OffsetCommit of one partition; returns the errors."""
    committed = {
        "partitionIndex": partition, "committedOffset": offset, "committedLeaderEpoch": 3, "committedMetadata": metadata,
    }  # fmt: skip
    given = {
        "groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "groupInstanceId": None,
        "retentionTimeMs": -1, "topics": [{"name": topic, "topicId": topic_id, "partitions": [committed]}],
    }  # fmt: skip
    answer = client.ask(OFFSET_COMMIT, version, **given | fields)
    return [each["errorCode"] for found in answer["topics"] for each in found["partitions"]]


def fetched(client: Connection, version: int, group: str, topic_id: str = ZERO_ID, topics: Any = (), **fields: Any) -> dict[str, Any]:  # fmt: skip
    """OffsetFetch of a group; the answer for it alone."""
    if topics == ():
        topics = [{"name": "orders", "topicId": topic_id, "partitionIndexes": [0, 1]}]
    if version < 8:
        topics = topics and [
            {key: each[key] for key in ("name", "partitionIndexes")} for each in topics
        ]
        return client.ask(OFFSET_FETCH, version, groupId=group, topics=topics)
    wanted = {"groupId": group, "memberId": None, "memberEpoch": -1, "topics": topics} | fields
    return dict(client.ask(OFFSET_FETCH, version, groups=[wanted])["groups"][0])


def described(client: Connection, group: str) -> dict[str, Any]:
    """DescribeGroups of one group."""
    return dict(client.ask(DESCRIBE_GROUPS, 6, groups=[group])["groups"][0])


def beat(
    client: Connection, group: str, epoch: int, version: int = 1, **fields: Any
) -> dict[str, Any]:
    given = {
        "groupId": group, "memberId": "me", "memberEpoch": epoch, "instanceId": None, "rackId": None,
        "rebalanceTimeoutMs": 6000, "subscribedTopicNames": ["orders"], "subscribedTopicRegex": None,
        "serverAssignor": None, "topicPartitions": [],
    }  # fmt: skip
    return client.ask(CONSUMER_HEARTBEAT, version, **given | fields)


# The classic protocol


@pytest.mark.parametrize("version", versions(JOIN))
def test_a_member_joins_syncs_lives_and_leaves_in_every_version(client, version):
    group = f"classic {version}"
    joined = join(client, group, version)
    if version >= 4:
        assert joined["errorCode"] == 79
        joined = join(client, group, version, joined["memberId"])
    member = joined["memberId"]
    assert (joined["errorCode"], joined["generationId"], joined["leader"]) == (0, 1, member)
    assert (joined["protocolName"], len(joined["members"])) == ("range", 1)
    assignment = [{"memberId": member, "assignment": b"all"}]
    me = {"groupId": group, "generationId": 1, "memberId": member, "groupInstanceId": None}
    stated = {"protocolType": "consumer", "protocolName": "range", "assignments": assignment}
    unstated = stated | {"protocolName": None}
    if version >= 5:
        assert client.ask(SYNC, 5, **me, **unstated)["errorCode"] == 23
    synced = client.ask(SYNC, min(version, 5), **me, **stated)
    assert (synced["errorCode"], synced["assignment"]) == (0, b"all")
    assert client.ask(HEARTBEAT, min(version, 4), **me)["errorCode"] == 0
    found = described(client, group)
    assert (found["groupState"], found["protocolData"]) == ("Stable", "range")
    (shown,) = found["members"]
    assert (shown["memberId"], shown["clientId"], shown["clientHost"]) == (
        member,
        "test",
        "/127.0.0.1",
    )
    assert (shown["memberMetadata"], shown["memberAssignment"]) == (b"topics", b"all")
    leaving = {
        "groupId": group,
        "memberId": member,
        "members": [{"memberId": member, "groupInstanceId": None}],
    }
    left = client.ask(LEAVE, min(version, 5), **leaving)
    assert left["errorCode"] == 0
    assert all(each["errorCode"] == 0 for each in left["members"])
    assert described(client, group)["groupState"] == "Empty"


@pytest.mark.parametrize(("fields", "error"), [
    ({"groupId": ""}, 24), ({"sessionTimeoutMs": 5999}, 26), ({"sessionTimeoutMs": 1_800_001}, 26),
    ({"protocols": []}, 23), ({"protocolType": ""}, 23), ({"memberId": "ghost"}, 25),
])  # fmt: skip
def test_a_member_that_cannot_join_is_told_why(client, fields, error):
    assert join(client, "new", 9, **fields)["errorCode"] == error


def test_a_group_without_a_name_has_no_members(client):
    me = {"groupId": "", "generationId": 1, "memberId": "me"}
    assert client.ask(HEARTBEAT, 2, **me)["errorCode"] == 24
    assert client.ask(SYNC, 2, **me)["errorCode"] == 24
    assert client.ask(LEAVE, 2, groupId="", memberId="me")["errorCode"] == 24


def test_huge_requests_of_members_are_refused_and_cost_nothing_afterwards(served, client):
    before = served.resident_bytes()
    many = [{"name": str(number), "metadata": b""} for number in range(20_000)]
    big = [{"name": "range", "metadata": b"x" * (3 << 20)}]
    assert join(client, "many", 9, protocols=many)["errorCode"] == 23
    members = [join(client, "big", 9, protocols=big)["errorCode"] for _ in range(40)]
    assert members == [79] * 40
    assert served.resident_bytes() - before < 32 << 20


# Offsets


@pytest.mark.parametrize("version", versions(OFFSET_COMMIT))
def test_a_commit_is_told_in_every_version(client, topic_id, version):
    group = f"commit {version}"
    assert commit(client, version, group, topic_id=topic_id) == [0]
    for fetch in versions(OFFSET_FETCH):
        answer = fetched(client, fetch, group, topic_id)
        first, second = answer["topics"][0]["partitions"]
        assert (first["committedOffset"], first["metadata"], first["errorCode"]) == (7, "mine", 0)
        assert first["committedLeaderEpoch"] == (3 if version >= 6 and fetch >= 5 else -1)
        assert (second["committedOffset"], second["errorCode"]) == (-1, 0)


def test_commits_lie_over_the_offsets_on_disk(client):
    assert fetched(client, 9, "billing-0")["topics"][0]["partitions"][0]["committedOffset"] == 50
    assert commit(client, 9, "billing-0", offset=60) == [0]
    assert commit(client, 9, "billing-0", topic="txn", offset=3) == [0]
    (orders, txn) = fetched(client, 9, "billing-0", topics=None)["topics"]
    assert (orders["name"], orders["partitions"][0]["committedOffset"]) == ("orders", 60)
    assert (txn["name"], txn["partitions"][0]["committedOffset"]) == ("txn", 3)


def test_commits_that_cannot_be_kept_are_told_why(client):
    assert commit(client, 9, "c", topic="unknown") == [3]
    assert commit(client, 9, "c", partition=99) == [3]
    assert commit(client, 9, "c", partition=2) == [0]  # a partition that the source lacks
    assert commit(client, 10, "c", topic_id="AAAAAAAAAAAAAAAAAAAAAQ") == [100]
    assert commit(client, 9, "c", metadata="x" * 4097) == [12]
    assert commit(client, 9, "c", metadata=None) == [0]
    assert commit(client, 9, "nobody", generationIdOrMemberEpoch=1, memberId="me") == [69]
    assert commit(client, 8, "nobody", generationIdOrMemberEpoch=1, memberId="me") == [22]
    assert commit(client, 9, "billing-0", generationIdOrMemberEpoch=1, memberId="me") == [25]
    assert commit(client, 9, "c", generationIdOrMemberEpoch=1, memberId="me") == [25]


def test_offsets_of_unknown_topics_and_groups_are_not_there(client):
    answer = fetched(client, 10, "billing-0", topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    assert [each["errorCode"] for each in answer["topics"][0]["partitions"]] == [100, 100]
    answer = fetched(client, 9, "unknown")
    assert [each["committedOffset"] for each in answer["topics"][0]["partitions"]] == [-1, -1]
    assert fetched(client, 9, "unknown", topics=None)["topics"] == []


# The consumer protocol


@pytest.mark.parametrize("version", versions(CONSUMER_HEARTBEAT))
def test_a_member_of_a_consumer_group_lives_in_every_version(client, topic_id, version):
    group = f"consumer {version}"
    joined = beat(client, group, 0, version)
    assert (joined["errorCode"], joined["memberEpoch"], joined["memberId"]) == (0, 2, "me")
    (assigned,) = joined["assignment"]["topicPartitions"]
    assert (assigned["topicId"], assigned["partitions"]) == (topic_id, [0, 1, 2])
    quiet = beat(
        client,
        group,
        2,
        version,
        rebalanceTimeoutMs=-1,
        subscribedTopicNames=None,
        topicPartitions=None,
    )
    assert (quiet["errorCode"], quiet["assignment"]) == (0, None)
    for each in versions(CONSUMER_DESCRIBE):
        (found,) = client.ask(CONSUMER_DESCRIBE, each, groupIds=[group])["groups"]
        assert (found["groupState"], found["groupEpoch"], found["assignorName"]) == (
            "Stable",
            2,
            "uniform",
        )
        (member,) = found["members"]
        assert (member["memberId"], member["clientHost"]) == ("me", "/127.0.0.1")
        assert member["assignment"]["topicPartitions"][0]["topicName"] == "orders"
        assert member["assignment"] == member["targetAssignment"]
    assert commit(client, 9, group, generationIdOrMemberEpoch=2, memberId="me") == [0]
    assert fetched(client, 9, group, memberId="me", memberEpoch=2)["errorCode"] == 0
    assert fetched(client, 9, group, memberId="me", memberEpoch=3)["errorCode"] == 113
    told = described(client, group)
    assert (told["errorCode"], told["groupState"]) == (69, "Dead")
    assert beat(client, group, -1, version)["memberEpoch"] == -1


def test_a_topic_without_an_id_on_disk_has_the_same_one_at_each_start(tmp_path):
    told = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        with serving(log_dir("legacy"), folder) as served, Connection(served) as client:
            joined = beat(client, "old", 0, subscribedTopicNames=["v2-none"])
            (assigned,) = joined["assignment"]["topicPartitions"]
            answer = client.ask(3, 12, topics=[{"name": None, "topicId": assigned["topicId"]}])
            told.append([(each["name"], each["topicId"]) for each in answer["topics"]])
    assert told[0] == told[1] == [("v2-none", assigned["topicId"])]


def test_errors_of_consumer_groups_have_a_sentence(client):
    refused = beat(client, "new", 0, subscribedTopicNames=None, subscribedTopicRegex="(")
    assert (refused["errorCode"], refused["errorMessage"]) == (
        128,
        "'(' is no pattern of RE2: missing ): (",
    )


# Lists


def test_groups_of_disk_and_server_are_listed_together(client):
    commit(client, 9, "only commits")
    assert beat(client, "listed", 0)["errorCode"] == 0
    found = {
        each["groupId"]: (each["groupState"], each["groupType"], each["protocolType"])
        for each in client.ask(LIST_GROUPS, 5)["groups"]
    }
    assert found["billing-0"] == ("Empty", "classic", "consumer")
    assert found["only commits"] == ("Empty", "classic", "")
    assert found["listed"] == ("Stable", "consumer", "consumer")
    stable = client.ask(LIST_GROUPS, 5, statesFilter=["stable"], typesFilter=["Consumer"])["groups"]
    assert "listed" in {each["groupId"] for each in stable}
    assert {(each["groupState"], each["groupType"]) for each in stable} == {("Stable", "consumer")}
    beat(client, "listed", -1)


def test_groups_are_described_by_the_request_of_their_protocol(client):
    found = described(client, "billing-0")
    assert (found["errorCode"], found["groupState"], found["members"]) == (0, "Empty", [])
    assert described(client, "unknown")["errorMessage"] == "Group unknown not found."
    for name, reason in (("billing-0", "is not a consumer group"), ("unknown", "not found")):
        (told,) = client.ask(CONSUMER_DESCRIBE, 1, groupIds=[name])["groups"]
        assert (told["errorCode"], told["errorMessage"]) == (69, f"Group {name} {reason}.")


def test_another_server_goes_on_from_the_file_of_commits(tmp_path):
    file = tmp_path / "commits"
    for offset in (5, 6):
        with (
            serving(log_dir("current"), tmp_path, "--commit-to", str(file)) as served,
            Connection(served) as client,
        ):
            known = fetched(client, 9, "kept")["topics"][0]["partitions"][0]["committedOffset"]
            assert known == (-1 if offset == 5 else 5)
            assert commit(client, 9, "kept", offset=offset) == [0]
            listed = client.ask(LIST_GROUPS, 5)["groups"]
            assert "kept" in {each["groupId"] for each in listed}
    with file.open("ab") as end:
        end.write(b"half a li")
    with (
        serving(log_dir("current"), tmp_path, "--commit-to", str(file)) as served,
        Connection(served) as client,
    ):
        assert fetched(client, 9, "kept")["topics"][0]["partitions"][0]["committedOffset"] == 6
        assert f"{file}: line 4 is passed over: it has no end" in served.log.read_text()
