"""`check --spark` and `stats --spark` say what the local commands say, however partitions are cut into tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.doc_sessions import output_of
from tests.fixtures_data import copy_of, log_dir
from tests.hurt_folders import Hurt
from tests.kafkafs.masked_source import POLICY, write_source, written_policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

CURRENT, LEGACY = str(log_dir("current")), str(log_dir("legacy"))
SPARK = ("--spark", "local[2]")
WHOLE, CUT = 128 << 20, 1
"""Bytes of a task: partitions as a whole, and each segment in a task of its own."""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def check_same(command: str, *arguments: object) -> Result:
    here = run(command, *arguments)
    there = run(command, *arguments, *SPARK)
    assert there.stdout == here.stdout, repr(there.exception)
    assert (there.exit_code, output_of(there.stderr)) == (here.exit_code, output_of(here.stderr))
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
    here, there = (run("stats", source, "--keys", *more) for more in ([], list(SPARK)))
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)
    # Of two batches out of order, executors may name the first, and not the second.
    assert len(output_of(there.stderr)) == len(output_of(here.stderr))


def test_masked_keys_are_masked(spark: SparkSession, tmp_path: Path) -> None:
    write_source(tmp_path / "data")
    check_same("stats", tmp_path / "data", "--keys", "--mask", written_policy(tmp_path, POLICY))


@pytest.mark.parametrize("option", [["--replica", CURRENT], ["--evidence", "x"]])
def test_what_executors_cannot_do_is_refused(option: list[str]) -> None:
    done = run("check", CURRENT, *SPARK, *option)
    assert done.exit_code == 2
    assert "leave out --spark" in done.stderr


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize(
    "scope",
    [
        ["--part", "1/2"],
        ["--part", "2/2", "--json"],
        ["--sample", "30%", "--seed", "7"],
        ["--sample", "100%", "--seed", "1", "--json"],
        ["--max-duration", "0s"],
        ["--max-duration", "1h", "--json"],
        ["--topic", "ord*,/^tx/", "--partition", "0"],
    ],
    ids=" ".join,
)
def test_a_part_of_the_source_is_the_same_part(
    spark: SparkSession, tmp_path: Path, scope: list[str]
) -> None:
    source = copy_of("sample", tmp_path)
    for name in ("orders-0", "txn-0"):
        Hurt(3, source / name).hurt()
    check_same("check", source, *scope)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("seed", range(3))
def test_a_check_that_was_stopped_goes_on_there_and_here(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    source = copy_of("sample", tmp_path / "data")
    for place, name in enumerate(("orders-0", "txn-0")):
        Hurt(seed + place, source / name).hurt()
    whole = run("check", source, "--jobs", "1", "--resume", tmp_path / "progress")
    there = run("check", source, "--resume", tmp_path / "there", *SPARK)
    assert there.stdout == whole.stdout
    written = (tmp_path / "there").read_bytes().splitlines(keepends=True)
    local = (tmp_path / "progress").read_bytes().splitlines(keepends=True)
    assert len(written) == len(local) == 5
    for lines, options in ((written, ()), (local, SPARK)):
        kept = tmp_path / "kept"
        kept.write_bytes(b"".join(lines[:2]))
        again = run("check", source, "--jobs", "1", "--resume", kept, *options)
        assert "1 partition of 3 checked before" in again.stderr
        assert sorted(again.stdout.splitlines()) == sorted(whole.stdout.splitlines())
