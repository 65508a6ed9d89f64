"""`check --spark` and `stats --spark` say what the local commands say, however partitions are cut into tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.fixtures_data import copy_of, log_dir
from tests.hurt_folders import Hurt
from tests.kafkafs.masked_source import POLICY, write_source, written_policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

CURRENT, LEGACY = str(log_dir("current")), str(log_dir("legacy"))
WHOLE, CUT = 128 << 20, 1
"""Bytes of a task: partitions as a whole, and each segment in a task of its own."""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def check_same(command: str, *arguments: object) -> Result:
    here = run(command, *arguments)
    there = run(command, *arguments, "--spark", "local[2]")
    assert there.stdout == here.stdout, repr(there.exception)
    assert (there.exit_code, there.stderr) == (here.exit_code, here.stderr)
    return here


@pytest.fixture(params=[WHOLE, CUT])
def cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkafs.spark.checking.TASK_BYTES", request.param)


ARGUMENTS: list[list[str]] = [
    ["check", CURRENT],
    ["check", LEGACY, "--json"],
    ["check", CURRENT, "--topic", "orders,txn", "--severity", "warning"],
    ["check", CURRENT, "--rule", "index-missing"],
    ["stats", CURRENT],
    ["stats", LEGACY, "--json"],
    ["stats", CURRENT, "--hours", "--topic", "orders*"],
    ["stats", CURRENT, "--deleted", "--json"],
    ["stats", CURRENT, "--keys"],
    ["stats", CURRENT, "--keys", "--deleted", "--json"],
]


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
def test_the_output_is_that_of_the_local_command(spark: SparkSession, arguments: list[str]) -> None:
    check_same(*arguments)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("seed", range(6))
def test_damage_is_found_as_the_local_command_finds_it(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    source = copy_of("sample", tmp_path, ["orders-0", "txn-0"])
    for place, name in enumerate(("orders-0", "txn-0")):
        Hurt(10 * seed + place, source / name).hurt()
    check_same("check", source)
    check_same("stats", source, "--json")
    here, there = (run("stats", source, "--keys", *more) for more in ([], ["--spark", "local[2]"]))
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)
    # Of two batches out of order, executors may name the first, and not the second.
    assert len(there.stderr.splitlines()) == len(here.stderr.splitlines())


def test_masked_keys_are_masked(spark: SparkSession, tmp_path: Path) -> None:
    write_source(tmp_path / "data")
    check_same("stats", tmp_path / "data", "--keys", "--mask", written_policy(tmp_path, POLICY))


@pytest.mark.parametrize("option", [["--replica", CURRENT], ["--sample", "50%"], ["--resume", "x"]])
def test_what_executors_cannot_do_is_refused(option: list[str]) -> None:
    done = run("check", CURRENT, "--spark", "local[2]", *option)
    assert done.exit_code == 2
    assert "--spark cannot be combined with" in done.stderr
