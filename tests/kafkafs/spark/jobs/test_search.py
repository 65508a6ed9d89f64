"""A search finds what a look at every record finds, and no more."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.fixtures_data import TruthRecord, copy_of, log_dir, truth_partitions, truth_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.sql import DataFrame, functions as F  # noqa: N812

from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.files.exported_rows import read_files
from kafkafs.spark.jobs.record_filter import Predicate
from kafkafs.spark.jobs.search import find, search

Is = Callable[[TruthRecord], bool]


def has(pattern: bytes, data: bytes | None, flags: int = 0) -> bool:
    return data is not None and re.search(pattern, data, flags) is not None


CASES: dict[str, tuple[Predicate, Is]] = {
    "value": (Predicate(value="Lagos"), lambda record: has(b"Lagos", record.value)),
    "fixed": (Predicate(value='": 7', fixed=True), lambda record: has(b'": 7', record.value)),
    "case": (
        Predicate(value="lagos|OSLO", ignore_case=True),
        lambda record: has(b"lagos|OSLO", record.value, re.IGNORECASE),
    ),
    "both": (
        Predicate(key="^k1", value="Lagos"),
        lambda record: has(b"^k1", record.key) and has(b"Lagos", record.value),
    ),
    "header": (
        Predicate(headers=(("trace-id", "^[0-4]"), ("empty", None))),
        lambda record: (
            any(name == "trace-id" and has(b"^[0-4]", value) for name, value in record.headers)
            and any(name == "empty" for name, _ in record.headers)
        ),
    ),
    "anywhere": (
        Predicate(anywhere="9f"),
        lambda record: (
            has(b"9f", record.key)
            or has(b"9f", record.value)
            or any(has(b"9f", name.encode()) or has(b"9f", value) for name, value in record.headers)
        ),
    ),
    "null": (Predicate(value="^$"), lambda record: record.value == b""),
}


def test_it_finds_what_a_look_at_every_record_finds(spark: SparkSession) -> None:
    kind = "current"
    wanted = {
        (name, partition, record.offset)
        for partition in truth_partitions(kind)
        if not partition.startswith("__") and "-delete" not in partition
        for record in truth_records(kind, partition)
        for name, (_, is_wanted) in CASES.items()
        if is_wanted(record)
    }
    assert {name for name, _, _ in wanted} == set(CASES)
    frames = [
        find(spark, str(log_dir(kind)), predicate).select(
            F.lit(name), F.concat_ws("-", "topic", "partition"), "offset"
        )
        for name, (predicate, _) in CASES.items()
    ]
    found = [tuple(row) for row in reduce(DataFrame.unionAll, frames).collect()]
    assert len(set(found)) == len(found)
    assert set(found) == wanted


def test_the_first_are_brought_back_as_record_lines_and_all_are_counted(
    spark: SparkSession,
) -> None:
    source = str(log_dir("current"))
    found = search(spark, source, Predicate(anywhere="a"), topics="orders,txn,weird", most=700)
    lines = b"".join(found.lines()).decode().splitlines(keepends=True)
    printed: list[str] = []
    total = 0
    for partition in ("orders-0", "orders-1", "txn-0", "weird-0"):
        done = CliRunner().invoke(cli, ["grep", "a", source, partition])
        # grep shows control records as well
        some = [each for each in done.stdout.splitlines(keepends=True) if '"control":' not in each]
        printed += some
        total += len(some)
    assert lines == printed[:700]
    assert (found.records, found.findings) == (total, 0)
    assert any('"transaction":{' in each for each in printed)


def test_all_that_is_found_is_written_as_an_export_lies(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = str(log_dir("sample")), str(tmp_path / "out")
    given: dict[str, Any] = {"where": "offset < 500", "keyEquals": "k341"}
    found = search(spark, source, Predicate(), target=target, form="csv", **given)
    rows = read_files(spark, target, "csv").orderBy("partition", "offset").collect()
    wanted = [
        (number, record.offset, record.value)
        for number in (0, 1)
        for record in truth_records("current", f"orders-{number}")
        if record.key == b"k341" and record.offset < 500
    ]
    assert [(row["partition"], row["offset"], bytes(row["value"])) for row in rows] == wanted
    assert (found.records, list(found.rows), found.target) == (len(wanted), [], f"file://{target}")
    with pytest.raises(OptionError, match="is not empty"):
        search(spark, source, Predicate(key="k"), target=target)


def test_what_internal_topics_say_is_searched(spark: SparkSession) -> None:
    source = str(log_dir("current"))
    predicate = Predicate(key='"group":')
    found = search(spark, source, predicate, includeInternalTopics=True, most=5)
    assert found.records > 0
    assert {row["topic"] for row in found.rows} == {"__consumer_offsets"}
    first = json.loads(next(found.lines()))
    assert first["keyEncoding"] == "kafka"


def test_damaged_places_are_told_and_the_rest_is_searched(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = copy_of("sample", tmp_path, ["orders-0"])
    path = source / "orders-0" / "00000000000000000395.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = search(spark, str(source), Predicate(key="^k"), most=0)
    assert found.damaged == 1
    assert 980 < found.records < 1000
    assert json.loads(found.damages[0])["file"] == str(path)


@pytest.mark.parametrize(
    ("predicate", "given", "said"),
    [
        (Predicate(), {}, "name something to search for"),
        (Predicate(value="("), {}, "not a regular expression"),
        (Predicate(value="a"), {"where": "valeu is null"}, "valeu"),
        (Predicate(value="a"), {"decode": True}, "this job has no option 'decode'"),
    ],
)
def test_what_cannot_be_is_one_error(
    spark: SparkSession, predicate: Predicate, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        search(spark, str(log_dir("sample")), predicate, **given)
