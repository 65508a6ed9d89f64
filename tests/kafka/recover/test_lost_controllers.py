"""A real cluster whose only controller is lost with its disk: its brokers' copies of the metadata, one of them damaged, are
enough."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

from engine.recover.metadata.snapshot import ClusterOptions
from tests.kafka import jars
from tests.kafka.recover.real_cluster import leaderless, new_cluster, recovered_cluster
from tests.kafka.recover.recovering import Recovering
from tests.kafka.recover.test_recovered_metadata import (
    differences,
    new_node,
    takes_writes,
    wrong_leaders,
)

LOG = "data/__cluster_metadata-0/00000000000000000000.log"


def test_brokers_copies_bring_back_a_cluster_without_its_controllers(tmp_path: Path) -> None:
    old, target = tmp_path / "old", tmp_path / "target"
    roles = {1: "broker", 2: "broker", 9: "controller"}
    with new_cluster(old, jars.CURRENT, roles) as cluster:
        cluster.ask("fill", 2, 200)
        before = cluster.describe_when_led()
        cluster.end(signal.SIGKILL)
    shutil.rmtree(old / "node-9")
    path = old / "node-1" / LOG
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
    homes = {1: (1,), 2: (2,)}
    _, leaders = recovering.write(target, nodes, homes, options=options)
    recovering.close()
    with recovered_cluster(tmp_path / "run", jars.CURRENT, target, (20, 1, 2)) as again:
        after = again.describe_when_led()
        assert leaderless(after) == []
        assert wrong_leaders(after, leaders) == []
        after["feature"] = [each for each in after["feature"] if each[0] != "kraft.version"]
        assert differences(before, after) == {}
        takes_writes(again, after)
