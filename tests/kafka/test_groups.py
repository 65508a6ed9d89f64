"""Groups, transactions and topics from a copied directory are what Kafka's own tools say of the broker."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from kafkafs.cli import cli
from tests.kafka import clients, jars
from tests.kafka.broker import Broker

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": 5,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 2,
}
COUNTS = {"orders": (3, 40), "audit": (2, 25), "gone": (1, 5)}
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSET_COLUMNS = (
    "group", "topic", "partition", "currentOffset", "logEndOffset", "lag", "memberId", "clientHost",
    "clientId",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """A copied directory, and what Kafka's tools said of the broker that wrote it.

    Attributes:
        before: an instant after the first commits and before the last ones.
        first: offsets that were committed by then.
    """

    copy: Path
    offsets: str
    members: str
    states: str
    topics: str
    transactions: str
    before: int
    first: dict[tuple[str, str, int], int]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    """One broker for all tests here."""
    home = tmp_path_factory.mktemp("groups")
    with Broker(home / "broker", settings=SETTINGS) as broker, ExitStack() as open_clients:
        yield collect(broker, home / "copy", open_clients)


def collect(broker: Broker, copy: Path, open_clients: ExitStack) -> Seen:
    at = broker.bootstrap
    for topic, (partitions, count) in COUNTS.items():
        clients.create_topic(at, topic, partitions, {"retention.ms": -1})
        fill(at, topic, partitions, count)
    commit(at, "simple", {("orders", 0): 7, ("gone", 0): 3})
    commit(at, "deleted", {("orders", 1): 9})
    commit(at, "früh/spät %", {("audit", 1): 4})
    time.sleep(0.05)
    before = clients.now()
    time.sleep(0.05)
    commit(at, "simple", {("orders", 0): 11, ("orders", 2): 5})
    admin = clients.admin(at)
    for answer in admin.delete_consumer_groups(["deleted"]).values():
        answer.result(clients.ANSWER_SECONDS)
    for protocol in ("classic", "consumer"):
        members = [Joined(at, f"{protocol}-members", protocol, f"{protocol}-{n}") for n in range(2)]
        for member in members:
            open_clients.callback(member.consumer.close)
        share_out(members)
    in_transactions(at, open_clients)
    clients.delete_topic(at, "gone")
    clients.set_topic_config(at, "orders", "max.message.bytes", 2_000_000)
    permit_and_enlist(at)
    share = share_consumer(broker)
    open_clients.callback(share.wait, 30)
    open_clients.callback(share.terminate)
    settled(at)
    said = {
        name: jars.run_java(
            broker.version, TOOL, "--bootstrap-server", at, "--describe", "--all-groups", flag
        )
        for name, flag in (
            ("offsets", "--offsets"),
            ("members", "--members"),
            ("states", "--state"),
        )
    }
    topics = jars.run_java(
        broker.version,
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server",
        at,
        "--describe",
    )
    listed = jars.run_java(
        broker.version,
        "org.apache.kafka.tools.TransactionsCommand",
        "--bootstrap-server",
        at,
        "list",
    )
    shutil.copytree(broker.log_dir, copy, ignore=shutil.ignore_patterns("*-delete"))
    first = {("simple", "orders", 0): 7, ("simple", "gone", 0): 3, ("deleted", "orders", 1): 9}
    first[("früh/spät %", "audit", 1)] = 4
    return Seen(copy, topics=topics, transactions=listed, before=before, first=first, **said)


def fill(at: str, topic: str, partitions: int, count: int) -> None:
    writer = clients.producer(at)
    for number in range(count):
        for partition in range(partitions):
            writer.produce(topic, b"%d" % number, partition=partition)
    writer.flush(clients.ANSWER_SECONDS)


def commit(at: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    parts = [TopicPartition(*key, offset) for key, offset in offsets.items()]
    consumer = Consumer({"bootstrap.servers": at, "group.id": group, **clients.QUIET})
    for done in consumer.commit(offsets=parts, asynchronous=False):
        assert done.error is None
    consumer.close()


class Joined:
    """A member of a group that reads both topics and stays."""

    def __init__(self, at: str, group: str, protocol: str, client_id: str) -> None:
        settings = {
            "bootstrap.servers": at, "group.id": group, "group.protocol": protocol,
            "client.id": client_id, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            **clients.QUIET,
        }  # fmt: skip
        self.consumer = Consumer(settings)
        self.consumer.subscribe(["orders", "audit"])
        self.has_committed = False

    def poll(self) -> None:
        message = self.consumer.poll(0.1)
        if message is not None and message.error() is None:
            self.consumer.commit(message, asynchronous=False)
            self.has_committed = True


def share_out(members: list[Joined]) -> None:
    """Poll until the members have all partitions between them, and each has committed something."""
    end = time.monotonic() + clients.ANSWER_SECONDS
    wanted = COUNTS["orders"][0] + COUNTS["audit"][0]
    while time.monotonic() < end:
        for member in members:
            member.poll()
        assigned = [len(member.consumer.assignment()) for member in members]
        if all(assigned) and sum(assigned) == wanted and all(m.has_committed for m in members):
            return
    raise TimeoutError("the members did not get their partitions")


def in_transactions(at: str, open_clients: ExitStack) -> None:
    """Offsets that a transaction committed, one that it aborted, and one that waits."""
    source = Joined(at, "in-transactions", "classic", "reader")
    open_clients.callback(source.consumer.close)
    share_out([source])
    group = source.consumer.consumer_group_metadata()
    for ending, offset in (("commit", 13), ("abort", 17), ("wait", 19)):
        writer = Producer(
            {"bootstrap.servers": at, "transactional.id": f"tx-{ending}", **clients.QUIET}
        )
        writer.init_transactions(clients.ANSWER_SECONDS)
        writer.begin_transaction()
        writer.produce("audit", b"in a transaction", partition=0)
        writer.send_offsets_to_transaction(
            [TopicPartition("orders", 2, offset)], group, clients.ANSWER_SECONDS
        )
        writer.flush(clients.ANSWER_SECONDS)
        if ending == "commit":
            writer.commit_transaction(clients.ANSWER_SECONDS)
        elif ending == "abort":
            writer.abort_transaction(clients.ANSWER_SECONDS)
        else:
            open_clients.callback(writer.abort_transaction, clients.ANSWER_SECONDS)


def permit_and_enlist(at: str) -> None:
    """An ACL and a user."""
    admin = clients.admin(at)
    acl = AclBinding(
        ResourceType.TOPIC, "ord", ResourcePatternType.PREFIXED, "User:alice", "*",
        AclOperation.READ, AclPermissionType.ALLOW,
    )  # fmt: skip
    for answer in admin.create_acls([acl]).values():
        answer.result(clients.ANSWER_SECONDS)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("bob", info, b"secret")
    for answer in admin.alter_user_scram_credentials([upsertion]).values():
        answer.result(clients.ANSWER_SECONDS)


def share_consumer(broker: Broker) -> subprocess.Popen[bytes]:
    """A member of a share group, once it is one."""
    command = jars.java_command(
        broker.version, "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    )
    command += ["--bootstrap-server", broker.bootstrap, "--topic", "orders", "--group", "sharing"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def settled(at: str) -> None:
    """Wait until all groups are as they will be."""
    admin = clients.admin(at)
    end = time.monotonic() + clients.ANSWER_SECONDS
    wanted = {"classic-members": 2, "consumer-members": 2, "in-transactions": 1}
    while time.monotonic() < end:
        answers = admin.describe_consumer_groups(list(wanted))
        found = {name: answer.result(clients.ANSWER_SECONDS) for name, answer in answers.items()}
        if all(
            len(found[name].members) == count and found[name].state.name == "STABLE"
            for name, count in wanted.items()
        ):
            return
        time.sleep(0.2)
    raise TimeoutError("the groups did not settle")


def ours(*arguments: str, status: int = 0) -> list[dict[str, Any]]:
    """What our command says."""
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == status, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def rows_of(text: str, header: str, columns: int) -> set[tuple[str, ...]]:
    """The rows of the tables in a tool's output; the last column takes what is left."""
    rows: set[tuple[str, ...]] = set()
    inside = False
    for line in text.splitlines():
        if line.startswith(header):
            inside = True
        elif not line.strip():
            inside = False
        elif inside:
            rows.add(tuple(line.split(None, columns - 1)))
    return {tuple(cell.strip() for cell in row) for row in rows}


