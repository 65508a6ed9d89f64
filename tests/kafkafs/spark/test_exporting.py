"""`kafkafs export --spark` writes the files that `kafkafs export` writes, to a path or through Hadoop's client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.builders import Rec, batch
from tests.fixtures_data import copy_of, log_dir, truth_records
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.evolving_topic import evolving
from tests.kafkafs.masked_source import CANARY, POLICY, write_source, written_policy
from tests.schema_truth import schema_log_dir
from tests.spark_rows import Seen, by_partition, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

import fastavro
import pyarrow.dataset as ds

from kafkafs.spark.jobs.files.exported_rows import read_files

CURRENT, SAMPLE = str(log_dir("current")), str(log_dir("sample"))
CONFLUENT = str(schema_log_dir("schemas-confluent"))
SPARK = ("--spark", "local[2]")


def export(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["export", *map(str, arguments)])


def facts_of(done: Result) -> dict[str, Any]:
    assert done.exit_code in (0, 1), done.output
    facts: dict[str, Any] = json.loads(done.stdout)
    for each in ("target", "seconds"):
        facts.pop(each, None)
    return facts


def contents(target: Path) -> dict[str, list[Any]]:
    """Rows, or lines, by folder: how files are cut is the tasks' affair."""
    found: dict[str, list[Any]] = {}
    for path in sorted(each for each in target.rglob("*") if each.is_file()):
        folder = path.relative_to(target).parent.as_posix()
        if folder.startswith("_") or path.name.startswith(("_", ".")):
            continue
        if path.suffix in (".parquet", ".orc", ".arrow"):
            form = {".arrow": "ipc"}.get(path.suffix, path.suffix[1:])
            rows: list[Any] = ds.dataset(path, format=form).to_table().to_pylist()
        elif path.suffix == ".avro":
            with path.open("rb") as file:
                rows = list(fastavro.reader(file))
        else:
            rows = path.read_bytes().splitlines()
        found[folder] = found.get(folder, []) + rows
    return {folder: sorted(map(repr, rows)) for folder, rows in found.items()}


def check_same(tmp_path: Path, *arguments: object) -> Result:
    source, *rest = arguments
    here = export(source, tmp_path / "here", *rest, "--json")
    there = export(source, tmp_path / "there", *rest, "--json", *SPARK)
    assert there.exit_code == here.exit_code, there.output
    facts = facts_of(there), facts_of(here)
    for each in facts:
        for topic in each["topics"]:  # sizes and numbers of files
            topic.pop("files", None), topic.pop("bytes", None), topic.pop("bytesWritten", None)
        each.pop("files", None), each.pop("bytesWritten", None)
    assert facts[0] == facts[1]
    assert contents(tmp_path / "there") == contents(tmp_path / "here")
    assert (tmp_path / "there/_SUCCESS").exists() == (tmp_path / "here/_SUCCESS").exists()
    return there


@pytest.mark.parametrize(
    "arguments",
    [
        [CURRENT],
        [CURRENT, "--format", "csv", "--internal", "--committed"],
        [CURRENT, "--format", "jsonl", "--internal", "--deleted"],
        [CURRENT, "--format", "orc", "--topic", "ord*,/^txn$/", "--from", "2023-11-14T23:00"],
        [CURRENT, "--format", "avro", "--partition", "0"],
        [SAMPLE, "--format", "arrow", "--columns", "offset,value", "--chunk-size", "100000"],
        [CONFLUENT, "--columns", "offset,decodedKey,decodedValue"],
        [CONFLUENT, "--decode", "columns", "-t", "python-avro,json-types,proto-known"],
    ],
    ids=lambda given: " ".join(given[1:]) or "parquet",
)
def test_the_files_are_those_of_the_local_command(
    spark: SparkSession, tmp_path: Path, arguments: list[str]
) -> None:
    check_same(tmp_path, *arguments)


def test_masks_hide_the_same(spark: SparkSession, tmp_path: Path) -> None:
    write_source(tmp_path / "data")
    for form in ("jsonl", "parquet"):
        policy = written_policy(tmp_path, POLICY)
        given = ("--mask", policy, "--on-corrupt", "skip", "--format", form)
        check_same(tmp_path / form, tmp_path / "data", *given)


