"""In a session: every partition's rows are what a consumer saw, however they are asked for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures_data import log_dir, truth_offsets, truth_partitions, truth_records
from tests.spark_rows import Seen, by_partition, expected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

ALL = {"includeHeaders": "true", "includeInternalTopics": "true"}


def load(spark: SparkSession, kind: str, **options: str) -> DataFrame:
    return spark.read.format("kafkalog").options(**ALL | options).load(str(log_dir(kind)))


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def shown(kind: str) -> list[str]:
    """The partitions that are part of the log dir, and whose records are known."""
    return [name for name in truth_partitions(kind) if not name.endswith("-delete")]


def truth(kind: str, *, committed: bool = False) -> dict[str, list[Seen]]:
    records = {name: truth_records(kind, name, committed) for name in shown(kind)}
    return {name: [expected(each) for each in found] for name, found in records.items() if found}


def by_number(offsets: dict[str, int]) -> str:
    """The JSON of an offset or time for each partition, by its name."""
    found: dict[str, dict[str, int]] = {}
    for name, offset in offsets.items():
        topic, _, number = name.rpartition("-")
        found.setdefault(topic, {})[number] = offset
    return json.dumps(found)


def assigned(names: list[str]) -> str:
    found: dict[str, list[int]] = {}
    for name in names:
        topic, _, number = name.rpartition("-")
        found.setdefault(topic, []).append(int(number))
    return json.dumps(found)


@pytest.mark.parametrize("kind", ["current", "live", "legacy"])
@pytest.mark.parametrize("committed", [False, True], ids=["uncommitted", "committed"])
def test_every_partition_is_what_a_consumer_saw(
    spark: SparkSession, kind: str, committed: bool
) -> None:
    level = "read_committed" if committed else "read_uncommitted"
    options = {"kafka.isolation.level": level, "assign": assigned(shown(kind))}
    found = by_partition(rows_of(load(spark, kind, **options)))
    wanted = truth(kind, committed=committed)
    assert found.keys() == wanted.keys()
    for name, records in wanted.items():
        assert found[name] == records, name