def shown(value: object) -> str:
    return "-" if value is None else str(value)


def test_committed_offsets_and_lag_are_those_of_kafka_consumer_groups(seen: Seen) -> None:
    theirs = {row for row in rows_of(seen.offsets, "GROUP", 9) if row[0] != "sharing"}
    odd = "früh/spät %"
    found = ours("groups", str(seen.copy))
    mine = {
        tuple(shown(row[column]) for column in OFFSET_COLUMNS)
        for row in found
        if row["group"] not in (odd, "sharing")
    }
    assert {row[0] for row in mine} >= {
        "simple", "classic-members", "consumer-members", "in-transactions",
    }  # fmt: skip
    spaced = {tuple(" ".join(row).replace(odd, "odd").split()) for row in theirs}
    assert mine == {row for row in spaced if row[0] != "odd"}
    [one] = [row for row in found if row["group"] == odd]
    assert (one["topic"], one["partition"], one["currentOffset"]) == ("audit", 1, 4)


def test_a_transactions_offset_counts_only_once_it_is_committed(seen: Seen) -> None:
    rows = {
        (row["topic"], row["partition"]): row["currentOffset"]
        for row in ours("groups", str(seen.copy), "in-transactions")
    }
    assert rows["orders", 2] == 13
    [state] = ours("groups", str(seen.copy), "in-transactions", "--state")
    assert [each["offset"] for each in state["pendingOffsets"]] == [19]


