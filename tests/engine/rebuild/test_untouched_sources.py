"""Fault 140: what loads a log as a broker does, truncates it and deletes from it, never runs on the source."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from engine.plan.start_plan import StartPlan
from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.rebuilding import rebuild
from tests.engine.rebuild.made_logs import MadeLog, make_log, state_of


def hurt_log(folder: Path) -> MadeLog:
    """A log in which a broker's loader would change almost every file."""
    made = make_log(folder / "source", Random(9), segments=4)
    last = made.path(made.bases[-1])
    last.write_bytes(last.read_bytes() + b"\xff" * 50)  # would be cut off
    last.with_suffix(".index").write_bytes(b"Hello, world")  # would be made again
    last.with_suffix(".timeindex").write_bytes(b"Hello, world1")
    first = made.path(made.bases[0])
    for suffix in (".log.deleted", ".index.deleted", ".log.cleaned"):  # would go
        first.with_suffix(suffix).write_bytes(b"gone")
    (made.folder / f"{10**9:020}.snapshot").write_bytes(b"stray")
    (made.folder / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 99999999\n")
    return made


@pytest.mark.parametrize(
    "options",
    [
        RebuildOptions(),
        RebuildOptions(deleted=True, below_log_start=True),
        RebuildOptions(mode=Mode.BROKER, clean=False),
    ],
    ids=["salvage", "salvage all", "as a broker"],
)
def test_fault_140_a_rebuild_loads_its_own_copy_alone(
    tmp_path: Path, options: RebuildOptions
) -> None:
    made = hurt_log(tmp_path)
    before = state_of(made.log_dir)
    rebuild(str(made.log_dir), str(tmp_path / "target"), options)
    assert state_of(made.log_dir) == before


def test_fault_140_a_planned_start_changes_nothing(tmp_path: Path) -> None:
    made = hurt_log(tmp_path)
    before = state_of(made.log_dir)
    with StartPlan([str(made.log_dir)], clean=False) as start:
        ((_, log),) = start.logs()
    assert not log.is_harmless
    assert state_of(made.log_dir) == before
