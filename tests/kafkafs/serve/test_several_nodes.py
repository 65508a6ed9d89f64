"""A server of several nodes' log dirs tells clients of these nodes, and where each partition's copies are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.serve.placement import places, shown_nodes
from tests import builders
from tests.builders import Producer, Rec
from tests.engine.replicas.test_union_log import batch, whole, write_copy
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.consumed import Consumer
from tests.kafkafs.serve.serving import serving
from tests.kafkafs.serve.three_brokers import write_source
from tests.replica_clusters import START, make_cluster

_METADATA, _OFFSET_FOR_EPOCH = 3, 23


def json_lines(command: str, *arguments: object) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, [command, *map(str, arguments), "--json"])
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_without_metadata_the_nodes_are_those_of_the_log_dirs_and_the_leading_copy_leads(
    tmp_path: Path,
) -> None:
    dirs = [tmp_path / f"b{node}" for node in (1, 2, 3)]
    write_copy(dirs[0], 1, whole(80))
    write_copy(dirs[1], 2, whole())
    write_copy(dirs[2], 3, {0: [batch(0)]}, name="orders-1")
    cluster = Consumer(*dirs).cluster
    assert [node.number for node in shown_nodes(cluster)] == [1, 2, 3]
    cluster.topics()["orders"].logs[0].view()
    shown = places(cluster, cluster.topics()["orders"])
    assert [(each.leader, each.replicas) for each in shown] == [(2, [2, 1]), (3, [3])]


def test_with_metadata_nodes_leaders_and_replicas_are_its(tmp_path: Path) -> None:
    first = write_source(tmp_path)
    second = tmp_path / "b2"
    shutil.copytree(first, second)
    for node, path in ((1, first), (2, second)):
        meta = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAABA\nnode.id="
        (path / "meta.properties").write_text(f"{meta}{node}\n")
    cluster = Consumer(first, second).cluster
    assert [node.number for node in shown_nodes(cluster)] == [1, 2, 3]
    shown = {each.partition: each for each in places(cluster, cluster.topics()["here"])}
    assert (shown[0].leader, shown[0].replicas, shown[0].in_sync) == (1, [1, 2], [1, 2])
    assert (shown[3].leader, shown[3].replicas, shown[3].in_sync) == (2, [1, 2], [2])
    (row,) = json_lines("offsets", first, second, "-t", "here", "-p", "0")
    assert row["replica"] == {
        "node": 1,
        "reason": f"node 1 ({first}) comes first of 2 copies with epoch 0 and log end 1; "
        "the metadata has node 1 as leader, and in sync 1, 2",
        "leader": 1,
        "inSync": [1, 2],
    }
    (stats,) = [each for each in json_lines("stats", first, second, "-t", "here", "-p", "0") if "replica" in each]  # fmt: skip
    assert stats["replica"] == row["replica"]
    alone = Consumer(first).cluster
    assert [node.number for node in shown_nodes(alone)] == [1]


def test_a_client_is_told_of_the_nodes_and_of_the_ends_of_epochs_of_the_union(
    tmp_path: Path,
) -> None:
    made = make_cluster(tmp_path / "disks", Random(6))
    source = Path(",".join(map(str, made.dirs)))
    with serving(source, tmp_path) as served, Connection(served) as connection:
        found = connection.ask(_METADATA, 1, topics=[{"name": "orders"}])
        assert sorted(each["nodeId"] for each in found["brokers"]) == [1, 2, 3]
        leader = made.partitions["orders-0"].leader
        wanted = {"partition": 0, "currentLeaderEpoch": -1, "leaderEpoch": leader.epoch}
        answer = connection.ask(
            _OFFSET_FOR_EPOCH, 3, replicaId=-1, topics=[{"topic": "orders", "partitions": [wanted]}]
        )
        (partition,) = answer["topics"][0]["partitions"]
        assert (partition["leaderEpoch"], partition["endOffset"]) == (leader.epoch, leader.end)


def test_a_marker_that_one_disk_lost_ends_its_transaction(tmp_path: Path) -> None:
    """Ten records are aborted, ten committed; the leading copy has lost the first marker."""
    producer = Producer(id=7)
    batches = [
        builders.batch([Rec(b"no")] * 10, 0, producer=producer, transactional=True),
        builders.end_marker(10, producer, commit=False),
        builders.batch([Rec(b"yes")] * 10, 11, producer=producer, transactional=True),
        builders.end_marker(21, producer, commit=True),
    ]
    dirs = [tmp_path / "b1", tmp_path / "b2"]
    for node, log_dir in enumerate(dirs, 1):
        write_copy(log_dir, node, {0: batches})
    lost = bytearray(b"".join(batches))
    lost[len(batches[0]) + 65] ^= 1
    (dirs[0] / "orders-0" / f"{0:020}.log").write_bytes(lost)
    consumer = Consumer(*dirs)
    assert [each.offset for each in consumer.records("orders-0", committed=True)] == [
        *range(11, 21)
    ]
    source = ",".join(map(str, dirs))
    lines = CliRunner().invoke(cli, ["cat", source, f"orders-0/committed/{0:020}.jsonl"]).stdout
    assert [json.loads(line)["offset"] for line in lines.splitlines()] == [*range(11, 21)]


@pytest.mark.parametrize("seed", range(10))
def test_a_time_cuts_the_union_before_the_first_later_batch(tmp_path: Path, seed: int) -> None:
    made = make_cluster(tmp_path, Random(seed), hurts=0)
    for name, each in made.partitions.items():
        if not each.is_whole:
            continue
        time = max(each.leader.end // 2, 1)
        cut = next(batch.first for batch in each.batches if batch.next > time)
        records = Consumer(*made.dirs, before=START + time).records(name)
        expected = {offset: value for offset, value in each.records.items() if offset < cut}
        assert {record.offset: bytes(record.value or b"") for record in records} == expected
