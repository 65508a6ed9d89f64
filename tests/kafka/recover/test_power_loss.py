"""A real cluster of three nodes that loses its leaders' unflushed tails: a start loses what the disks hold, a recovery does not."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import replace
from typing import NamedTuple

import pytest

from engine.recover.options import RecoverOptions
from engine.recover.recovering import recover
from tests.kafka import jars
from tests.kafka.conftest import SEED
from tests.kafka.recover.acknowledged_load import (
    History,
    Judged,
    Load,
    judge,
    make_topics,
    write_more,
)
from tests.kafka.recover.power_loss import cut_tails
from tests.kafka.recover.real_cluster import (
    RealCluster,
    leaderless,
    new_cluster,
    recovered_cluster,
)

NODES = (1, 2, 3)
SECONDS = 6
MORE = 1000


class Disaster(NamedTuple):
    """A killed cluster whose leaders' tails are cut, what its clients were told, and its recovery."""

    cluster: RealCluster
    history: History
    recovered: RealCluster


@pytest.fixture(scope="module")
def disaster(tmp_path_factory: pytest.TempPathFactory) -> Disaster:
    home = tmp_path_factory.mktemp("disaster")
    cluster = new_cluster(home, jars.CURRENT, dict.fromkeys(NODES, "broker,controller"))
    with cluster:
        make_topics(cluster.bootstrap)
        load = Load(cluster.bootstrap, SEED)
        load.run(SECONDS)
        load.begin_open()
    log_dirs = {node: home / f"node-{node}" / "data" for node in NODES}
    assert cut_tails(log_dirs, random.Random(SEED), leaders_only=True)
    target = home / "target"
    recover([*map(str, log_dirs.values())], str(target), RecoverOptions(jobs=2))
    recovered = recovered_cluster(home / "run", jars.CURRENT, target, NODES)
    return Disaster(cluster, load.history, recovered)


def test_a_recovery_keeps_what_a_disk_holds_and_takes_new_records(disaster: Disaster) -> None:
    with disaster.recovered as cluster:
        assert leaderless(cluster.describe_when_led()) == []
        assert judge(cluster.bootstrap, disaster.history) == Judged()
        more = write_more(cluster.bootstrap, MORE)
        assert sum(map(len, more.records.values())) > MORE // 2
        cluster.end(signal.SIGKILL)
        cluster.start(NODES)
        cluster.describe_when_led()
        # A coordinator that was killed after the answer to a commit writes the markers after its next start.
        until = time.monotonic() + 60
        more = replace(more, offsets={})
        while (again := judge(cluster.bootstrap, more)).lost or again.torn or again.gone:
            assert time.monotonic() < until, again


def test_a_mere_start_loses_what_the_disks_hold(disaster: Disaster) -> None:
    with disaster.cluster as cluster:
        cluster.describe_when_led()
        found = judge(cluster.bootstrap, disaster.history)
    assert found.lost, "the leaders' tails were cut, and the others truncate to them"
