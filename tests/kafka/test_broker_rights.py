"""Real nodes that may not use some of their files: our plan says what each then does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.rights.broker_user import BrokerUser
from tests.kafka.node_judge import NodeJudge
from tests.kafka.test_whole_nodes import PlannedNode, differences
from tests.kafka.whole_nodes import COMBINED, TOPICS, Cluster

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

POWERS = "-dac_override,-dac_read_search,-fowner"
WITHOUT_POWERS = ("setpriv", f"--bounding-set={POWERS}", f"--inh-caps={POWERS}")
SEGMENTS = {
    "name": "parts",
    "partitions": 1,
    "records": 4000,
    "config": {"internal.segment.bytes": 20000},
}


class PlainRoot(BrokerUser):
    """The user of the nodes: root, for whom the modes count."""

    may_do_all = False


class Case(NamedTuple):
    """Whose rights are taken: the files of a name in a folder below the cluster's, of segment `place` alone or all."""

    state: str
    folder: str
    names: str
    mode: int
    place: int | None = None


CASES = [
    *(
        Case("stopped", "parts-0", name, 0o444, 0)
        for name in ("*.index", "*.timeindex", "*.log", "*.snapshot")
    ),
    *(Case("stopped", "parts-0", name, 0o444, -1) for name in ("*.index", "*.timeindex", "*.log")),
    *(Case("killed", "parts-0", name, 0o444, 0) for name in ("*.index", "*.timeindex")),
    *(Case("stopped", "parts-0", "*.snapshot", mode, -1) for mode in (0, 0o444)),
    *(Case("stopped", "orders-1", "leader-epoch-checkpoint", mode) for mode in (0, 0o444)),
    *(Case("killed", "orders-1", "partition.metadata", mode) for mode in (0, 0o444)),
    *(Case("stopped", "orders-1", "", mode) for mode in (0o333, 0o555, 0o666)),
    *(Case("killed", "orders-1", "", mode) for mode in (0o333, 0o555)),
    *(Case("stopped", "data1", "", mode) for mode in (0o333, 0o555, 0o666)),
    *(Case("stopped", "data1", "*-offset-checkpoint", mode) for mode in (0, 0o444)),
    *(Case("stopped", "data1", "meta.properties", mode) for mode in (0, 0o444)),
    Case("stopped", "data0", "meta.properties", 0),
    *(Case("stopped", "__cluster_metadata-0", name, 0) for name in ("*.log", "quorum-state")),
    *(Case("stopped", "__cluster_metadata-0", name, 0o444) for name in ("*.log", "quorum-state")),
]


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cluster]:
    """A cluster that was stopped, and one that was killed."""
    top = tmp_path_factory.mktemp("sound")
    stopped = Cluster(top / "stopped", COMBINED)
    with NodeJudge() as judge:
        assert stopped.fill(judge, top / "killed", (*TOPICS, SEGMENTS))["starts"]
    return {"stopped": stopped, "killed": Cluster(top / "killed", COMBINED)}


@pytest.fixture(scope="module")
def judge() -> Iterator[NodeJudge]:
    with NodeJudge(before=WITHOUT_POWERS) as running:
        yield running


def take_rights(top: Path, case: Case) -> None:
    """Give files to somebody else."""
    found = [path for path in (top, *sorted(top.rglob("*"))) if path.name == case.folder]
    (folder,) = found
    paths = sorted(folder.glob(case.names)) if case.names else [folder]
    for path in paths if case.place is None else [paths[case.place]]:
        os.chown(path, 4711, 4711)
        path.chmod(case.mode)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_plan_says_what_a_node_does_that_may_not_use_its_files(
    judge: NodeJudge, clusters: dict[str, Cluster], tmp_path: Path, case: Case
) -> None:
    cluster = clusters[case.state].copy(tmp_path / "node")
    take_rights(cluster.top, case)
    role = COMBINED[0]
    plan = PlannedNode(cluster.paths(role), PlainRoot("root", 0, frozenset({0})))
    answer = cluster.run(judge, role, seconds=40)
    assert differences(plan, role, answer) == []
