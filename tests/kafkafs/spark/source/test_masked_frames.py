"""`spark.read.format("kafkalog").option("mask", …)`: frames without what the policy hides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.sql import SparkSession

from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.options.read_options import parse_options
from tests.kafkafs.masked_source import CANARY, found_in, write_source, written_policy
from tests.spark_session import spark

__all__ = ["spark"]


def rows(spark: SparkSession, source: Path, **options: str) -> list[dict[str, Any]]:
    """Return all rows of a frame."""
    reader = spark.read.format("kafkalog").option("path", str(source))
    found = reader.options(onCorrupt="row", **options).load().collect()
    return [row.asDict(recursive=True) for row in found]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked") / "data"
    write_source(folder)
    return folder


@pytest.mark.parametrize(
    "options",
    [
        {"includeHeaders": "true"},
        {"decode": "true", "includeHeaders": "true"},
        {"view": "batches"},
        {"view": "segments"},
    ],
    ids=str,
)
def test_no_row_has_the_canary(
    spark: SparkSession, source: Path, tmp_path: Path, options: dict[str, str]
) -> None:
    masked = rows(spark, source, mask=written_policy(tmp_path), **options)
    plain = rows(spark, source, **options)
    assert len(masked) == len(plain) > 3
    assert found_in(repr(masked).encode()) == []
    if "view" not in options:
        assert found_in(repr(plain).encode()) != []
    elif options["view"] == "batches":
        hidden = [row for row in masked if row["topic"].startswith("customers")]
        assert {row["crc"] for row in hidden} == {None}
        assert None not in {row["crc"] for row in masked if row["topic"] == "other"}


def test_a_filter_sees_masked_values(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    policy = written_policy(tmp_path)
    reader = spark.read.format("kafkalog").options(path=str(source), mask=policy, onCorrupt="skip")
    frame = reader.load()
    assert frame.filter(f"cast(key as string) = 'key-{CANARY}'").count() == 0
    assert frame.filter("topic = 'other' and cast(value as string) like '%sesame%'").count() == 3


def test_rows_are_those_of_the_record_lines(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    import kafkafs

    policy = written_policy(tmp_path)
    found = rows(spark, source, mask=policy, subscribe="customers-dlq")
    with kafkafs.open(source, mask=policy) as opened:
        expected = [(record.key, record.value) for record in opened["customers-dlq", 0]]
        lines = opened.read("customers-dlq-0/records/0.jsonl").splitlines()
    assert [(bytes(row["key"]), row["value"] and bytes(row["value"])) for row in found] == expected
    assert [json.loads(line)["key"].encode() for line in lines] == [key for key, _ in expected]


def test_a_stream_is_masked(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    policy = written_policy(tmp_path)
    stream = spark.readStream.format("kafkalog").options(
        path=str(source), mask=policy, startingOffsets="earliest", onCorrupt="skip"
    )
    query = (
        stream.load()
        .writeStream.format("memory")
        .queryName("masked")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    found = [row.asDict() for row in spark.table("masked").collect()]
    assert len(found) > 50
    assert found_in(repr(found).encode()) == []


@pytest.mark.parametrize("mask", ["none.toml", "broken.toml"])
def test_a_policy_that_cannot_be_used_is_an_error(
    spark: SparkSession, source: Path, tmp_path: Path, mask: str
) -> None:
    (tmp_path / "broken.toml").write_text("rules = [")
    with pytest.raises(Exception, match="'mask'"):
        rows(spark, source, mask=str(tmp_path / mask))


def test_searches_for_masked_keys_are_refused(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    policy = written_policy(tmp_path)
    for option in ("keyEquals", "keyPattern"):
        with pytest.raises(Exception, match="keys that the mask hides"):
            rows(spark, source, mask=policy, **{option: "x"})


def test_options_with_a_mask_read_nothing_before_the_policy_is_read(tmp_path: Path) -> None:
    options = parse_options({"path": "/data", "mask": str(tmp_path / "none.toml")})
    with pytest.raises(OptionError, match="was not read"):
        _ = options.rows
    with pytest.raises(OptionError, match="is empty"):
        parse_options({"path": "/data", "mask": " "})


def test_what_a_mask_changes_is_refused() -> None:
    given = {"path": "/data", "mask": "mask.toml", "decode": "true", "decodeMode": "failfast"}
    with pytest.raises(OptionError, match="'decodeMode' is not for 'mask'"):
        parse_options(given)
