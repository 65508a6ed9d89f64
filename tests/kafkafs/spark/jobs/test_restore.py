"""A restore makes the logs that were exported, and refuses what is no export, or not the whole of one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from kafkafs.cli import cli
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.restore import restore
from tests.builders import write_segment
from tests.fixtures_data import log_dir, truth_offsets, truth_records
from tests.kafkafs.spark.sink.written_frames import bounds_of, findings_in, records_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = "orders,trimmed,txn,append-time,weird"


def export(source: Path, target: Path, *more: str) -> Result:
    done = CliRunner().invoke(cli, ["export", str(source), str(target), *more, "--json"])
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def exported(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("exported") / "out"
    export(log_dir("current"), target, "--format", "orc", "--topic", TOPICS)
    return target


def test_logs_are_those_that_were_exported(
    spark: SparkSession, exported: Path, tmp_path: Path
) -> None:
    summary = restore(spark, str(exported), str(tmp_path / "made"), codec="zstd", tasks=3)
    assert summary.findings == 0
    names = {each["partition"] for each in summary.partitions}
    assert {"orders-0", "trimmed-0", "txn-0", "append-time-0", "weird-0"} <= names
    offsets = truth_offsets("current")
    for name in names:
        found = [
            (
                *(each.offset, each.timestamp, each.key, each.value),
                tuple((header.key.decode(), header.value) for header in each.headers),
            )
            for each in records_of(tmp_path / "made", name)
        ]
        assert found == [
            (each.offset, each.timestamp, each.key, each.value, each.headers)
            for each in truth_records("current", name)
        ], name
        bounds = offsets[name]["earliest"], offsets[name]["latest"]
        assert bounds_of(tmp_path / "made", name) == bounds, name
    wrong = [each for each in findings_in(tmp_path / "made") if not each.startswith("gap-")]
    assert wrong == []
    assert summary.records == sum(len(truth_records("current", name)) for name in names)
    assert os.listdir(tmp_path) == ["made"]


def test_partitions_without_a_record_begin_where_they_did(
    spark: SparkSession, tmp_path: Path
) -> None:
    topics = "empty,orders"
    source = tmp_path / "logs"
    shutil.copytree(log_dir("current"), source)
    write_segment(source / "empty-7", [], base_offset=4200)
    done = export(source, tmp_path / "out", "--topic", topics)
    counts = {each["topic"]: each["records"] for each in json.loads(done.stdout)["topics"]}
    assert counts["empty"] == 0
    summary = restore(spark, str(tmp_path / "out"), str(tmp_path / "made"))
    assert summary.findings == 0
    assert bounds_of(tmp_path / "made", "empty-7") == (4200, 4200)
    found = {each["partition"] for each in summary.partitions}
    assert found == {
        path.name for path in source.iterdir() if path.name.rpartition("-")[0] in topics.split(",")
    }


def test_the_command_renames_topics_and_gives_them_ids(
    spark: SparkSession, exported: Path, tmp_path: Path
) -> None:
    given = "sgf5MsZgRTuEMv68ZXKJbQ"
    command = ["spark", "restore", str(exported), str(tmp_path / "made"), "--topic", "orders"]
    more = ["--rename", "orders=old-orders", "--topic-id", f"old-orders={given}", "--json"]
    done = CliRunner().invoke(cli, [*command, *more])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert facts["topicIds"] == {"old-orders": given}
    assert {each["partition"].rpartition("-")[0] for each in facts["partitions"]} == {"old-orders"}
    assert len(records_of(tmp_path / "made", "old-orders-0")) == len(
        truth_records("current", "orders-0")
    )
    again = CliRunner().invoke(cli, command)
    assert again.exit_code == 2
    assert "already exists and is not empty" in again.stderr


def test_files_that_went_from_an_export_are_a_finding(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "out"
    export(log_dir("sample"), target, "--format", "csv", "--topic", "orders,txn")
    for path in target.glob("topic=txn/*/*.csv"):
        path.unlink()
    summary = restore(spark, str(target), str(tmp_path / "made"))
    assert summary.missing == {"txn": (len(truth_records("current", "txn-0")), 0)}
    assert summary.findings == 1
    assert "MISSING" in [row[0] for table in summary.tables() for row in table.rows]


def test_what_cannot_be_restored_is_refused(
    spark: SparkSession, exported: Path, tmp_path: Path
) -> None:
    target = str(tmp_path / "made")
    (tmp_path / "begun" / "_export").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    manifest = (exported / "_export" / "manifest.json").read_bytes()
    (tmp_path / "begun" / "_export" / "manifest.json").write_bytes(manifest)
    cases: list[tuple[str, dict[str, object], str]] = [
        (str(tmp_path / "empty"), {}, "is not an export"),
        (str(tmp_path / "begun"), {}, "is unfinished: resume it"),
        (str(exported), {"topics": "nothing"}, "the export has no topic 'nothing'"),
        (str(exported), {"renames": {"nothing": "x"}}, "the export has no topic 'nothing'"),
        (str(exported), {"renames": {"orders": "x", "txn": "x"}}, "the same new name"),
        (str(exported), {"offsets": "assign"}, "a restore sets the option 'offsets' itself"),
        (str(exported), {"codec": "lzma"}, "'codec' is one of"),
    ]
    for source, keywords, words in cases:
        with pytest.raises(OptionError, match=words):
            restore(spark, source, target, **keywords)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="inside the source"):
        restore(spark, str(exported), str(exported / "made"))
    assert sorted(os.listdir(tmp_path)) == ["begun", "empty"]
