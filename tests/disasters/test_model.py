"""Disasters of a modelled cluster: nothing acknowledged that a disk holds is lost, and no transaction is torn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.recover.options import RecoverOptions
from engine.recover.recovering import recover
from tests.disasters.judge import problems
from tests.disasters.model import NODES, Model

SEEDS = range(int(os.environ.get("KAFKAFS_DISASTERS") or 12))


@pytest.mark.parametrize("bumps", [False, True], ids=["version 1", "version 2"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_loses_nothing(seed: int, bumps: bool, tmp_path: Path) -> None:
    model = Model(seed, unclean=False, bumps=bumps)
    model.run(150 + seed % 200)
    assert problems(model, tmp_path, no_power_loss=True) == []


@pytest.mark.parametrize("bumps", [False, True], ids=["version 1", "version 2"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_power_failure_loses_nothing_that_a_disk_holds(
    seed: int, bumps: bool, tmp_path: Path
) -> None:
    model = Model(seed + 1000, unclean=False, bumps=bumps)
    model.run(150 + seed % 200)
    model.cut(most_disks=3)
    assert problems(model, tmp_path) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_what_an_unclean_election_lost_is_set_aside(seed: int, tmp_path: Path) -> None:
    model = Model(seed + 2000, unclean=True, bumps=True)
    model.run(150 + seed % 200)
    found = problems(model, tmp_path)
    # An unclean election tears transactions by itself.
    assert [each for each in found if " transaction " not in f" {each} "] == []


@pytest.mark.parametrize("seed", range(3))
def test_what_is_set_aside_can_be_read(seed: int, tmp_path: Path) -> None:
    model = Model(seed + 3000, unclean=True, bumps=True)
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
    options = RecoverOptions(nodes=str(nodes))
    report = recover(model.write(tmp_path / "dead"), str(target), options).report
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
        assert tail["acknowledged"].startswith("possible: no metadata")
        source.close()
