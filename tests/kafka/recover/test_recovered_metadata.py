"""Real clusters that start from metadata that was made anew: Kafka's admin client says of them what it said before."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.clock import SYSTEM_CLOCK
from engine.cut.moment import Moment
from engine.recover.election import Rules, elected_in
from engine.recover.metadata.cluster_metadata import metadata_from_folders
from engine.recover.metadata.snapshot import ClusterOptions, write_cluster
from engine.recover.nodes import ClusterNode
from engine.recover.options import RecoverOptions
from engine.recover.recovering import recover
from tests.kafka import jars
from tests.kafka.broker import free_ports
from tests.kafka.recover.real_cluster import (
    Facts,
    RealCluster,
    leaderless,
    new_cluster,
    recovered_cluster,
)
from tests.kafka.recover.recovering import Recovering

RECORDS = 300
SAME = ("topic", "config", "acl", "user", "quota", "feature", "cluster", "end", "group", "records")
"""Kinds of facts that a recovery keeps."""
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SASL = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.users.scram-sha-256.sasl.jaas.config": _SCRAM,
    "listener.name.users.scram-sha-512.sasl.jaas.config": _SCRAM,
}
UNCLEAN = "unclean-"
"""Where any replica may lead, the first node that is up does."""


class Dead(NamedTuple):
    """A cluster that was killed: its folder, its version, and what it said of itself."""

    home: Path
    version: str
    before: Facts


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> Dead:
    version = jars.CURRENT
    home = tmp_path_factory.mktemp("dead")
    roles = {1: "broker,controller", 2: "broker", 3: "broker"}
    with new_cluster(home, version, roles, ("data", "more")) as cluster:
        cluster.ask("fill", 3, RECORDS)
        before = cluster.describe_when_led()
        cluster.end(signal.SIGKILL)
    return Dead(home, version, before)


@pytest.fixture
def recovering(dead: Dead) -> Iterator[Recovering]:
    found = Recovering(dead.home)
    yield found
    found.close()


def new_node(
    number: int, roles: frozenset[str] = frozenset({"broker", "controller"})
) -> ClusterNode:
    """A node on ports of its own."""
    first, second = free_ports(2)
    listeners = {"PLAINTEXT": f"127.0.0.1:{first}", "CONTROLLER": f"127.0.0.1:{second}"}
    protocols = dict.fromkeys(listeners, "PLAINTEXT")
    return ClusterNode(
        number, roles, listeners, protocols=protocols, controller_listener="CONTROLLER"
    )


def wrong_leaders(after: Facts, leaders: dict[str, int]) -> list[str]:
    """The partitions that another replica leads than the chosen one."""
    return [
        f"{name}: {leader}, not {leaders[name]}"
        for name, leader, *_ in after["leader"]
        if int(leader) != leaders[name] and not name.startswith(UNCLEAN)
    ]


def differences(before: Facts, after: Facts, kinds: tuple[str, ...] = SAME) -> dict[str, object]:
    """The facts that are not as before, by kind."""
    found = {}
    for kind in kinds:
        gone = [each for each in before.get(kind, []) if each not in after.get(kind, [])]
        new = [each for each in after.get(kind, []) if each not in before.get(kind, [])]
        if gone or new:
            found[kind] = gone, new
    return found


def takes_writes(cluster: RealCluster, after: Facts) -> None:
    """Records of new producers are there after all nodes were killed and started again."""
    cluster.ask("write", RECORDS)
    cluster.end(signal.SIGKILL)
    cluster.start(cluster.settings)
    again = dict(map(tuple, cluster.describe_when_led()["records"]))
    for topic, count in map(tuple, after["records"]):
        if topic in ("orders", "unclean"):
            assert int(again[topic]) == int(count) + RECORDS
        if topic == "recreated":
            assert int(again[topic]) == int(count) + 4


def lift_as_told(cluster: RealCluster, target: Path, topic: str) -> None:
    """Run the command of the instructions that lifts what is held of a topic."""
    lines = (target / "START.txt").read_text(encoding="utf-8").splitlines()
    [at] = [place for place, line in enumerate(lines) if "kafka-configs.sh" in line]
    command = f"{lines[at].rstrip(chr(92))} {lines[at + 1]}".split()[1:]
    words = {"HOST:PORT": cluster.bootstrap, "TOPIC": topic}
    is_old = jars.release(cluster.version) < (4, 4)
    tool = "kafka.admin.ConfigCommand" if is_old else "org.apache.kafka.tools.ConfigCommand"
    jars.run_java(cluster.version, tool, *(words.get(word, word) for word in command))


def test_kafkas_dump_tool_reads_the_snapshot(
    dead: Dead, recovering: Recovering, tmp_path: Path
) -> None:
    nodes = recovering.nodes()
    options = ClusterOptions(quorum="dynamic", kafka_version=dead.version)
    written = write_cluster(tmp_path / "new", recovering.metadata, nodes, [], 1, options)
    [name] = [name for name in written.files if "node-1/" in name and name.endswith(".checkpoint")]
    path = tmp_path / "new" / name
    said = jars.dump_log_segments(dead.version, "--cluster-metadata-decoder", "--files", path)
    kinds = [
        json.loads(line.partition("payload: ")[2])
        for line in said.splitlines()
        if "payload: {" in line
    ]
    assert "Error" not in said
    assert kinds[0]["data"]["name"] == "metadata.version"
    assert {"ACCESS_CONTROL_ENTRY_RECORD", "USER_SCRAM_CREDENTIAL_RECORD"} <= {
        each["type"] for each in kinds
    }
    for control in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter"):
        assert control in said


def test_the_same_nodes_are_the_same_cluster_with_the_leaders_of_the_model(
    dead: Dead, recovering: Recovering, tmp_path: Path
) -> None:
    nodes = recovering.nodes()
    assert [(node.id, sorted(node.log_dirs)) for node in nodes] == [
        (number, ["data", "more"]) for number in (1, 2, 3)
    ]
    options = ClusterOptions(kafka_version=dead.version)
    homes = {number: (number,) for number in (1, 2, 3)}
    target = tmp_path / "target"
    _, chosen = recovering.write(target, nodes, homes, options=options)
    cluster = recovered_cluster(tmp_path, dead.version, target, (1, 2, 3))
    try:
        cluster.start((1, 3))
        for _ in range(100):
            if cluster.ask("nodes").strip() == "[1, 3]":
                break
            time.sleep(0.1)
        cluster.start((2,))
        after = cluster.describe_when_led()
        starts = [(act, node) for node in (1, 3, 2) for act in ("register", "unfence")]
        expected = {
            name: elected_in((1, 2, 3), leader, starts, _rules(name)).leader
            for name, leader in chosen.items()
        }
        assert {name: int(leader) for name, leader, *_ in after["leader"]} == expected
        assert wrong_leaders(after, chosen) == []
        assert differences(dead.before, after) == {}
        takes_writes(cluster, after)
    finally:
        cluster.end(signal.SIGKILL)


def _rules(partition: str) -> Rules:
    return Rules(unclean=partition.startswith(UNCLEAN))


def test_three_nodes_become_one_which_is_recovered_as_of_a_moment(
    dead: Dead, recovering: Recovering, tmp_path: Path
) -> None:
    target, node = tmp_path / "target", new_node(7)
    [port] = free_ports(1)
    node = replace(
        node,
        listeners={**node.listeners, "USERS": f"127.0.0.1:{port}"},
        protocols={**node.protocols, "USERS": "SASL_PLAINTEXT"},
    )
    options = ClusterOptions(
        fits_min_isr=True, kafka_version=dead.version, renumbered={1: 7, 2: 7, 3: 7}
    )
    homes = dict.fromkeys((1, 2, 3), (7,))
    _, leaders = recovering.write(target, [node], homes, options=options)
    with recovered_cluster(tmp_path, dead.version, target, [7], SASL) as cluster:
        after = cluster.describe_when_led()
        assert leaderless(after) == []
        assert wrong_leaders(after, leaders) == []
        kinds = tuple(kind for kind in SAME if kind != "config")
        assert differences(dead.before, after, kinds) == {}
        gone, new = differences(dead.before, after, ("config",))["config"]
        assert sorted(gone) == [
            ["BROKER", "1", "num.io.threads=9"],
            ["TOPIC", "orders", "min.insync.replicas=2"],
        ]
        assert sorted(new) == [
            ["BROKER", "7", "num.io.threads=9"],
            ["TOPIC", "orders", "min.insync.replicas=1"],
        ]
        for mechanism, user, password, answer in (
            ("SCRAM-SHA-256", "alice", "alice-secret", "welcome"),
            ("SCRAM-SHA-512", "bob", "bob-secret", "welcome"),
            ("SCRAM-SHA-512", "bob", "alice-secret", "refused"),
        ):
            said = cluster.ask("login", mechanism, user, password, bootstrap=f"127.0.0.1:{port}")
            assert said.startswith(answer), said
        cluster.ask("write", RECORDS)  # acks=all, with one replica
        then, moment = cluster.describe(), SYSTEM_CLOCK.now_ms()
        cluster.ask("write", 10)
        cluster.ask("spoil")
        cluster.end(signal.SIGKILL)
    answers_as_of(moment, then, target, dead.version, tmp_path)


def answers_as_of(moment: int, then: Facts, dead: Path, version: str, folder: Path) -> None:
    """Recovered as of a moment, a node that was killed later says what it said then."""
    target = folder / "then"
    recover([str(dead / "node-7/data")], str(target), RecoverOptions(at=Moment(time=moment)))
    with recovered_cluster(folder, version, target, [7], SASL) as cluster:
        after = cluster.describe_when_led()
        assert leaderless(after) == []
        assert differences(then, after) == {}
        cluster.ask("write", RECORDS)


def test_three_nodes_are_renumbered(dead: Dead, recovering: Recovering, tmp_path: Path) -> None:
    target = tmp_path / "target"
    nodes = [new_node(11), new_node(12), new_node(13, frozenset({"broker"}))]
    numbers = {1: 11, 2: 12, 3: 13}
    options = ClusterOptions(
        "new", quorum="dynamic", kafka_version=dead.version, renumbered=numbers
    )
    homes = {old: (new,) for old, new in numbers.items()}
    written, leaders = recovering.write(target, nodes, homes, options=options)
    with recovered_cluster(tmp_path, dead.version, target, (11, 12, 13)) as cluster:
        after = cluster.describe_when_led()
        assert leaderless(after) == []
        assert wrong_leaders(after, leaders) == []
        assert after["cluster"] == [[written.cluster_id]] != dead.before["cluster"]
        after["feature"] = [each for each in after["feature"] if each[0] != "kraft.version"]
        kinds = tuple(kind for kind in SAME if kind not in ("config", "cluster"))
        assert differences(dead.before, after, kinds) == {}
        assert ["BROKER", "11", "num.io.threads=9"] in after["config"]


def test_folders_alone_are_a_cluster(dead: Dead, recovering: Recovering, tmp_path: Path) -> None:
    target = tmp_path / "target"
    metadata = metadata_from_folders(recovering.sources)
    homes = {number: (number,) for number in (1, 2, 3)}
    options = ClusterOptions(kafka_version=dead.version, hold=True)
    _, leaders = recovering.write(target, recovering.nodes(), homes, metadata, options)
    with recovered_cluster(tmp_path, dead.version, target, (1, 2, 3)) as cluster:
        after = cluster.describe_when_led()
        assert leaderless(after) == []
        assert wrong_leaders(after, leaders) == []
        assert (
            differences(dead.before, after, ("topic", "cluster", "end", "group", "records")) == {}
        )
        held = {name for _, name, value in after["config"] if value == "retention.ms=-1"}
        assert held == {topic[0] for topic in after["topic"]}
        assert ["TOPIC", "__consumer_offsets", "cleanup.policy=compact"] in after["config"]
        lift_as_told(cluster, target, "orders")
        lifted = cluster.describe()["config"]
        gone = [each for each in after["config"] if each not in lifted]
        assert [name for _, name, _ in gone] == ["orders", "orders"]


def test_brokers_copies_bring_back_a_cluster_whose_only_controller_is_lost(
    dead: Dead, tmp_path: Path
) -> None:
    old, target = tmp_path / "old", tmp_path / "target"
    for node in ("node-2", "node-3"):
        shutil.copytree(dead.home / node, old / node)
    path = next(old.glob("node-2/*/__cluster_metadata-0/00000000000000000000.log"))
    data = bytearray(path.read_bytes())
    for position in range(len(data) // 4, len(data) // 2, 97):
        data[position] ^= 0x20
    path.write_bytes(data)
    recovering = Recovering(old)
    assert recovering.metadata.unknown == ()
    first, second = recovering.nodes()
    assert first.is_controller  # for want of another, and no disk knows its listener
    nodes = [replace(first, roles=frozenset({"broker"})), second]
    nodes.append(replace(new_node(20), roles=frozenset({"controller"})))
    options = ClusterOptions(quorum="dynamic")
    homes = {2: (2,), 3: (3,)}
    _, leaders = recovering.write(target, nodes, homes, options=options)
    recovering.close()
    with recovered_cluster(tmp_path / "run", dead.version, target, (20, 2, 3)) as again:
        after = again.describe_when_led()
        assert leaderless(after) == []
        assert wrong_leaders(after, leaders) == []
        after["feature"] = [each for each in after["feature"] if each[0] != "kraft.version"]
        kinds = tuple(kind for kind in SAME if kind != "config")
        assert differences(dead.before, after, kinds) == {}
        gone = differences(dead.before, after, ("config",)).get("config", ([], []))
        assert gone == ([["BROKER", "1", "num.io.threads=9"]], [])
        takes_writes(again, after)
