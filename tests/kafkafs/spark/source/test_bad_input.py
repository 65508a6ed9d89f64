"""What is wrong is one clear error before any task starts, in the connector's words where it has some."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkafs.spark.errors import DataLossError, OptionError
from tests.fixtures_data import log_dir, truth_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

ORDERS = {"subscribe": "orders"}
REFUSED: list[tuple[dict[str, str], str]] = [
    ({"startingOffset": "earliest"}, "unknown option 'startingoffset'; is it startingOffsets"),
    ({"assign": '{"orders":[0]}'} | ORDERS, "Only one of the following options can be specified"),
    ({"assign": '{"orders":0}'}, 'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"orders":0}'),
    ({"startingOffsets": "{]"} | ORDERS, 'Expected e.g. {"topicA":{"0":23,"1":-1}'),
    ({"startingOffsets": "latest"} | ORDERS, "starting offset can't be latest for batch queries"),
    ({"subscribe": "orders,nothing"}, "UnknownTopicOrPartitionException"),
    (
        {"startingOffsets": '{"orders":{"7":1}}'} | ORDERS,
        "[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED]",
    ),
    (
        {"startingOffsetsByTimestamp": '{"orders":{"7":1}}'} | ORDERS,
        "[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED]",
    ),
    (
        {"startingOffsets": '{"orders":{"0":9}}', "endingOffsets": '{"orders":{"0":8}}'} | ORDERS,
        "[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET]",
    ),
    (
        {"startingOffsets": '{"orders":{"0":1001}}'} | ORDERS,
        "[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET]",
    ),
    (
        {"startingOffsets": '{"trimmed":{"0":0}}', "subscribe": "trimmed"},
        "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE]",
    ),
    (
        {"startingTimestamp": "99999999999999"} | ORDERS,
        "No offset matched from request of topic-partition orders-0 and timestamp 99999999999999.",
    ),
    ({"startingTimestamp": "2023-11-14T22:15:00"} | ORDERS, "Expected a single long value, got"),
    ({"minPartitions": "0"}, "minPartitions must be positive"),
    ({"kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported"),
    ({"view": "segments", "keyEquals": "k"}, "'keyEquals' is for view='records'"),
]


REFUSALS = tuple(f"{each.__module__}.{each.__name__}: " for each in (OptionError, DataLossError))


class Jobs:
    """Counts the jobs that Spark started since."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._group = f"refused-{uuid.uuid4()}"  # the number of an object that is gone comes again
        self._context.setJobGroup(self._group, "what is to be refused")

    def started(self) -> int:
        return len(self._context.statusTracker().getJobIdsForGroup(self._group))


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_a_query_is_refused_before_a_job_starts(
    spark: SparkSession, options: dict[str, str], words: str
) -> None:
    jobs = Jobs(spark)
    with pytest.raises(Exception, match=re.escape(words)) as refused:
        spark.read.format("kafkalog").options(**options).load(str(log_dir("current"))).count()
    assert jobs.started() == 0
    lines = str(refused.value).splitlines()
    assert sum(line.startswith(REFUSALS) and words in line for line in lines) == 1


@pytest.mark.parametrize("what", ["empty folder", "nothing", "wildcard", "other file"])
def test_a_path_without_a_partition_is_refused(
    spark: SparkSession, tmp_path: Path, what: str
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"\xff\xd8")
    paths = {
        "empty folder": (tmp_path / "photos", "photos"),
        "nothing": (tmp_path / "gone", "gone"),
        "wildcard": (tmp_path / "b*", "nothing matches the path"),
        "other file": (tmp_path / "photos" / "cat.jpg", "cat.jpg"),
    }
    path, words = paths[what]
    jobs = Jobs(spark)
    with pytest.raises(Exception, match=re.escape(words)):
        spark.read.format("kafkalog").load(str(path)).count()
    assert jobs.started() == 0


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            "offset long, nothing string",
            "view 'records' has no column 'nothing'; it has key, value",
        ),
        ("offset string", "column 'offset' is bigint, not string"),
        ("offset long, offset long", "a column is there twice: offset, offset"),
        ("key binary not null", "column 'key' can be null"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(
    spark: SparkSession, schema: str, words: str
) -> None:
    with pytest.raises(Exception, match=re.escape(words)):
        spark.read.format("kafkalog").schema(schema).load(str(log_dir("sample"))).count()


def test_several_paths_and_wildcards_are_one_source(spark: SparkSession) -> None:
    sample = log_dir("sample")
    both = [str(sample / "orders-0"), str(sample / "txn-*")]
    names = spark.read.format("kafkalog").load(both).select("topic").distinct().toArrow()
    assert set(names.column(0).to_pylist()) == {"orders", "txn"}


# -- kafkafs.spark.read


def rows_of(spark: SparkSession, **what: Any) -> list[dict[str, Any]]:
    from kafkafs.spark import read

    rows: list[dict[str, Any]] = read(spark, str(log_dir("sample")), **what).toArrow().to_pylist()
    return rows


def test_read_takes_topics_times_and_columns(spark: SparkSession) -> None:
    records = truth_records("current", "orders-0")
    since = datetime(2023, 11, 14, 22, 20, tzinfo=UTC)
    until = int(since.timestamp() * 1000) + 60_000
    rows = rows_of(
        spark, partitions={"orders": [0]}, since=since, until=until, columns=["offset", "timestamp"]
    )
    assert rows[0].keys() == {"offset", "timestamp"}
    first = next(each.offset for each in records if each.timestamp >= until - 60_000)
    last = next(each.offset for each in records if each.timestamp >= until)
    assert sorted(row["offset"] for row in rows) == list(range(first, last))


def test_read_counts_without_columns_and_reads_other_views(spark: SparkSession) -> None:
    from kafkafs.spark import read

    path = str(log_dir("sample"))
    assert read(spark, path, topics=["orders"], columns=[]).count() == 2000
    batches = read(spark, path, topics="orders", view="batches", columns=["records"]).toArrow()
    assert sum(batches.column(0).to_pylist()) == 2000
    assert read(spark, path, view="segments").count() > 2


def test_read_refuses_what_it_cannot_mean(spark: SparkSession) -> None:
    from kafkafs.spark import read
    from kafkafs.spark.errors import OptionError

    path = str(log_dir("sample"))
    with pytest.raises(OptionError, match="has no time zone"):
        read(spark, path, since=datetime(2023, 11, 14))  # noqa: DTZ001
    with pytest.raises(OptionError, match="no such column: nothing; there are key, value"):
        read(spark, path, columns=["nothing"])
    with pytest.raises(OptionError, match="Only one of the following options"):
        read(spark, path, topics="orders", partitions={"orders": [0]})
    with pytest.raises(OptionError, match="'view' is one of records, batches, segments"):
        read(spark, path, view="pictures", columns=["offset"])
    with pytest.raises(OptionError, match="UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET"):
        read(spark, path, since=2000, until=1000)
