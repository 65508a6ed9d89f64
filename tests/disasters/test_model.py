"""Disasters of a modelled cluster: nothing acknowledged that a disk holds is lost, and no transaction is torn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.recover.options import RecoverOptions
from engine.recover.planning import RecoveryPlan
from engine.recover.recovering import recover
from tests.disasters import cases
from tests.disasters.cases import Case
from tests.disasters.disks import image, write
from tests.disasters.model import NODES, Load, Model

SEEDS = range(int(os.environ.get("KAFKAFS_DISASTERS") or 24))
MENDED = {
    11: "the leader epoch of the only good batch of a copy was damaged, and the copy led",
    113: "the markers of older transactions were deleted with records below the log start",
    228: "they were, and the coordinator's newest record was lost",
    703: "older transactions were in a topic that was made anew",
    927: "the only transaction that the coordinator knew had ended before the data",
    1708: "an end marker was damaged, and that of the producer's next transaction counted",
    1726: "a disk of an earlier moment had an older topic of the same name",
    1827: "an end marker was damaged, and the coordinator knew how the transaction ended",
}
"""Seeds of disasters after which a recovery was once wrong."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recovery_has_no_anomaly(seed: int, tmp_path: Path) -> None:
    case = Case(seed)
    assert case.problems(tmp_path) == [], sorted(case.kinds)


@pytest.mark.parametrize("seed", MENDED, ids=str)
def test_what_was_mended_stays_so(seed: int, tmp_path: Path) -> None:
    assert Case(seed).problems(tmp_path) == [], MENDED[seed]


def test_a_recovery_that_loses_the_end_of_a_log_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(0)
    plan = cases.plan_recovery

    def forgetful(*given: object) -> RecoveryPlan:
        made = plan(*given)  # type: ignore[arg-type]
        for each in made.partitions.values():
            del each.survey.pieces[-1:]
        return made

    monkeypatch.setattr(cases, "plan_recovery", forgetful)
    assert any("is lost" in each for each in case.problems(tmp_path))


@pytest.mark.parametrize("seed", [3002, 3009])
def test_what_is_set_aside_can_be_read(seed: int, tmp_path: Path) -> None:
    model = Model(seed, Load(unclean=True))
    model.run(400)
    (tmp_path / "dead").mkdir()
    nodes = tmp_path / "nodes.toml"
    nodes.write_text(
        "".join(
            f"[[node]]\nid = {node}\n"
            f'listeners = {{ PLAINTEXT = "h{node}:1", CONTROLLER = "h{node}:2" }}\n'
            for node in NODES
        )
    )
    target = tmp_path / "target"
    paths = write([image(model, node) for node in NODES], tmp_path / "dead")
    report = recover(paths, str(target), RecoverOptions(nodes=str(nodes))).report
    tails = [tail for each in report["partitions"] for tail in each["aside"]]
    assert tails
    for tail in tails:
        source = open_source(str(target / tail["file"]))
        [log] = source.partitions().values()
        view = log.view()
        assert (view.base_offsets[0], view.log_end_offset) == (
            tail["firstOffset"],
            tail["nextOffset"],
        )
        assert tail["acknowledged"].startswith(("possible: ", "impossible: "))
        source.close()
