"""Real nodes on damaged log dirs (brokers, controllers, both in one): our plan says what each then does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.files.file_names import FolderState
from engine.plan.loading.broker_failure import Outcome
from engine.plan.loading.broker_versions import broker_version
from engine.plan.start_plan import StartPlan
from engine.rights.broker_user import BrokerUser
from tests.hurt_nodes import METADATA, HurtNode
from tests.kafka import jars
from tests.kafka.conftest import SEED
from tests.kafka.node_judge import NodeJudge
from tests.kafka.whole_nodes import KINDS, SNAPSHOTS, Cluster, Role

STARTS = int(os.environ.get("KAFKAFS_WHOLE_NODES") or 12)
"""Damaged nodes; a long run has some hundreds."""
AT_ONCE = 6


@pytest.fixture(scope="module")
def judge() -> Iterator[NodeJudge]:
    with NodeJudge() as running:
        yield running


@pytest.fixture(scope="module")
def sound(judge: NodeJudge, tmp_path_factory: pytest.TempPathFactory) -> list[Cluster]:
    """Clusters that nothing happened to: stopped and killed, with and without snapshots."""
    return sound_clusters(judge, tmp_path_factory.mktemp("sound"))


def sound_clusters(judge: NodeJudge, top: Path) -> list[Cluster]:
    found = []
    for kind, roles in KINDS.items():
        for more in ({}, SNAPSHOTS):
            name = f"{kind}-{len(more)}"
            stopped = Cluster(top / f"{name}-stopped", roles, more)
            assert stopped.fill(judge, top / f"{name}-killed")["starts"]
            found += [stopped, Cluster(top / f"{name}-killed", roles, more)]
    return found


class PlannedNode:
    """Our plan of a node's start, in the form of the judge's answer."""

    def __init__(self, log_dirs: list[Path], user: BrokerUser | None = None) -> None:
        paths, version = [str(each) for each in log_dirs], broker_version(jars.CURRENT)
        with StartPlan(paths, version, broker_user=user) as plan:
            logs = [(log_dir.path, log) for log_dir, log in plan.logs()]
            self.outcome, self.reason = plan.verdict()
            self.forgets = plan.forgets_topics
            self.risks = [risk for each in plan.log_dirs for risk in each.risks]
            self.offline = {
                each.path for each in plan.log_dirs if each.outcome is Outcome.LOG_DIR_OFFLINE
            }
            self.lost = plan.lost_folders
        self.logs = {
            f"{path}/{log.folder}": [log.log_start, log.log_end]
            for path, log in logs
            if log.state is FolderState.LOG
            and log.outcome is Outcome.LOADS
            and log.renamed_to is None
            and log.folder != METADATA
        }
        self.strays = {
            f"{path}/{log.folder}" for path, log in logs if "-stray" in (log.renamed_to or "")
        }


def is_untold(plan: PlannedNode, role: Role, answer: dict[str, Any]) -> bool:
    """Whether only the metadata log, which is lost, tells what the node does."""
    if not plan.forgets or "controller" not in role.roles:
        return False
    # A controller alone loads no log; a broker in it sets aside its logs, and cannot in a log dir that is offline.
    return role.roles == "controller" or bool(plan.offline and not answer["starts"])


def differences(plan: PlannedNode, role: Role, answer: dict[str, Any]) -> list[str]:
    """Where the node did something else."""
    if plan.outcome is Outcome.UNKNOWN or is_untold(plan, role, answer):
        return []
    if (plan.outcome is not Outcome.BROKER_STOPS) != answer["starts"]:
        said = [answer["message"], *answer["errors"][:3]]
        return [f"{plan.outcome} planned ({plan.reason}), {answer['starts']}: {said}"]
    if not answer["starts"] or "broker" not in role.roles:
        return []
    found = []
    offline = set(answer["folders"]) - set(answer["live"])
    if offline != plan.offline:
        found.append(f"offline {plan.offline} planned, {offline} of the node")
    planned, strays = dict(plan.logs), set(plan.strays)
    if plan.forgets:
        strays = set() if role.roles == "broker" else {*strays, *planned}
        planned = {path: planned[path] for path in planned if path not in strays}
    planned = {path: ends for path, ends in planned.items() if os.path.dirname(path) not in offline}
    new = {each.missing.name for each in plan.lost if each.missing.log_dir not in offline}
    logs = {path: ends for path, ends in answer["logs"].items() if "-future" not in path}
    for path, ends in logs.items():
        if path not in planned and plan.forgets and ends == [0, 0]:
            continue  # made anew: only the metadata could tell that it was here
        if path not in planned and offline and ends == [0, 0]:
            continue  # of the log dir that is offline: a race in the node makes it anew in the other
        if path not in planned and os.path.basename(path) not in new:
            found.append(f"{path} {ends} of the node, not planned")
        elif path not in planned and ends != [0, 0]:
            found.append(f"{path} is new, but has {ends}")
        elif path in planned and planned[path] != ends:
            found.append(f"{path} {planned[path]} planned, {ends} of the node")
    found += [f"{path} planned, not of the node" for path in planned if path not in logs]
    missing = new - {os.path.basename(path) for path in logs}
    found += [f"{name} is not made anew" for name in sorted(missing)]
    kept = {
        name.rpartition(".")[0]
        for each in answer["folders"].values()
        for name in each
        if name.endswith("-stray")
    }
    if kept != {os.path.basename(path) for path in strays}:
        found.append(f"strays {sorted(strays)} planned, {sorted(kept)} of the node")
    return found


def one_start(
    judge: NodeJudge, sound: list[Cluster], top: Path, seed: int
) -> tuple[list[str], list[str], PlannedNode]:
    """Damage a copy, plan its start, and start it: what was done, where plan and node differ."""
    cluster = sound[seed % len(sound)].copy(top)
    role = cluster.roles[seed // len(sound) % len(cluster.roles)]
    acts = HurtNode(seed, cluster.paths(role)).hurt()
    plan = PlannedNode([path for path in cluster.paths(role) if path.exists()])
    answer = cluster.run(judge, role, seconds=40)
    shutil.rmtree(top)
    return (
        [f"{sound[seed % len(sound)].top.name} node {role.node}", *acts],
        differences(plan, role, answer),
        plan,
    )


@pytest.mark.parametrize("seed", range(SEED, SEED + STARTS, AT_ONCE))
def test_a_planned_start_is_what_a_node_does(
    judge: NodeJudge, sound: list[Cluster], tmp_path: Path, seed: int
) -> None:
    wrong = {}
    for number in range(seed, seed + AT_ONCE):
        acts, found, _ = one_start(judge, sound, tmp_path / str(number), number)
        if found:
            wrong[f"{number} {acts}"] = found
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())