def test_members_are_those_of_kafka_consumer_groups(seen: Seen) -> None:
    theirs = {row[:4] + row[-1:] for row in rows_of(seen.members, "GROUP", 6)}
    members = ours("groups", str(seen.copy), "--members")
    mine = {
        (
            row["group"], row["memberId"],
            *([row["groupInstanceId"]] if row["groupInstanceId"] else []),
            row["clientHost"], row["clientId"],
            str(sum(len(each["partitions"]) for each in row["assignment"])),
        )
        for row in members
        if row["group"] != "sharing"
    }  # fmt: skip
    assert len(mine) == 5
    assert mine == {row for row in theirs if row[0] != "sharing"}
    assert [row["clientId"] for row in members if row["group"] == "sharing"]


def test_states_are_those_of_kafka_consumer_groups(seen: Seen) -> None:
    states = {row["group"]: row for row in ours("groups", str(seen.copy), "--state")}
    assert {name: row["type"] for name, row in states.items()} == {
        "simple": "classic", "früh/spät %": "classic", "classic-members": "classic",
        "consumer-members": "consumer", "in-transactions": "classic", "sharing": "share",
    }  # fmt: skip
    for line in seen.states.splitlines():
        cells = line.split()
        name = cells[0] if cells else ""
        if name in states:
            assert cells[-2:] == [states[name]["state"], str(len(states[name]["members"]))]
    assert "deleted" not in states


def test_a_deleted_group_is_gone_now_and_there_as_of_before(seen: Seen) -> None:
    assert ours("groups", str(seen.copy), "deleted", status=1) == []
    rows = ours("groups", str(seen.copy), "--at", str(seen.before))
    found = {(row["group"], row["topic"], row["partition"]): row["currentOffset"] for row in rows}
    assert found == seen.first


def test_topics_are_those_of_kafka_topics(seen: Seen) -> None:
    theirs: dict[str, str] = {}
    partitions: dict[tuple[str, str], tuple[str, str, str]] = {}
    for line in seen.topics.splitlines():
        cells = dict(part.strip().partition(": ")[::2] for part in line.split("\t") if part.strip())
        if "TopicId" in cells:
            theirs[cells["Topic"]] = cells["TopicId"]
        elif "Partition" in cells:
            row = cells["Leader"], cells["Replicas"], cells["Isr"]
            partitions[cells["Topic"], cells["Partition"]] = row
    mine = ours("topics", str(seen.copy))
    assert {facts["name"]: facts["topicId"] for facts in mine} == theirs
    assert {
        (facts["name"], str(row["partition"])): (
            str(row["leader"]), ",".join(map(str, row["replicas"])), ",".join(map(str, row["isr"])),
        )
        for facts in mine
        for row in facts["partitions"]
    } == partitions  # fmt: skip
    [orders] = [facts for facts in mine if facts["name"] == "orders"]
    assert orders["configs"] == {"max.message.bytes": "2000000", "retention.ms": "-1"}


def test_transactional_ids_are_those_of_kafka_transactions(seen: Seen) -> None:
    theirs = {
        (cells[0], cells[2], cells[3])
        for line in seen.transactions.splitlines()
        if len(cells := line.split()) == 4 and cells[0].startswith("tx-")
    }
    mine = {
        (row["transactionalId"], str(row["producerId"]), row["state"])
        for row in ours("transactions", str(seen.copy))
    }
    assert mine == theirs
    assert {name: state for name, _, state in mine}["tx-wait"] == "Ongoing"
    waiting = ours("transactions", str(seen.copy), "--open")
    assert {(row["topic"], row["transactionalId"], row["hangs"]) for row in waiting} == {
        ("audit", "tx-wait", False), ("__consumer_offsets", "tx-wait", False),
    }  # fmt: skip
    assert ours("transactions", str(seen.copy), "--hanging") == []


def test_acls_and_users_are_files_of_the_tree(seen: Seen) -> None:
    def cat(path: str) -> dict[str, Any]:
        result = CliRunner().invoke(cli, ["cat", str(seen.copy), path])
        assert result.exit_code == 0, result.output
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    [acl] = CliRunner().invoke(cli, ["ls", str(seen.copy), "cluster/acls"]).stdout.split()
    facts = cat(f"cluster/acls/{acl}")
    assert facts["principal"] == "User:alice"
    assert (facts["resourceType"], facts["patternType"]) == ("TOPIC", "PREFIXED")
    assert (facts["operation"], facts["permissionType"]) == ("READ", "ALLOW")
    user = cat("cluster/users/bob.SCRAM-SHA-256")
    assert user == {"name": "bob", "mechanism": "SCRAM-SHA-256", "iterations": 4096}
    assert cat("groups/simple/orders-0")["offset"] == 11
    assert cat("groups/früh%2Fspät %25/audit-1")["offset"] == 4