def test_damage_ends_an_export_or_is_listed(spark: SparkSession, tmp_path: Path) -> None:
    source = copy_of("sample", tmp_path, ["orders-0"])
    path = source / "orders-0" / f"{395:020}.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = export(source, tmp_path / "out", *SPARK)
    assert (done.exit_code, done.stdout) == (3, "")
    assert f"{path}" in done.stderr
    assert "--on-corrupt skip" in done.stderr
    done = check_same(tmp_path, source, "--on-corrupt", "skip")
    assert done.exit_code == 1
    (file,) = (tmp_path / "there/_export/damage").iterdir()
    assert json.loads(json.loads(file.read_text())["damage"])["file"] == str(path)


def test_the_local_command_and_executors_continue_each_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "data", tmp_path / "out"
    log = BuiltLog(source)
    log.segment([batch([Rec(b"a")], 0)], 0)
    for number, more in enumerate(((), SPARK, (), SPARK)):
        assert facts_of(export(source, target, "--json", *more))["records"] == 1
        log.append(batch([Rec(b"b")], number + 1))
    assert facts_of(export(source, target, "--json", *SPARK))["recordsBefore"] == 4


def test_types_stay_those_of_the_first_run(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "data", tmp_path / "out"
    given = (target, "-t", "orders", "--decode", "columns", "--columns", "decodedValue", *SPARK)
    assert export(evolving(source, is_later=False), *given).exit_code == 0
    evolving(source, is_later=True)
    assert export(source, *given).exit_code == 0
    rows = sorted(row for rows in contents(target).values() for row in rows)
    assert rows == ["{'decodedValue': {'id': 1}}", "{'decodedValue': {'id': 2}}"]


def test_what_an_attempt_left_is_written_anew(tmp_path: Path) -> None:
    from kafkafs.spark.exporting import _remove_earlier

    folder = tmp_path / "records/topic=a/date=b"
    folder.mkdir(parents=True)
    for name in ("part-00001.csv", "part-00001-001.csv", "part-00010.csv", "part-00011.csv"):
        (folder / name).write_text("")
    _remove_earlier(str(tmp_path), 1)
    assert sorted(each.name for each in folder.iterdir()) == ["part-00010.csv", "part-00011.csv"]


def truth(name: str) -> list[Seen]:
    return [expected(each) for each in truth_records("current", name)]


@pytest.mark.parametrize("form", ["parquet", "orc", "csv"])
def test_a_target_that_hadoop_reaches_is_written_alike_and_can_be_restored(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    target = f"file:{tmp_path}/out"
    given = (SAMPLE, target, "--format", form, "--json", *SPARK)
    done = export(*given, "--topic", "txn")
    assert facts_of(done)["records"] > 0
    assert json.loads(done.stdout)["target"] == target
    again = facts_of(export(*given))
    assert (again["recordsBefore"], again["records"]) == (613, 2000)
    assert (tmp_path / "out/_SUCCESS").exists()
    found = by_partition(read_files(spark, target, form).toArrow().to_pylist())
    assert found == {name: truth(name) for name in ("orders-0", "orders-1", "txn-0")}
    other = export(SAMPLE, target, "--format", "jsonl", *SPARK)
    assert other.exit_code == 2
    assert f"begun with form '{form}', not 'jsonl'" in other.stderr


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nowhere://host/out", "nowhere"),
        (f"{SAMPLE}/out", "inside each other"),
        (" ", "name a folder"),
    ],
)
def test_targets_that_cannot_be_are_refused(spark: SparkSession, target: str, said: str) -> None:
    done = export(SAMPLE, target, *SPARK)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_no_records_are_no_export(spark: SparkSession, tmp_path: Path) -> None:
    done = export(CURRENT, tmp_path / "out", "--topic", "empty", *SPARK)
    assert done.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_a_mask_leaves_no_canary(spark: SparkSession, tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data", "customers-0")
    log.segment([batch([Rec(b'{"secret":"%s"}' % CANARY.encode())], 0)], 0)
    policy = written_policy(tmp_path, POLICY)
    done = export(
        tmp_path / "data", tmp_path / "out", "--mask", policy, "--format", "jsonl", *SPARK
    )
    assert CANARY not in done.output
    assert CANARY not in repr(contents(tmp_path / "out"))
