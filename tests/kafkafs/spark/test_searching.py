"""`kafkafs grep --spark` prints what `kafkafs grep` prints, and exits as it does, however the logs are cut."""

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
from tests.schema_truth import schema_log_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

CURRENT, LEGACY = str(log_dir("current")), str(log_dir("legacy"))
CONFLUENT = str(schema_log_dir("schemas-confluent"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)))


def cut_small(patch: pytest.MonkeyPatch, split: int, task: int) -> None:
    patch.setattr("kafkafs.spark.searching.SPLIT_BYTES", split)
    patch.setattr("kafkafs.spark.searching.TASK_BYTES", task)


def outcome(done: Result) -> tuple[int, bytes, list[str]]:
    return done.exit_code, done.stdout_bytes, output_of(done.stderr)


def check_same(*arguments: object) -> Result:
    here = run("grep", *arguments)
    there = run("grep", *arguments, "--spark", "local[2]")
    assert outcome(there) == outcome(here), repr(there.exception)
    return here


ARGUMENTS: list[list[str]] = [
    ["a", CURRENT],
    ["a", LEGACY],
    ["-c", "Lagos", CURRENT, "--topic", "orders"],
    ["-l", "Lagos", CURRENT],
    ["-l", "--json", "--deleted", "a", CURRENT],
    ["-on", "L.gos|k1[0-9]", CURRENT],
    ["-o", "--json", "9f", CURRENT, "--field", "headers"],
    ["-m", "7", "o", CURRENT],
    ["-vc", "Lagos", CURRENT],
    ["-i", "-w", "lagos", CURRENT, "orders-0/offset/100..300", "txn-0/committed"],
    ["--committed", "a", CURRENT, "--topic", "txn"],
    ["--committed", "a", CURRENT, "--topic", "txn", "--at", "txn-0@300"],
    ["--deleted", "a", CURRENT],
    ["--deleted-all", "-c", "a", CURRENT],
    ["(?=Lagos)L", CURRENT, "time/2023-11-14T22:20..2023-11-14T22:30"],
    ['"group":', CURRENT, "--topic", "__consumer_offsets"],
    ["--format", "%t %p %o %k\\n", "Oslo", CURRENT],
    ["nobody knows this", CURRENT],
    ["--where", ".offset % 500 == 3", CURRENT],
    ["--where", ".value.city == 1 or (.value | keys | length > 3)", CURRENT],
    ["--where", ".key == 1", CURRENT, "-e", "o"],
    ["e", CONFLUENT, "--topic", "avro*,proto*,json*"],
    ["e", CONFLUENT, "--schemas", "none"],
]  # fmt: skip


@pytest.mark.parametrize("cut", [(20_000, 100_000)], ids=str)
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=" ".join)
def test_the_output_is_that_of_the_local_command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, arguments: list[str], cut: tuple[int, int]
) -> None:
    cut_small(monkeypatch, *cut)
    check_same(*arguments)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_logs_are_searched_as_the_local_command_searches_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    source = copy_of("sample", tmp_path, ["orders-0", "txn-0"])
    for place, name in enumerate(("orders-0", "txn-0")):
        Hurt(10 * seed + place, source / name).hurt()
    check_same("-c", "a", source)
    check_same("o", source)
    check_same("--json", "o", source, "orders-0/offset/300..700", "--deleted")


def test_a_log_that_is_cut_at_each_index_entry_gives_each_record_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cut_small(monkeypatch, 1, 1)
    check_same("", CURRENT, "orders-0/offset/5..600")


def test_enough_matches_end_the_search(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_small(monkeypatch, 1, 1)
    check_same("-m", "3", "Lagos", CURRENT, "--topic", "orders")
    check_same("-q", "Lagos", CURRENT, "--topic", "orders")
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_masks_hide_the_same_and_what_they_met_is_told(spark: SparkSession, tmp_path: Path) -> None:
    write_source(tmp_path / "data")
    for text in (POLICY, POLICY.replace(".value.secret", ".value.secrt")):
        policy = written_policy(tmp_path, text)
        for more in ([], ["--mask-strict"]):
            done = check_same("--where", "true", tmp_path / "data", "--mask", policy, *more)
    assert "that was shown has .value.secrt" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["-C", "1", "Lagos", CURRENT],
        ["-B", "2", "-n", "Lagos", CURRENT, "--topic", "ord*"],
        ["-A", "3", "-m", "5", "Lagos", CURRENT],
        ["-C", "2", "-m", "100", "Lagos", CURRENT, "--topic", "orders"],
        ["-C", "2", "-m", "85", "o", CURRENT, "orders-0/offset/0..80", "orders-1", "txn-0"],
        ["-C", "1", "nobody knows this", CURRENT],
        ["-C", "1", "--deleted", "a", CURRENT],
        ["-C", "1", "--where", ".offset % 500 == 3", CURRENT],
    ],
    ids=" ".join,
)
def test_context_is_that_of_the_local_command(spark: SparkSession, arguments: list[str]) -> None:
    check_same(*arguments)


@pytest.mark.parametrize("seed", range(3))
def test_context_goes_on_after_damage(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    source = copy_of("sample", tmp_path, ["orders-0", "orders-1"])
    for place, name in enumerate(("orders-0", "orders-1")):
        Hurt(10 * seed + place, source / name).hurt()
    check_same("-C", "2", "Lagos", source)
    check_same("-C", "2", "-m", "90", "Lagos", source)


def test_properties_without_a_master_are_refused() -> None:
    done = run("grep", "a", CURRENT, "--spark-conf", "spark.executor.memory=4g")
    assert done.exit_code == 2
    assert "give --spark MASTER, too" in done.stderr
