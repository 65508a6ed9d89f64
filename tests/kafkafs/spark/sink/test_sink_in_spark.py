"""Frames become log dirs, in a session of Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812

import kafkafs.spark
from engine.coding.checksums import murmur2
from kafkafs.spark.errors import OptionError
from tests.fixtures_data import log_dir, truth_partitions, truth_records
from tests.kafkafs.spark.sink.written_frames import findings_in, records_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


ORDERS = [name for name in truth_partitions("current") if name.startswith("orders-")]


def truth_of(kind: str) -> dict[str, list[tuple[Any, ...]]]:
    """What a consumer saw, as `seen` has it."""
    return {
        name: [
            (
                each.offset,
                each.timestamp if each.timestamp_type else -1,
                each.timestamp_type == 2,
                each.key,
                each.value,
                each.headers,
            )
            for each in truth_records(kind, name)
        ]
        for name in truth_partitions(kind)
        if not name.startswith("__")
    }


def seen(target: Path, partition: str) -> list[tuple[Any, ...]]:
    """Records of a written log."""
    return [
        (
            each.offset,
            each.timestamp,
            each.timestamp_type.value == 1,
            each.key,
            each.value,
            tuple((header.key.decode(), header.value) for header in each.headers),
        )
        for each in records_of(target, partition)
    ]


def frame_over(spark: SparkSession, kind: str = "current", **options: Any) -> DataFrame:
    return kafkafs.spark.read(spark, str(log_dir(kind)), includeHeaders=True, **options)


@pytest.mark.parametrize("kind", ["current", "legacy"])
def test_a_frame_of_the_source_comes_back_equal(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    options: dict[str, Any] = {"current": {}, "legacy": {"tasks": 3, "codec": "lz4"}}[kind]
    kafkafs.spark.write(frame_over(spark, kind), str(tmp_path / "made"), **options)
    found = {path.name for path in (tmp_path / "made").iterdir() if path.is_dir()}
    truth = {name: records for name, records in truth_of(kind).items() if records}
    assert found == truth.keys()
    for name, records in truth.items():
        assert seen(tmp_path / "made", name) == records, name
    assert [each for each in findings_in(tmp_path / "made") if not each.startswith("gap-")] == []
    assert os.listdir(tmp_path) == ["made"]


def test_rows_without_offsets_get_them_in_the_order_of_their_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = frame_over(spark, topics="orders").select("key", "value", "timestamp")
    kafkafs.spark.write(frame, str(tmp_path / "made"), topic="neu", partitions=4, codec="zstd")
    wanted: dict[int, list[tuple[int, bytes | None]]] = {}
    for name, records in truth_of("current").items():
        if name.rpartition("-")[0] == "orders":
            for _, timestamp, _, key, value, _ in records:
                assert key is not None
                wanted.setdefault((murmur2(key) & 0x7FFFFFFF) % 4, []).append((timestamp, value))
    assert wanted.keys() == {0, 1, 2, 3}
    for number, pairs in wanted.items():
        found = seen(tmp_path / "made", f"neu-{number}")
        assert [each[0] for each in found] == list(range(len(pairs)))
        assert sorted((each[1], each[4]) for each in found) == sorted(pairs)
        assert [each[1] for each in found] == sorted(each[0] for each in pairs)
    assert findings_in(tmp_path / "made") == []


def test_columns_can_order_rows_that_get_offsets(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(100).select(
        F.lit("v").alias("key"), F.col("id").cast("string").alias("value"), -F.col("id") % 10, "id"
    )
    frame = frame.toDF("key", "value", "rank", "id")
    target = str(tmp_path / "made")
    kafkafs.spark.write(frame, target, topic="t", partitions=1, order_by=["rank", "id"])
    values = [int(each[4]) for each in seen(tmp_path / "made", "t-0")]
    assert values == sorted(range(100), key=lambda each: (-(each % 10), each))
    with pytest.raises(OptionError, match="no column 'colour' to order by"):
        kafkafs.spark.write(frame, target + "2", topic="t", partitions=1, order_by="colour")


def test_a_frame_can_be_written_as_it_comes(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_over(spark, topics="orders", splitBytes="16k")
    frame.write.format("kafkalog").mode("append").save(str(tmp_path / "kept"))
    truth = truth_of("current")
    for name in ORDERS:
        assert seen(tmp_path / "kept", name) == truth[name]
    # Every task has rows of every partition, and new offsets follow the order of tasks.
    anew = frame.repartition(3).drop("offset", "partition").write.format("kafkalog").mode("append")
    anew.option("numPartitions", 2).option("batchBytes", "4k").save(str(tmp_path / "new"))
    values = []
    for number in (0, 1):
        found = seen(tmp_path / "new", f"orders-{number}")
        assert [each[0] for each in found] == list(range(len(found)))
        values += [each[4] for each in found]
    assert sorted(values) == sorted(
        each[4] for name in truth if name.startswith("orders-") for each in truth[name]
    )
    assert findings_in(tmp_path / "new") == []


def failing(frame: DataFrame, attempts: int) -> DataFrame:
    """The frame, whose first task fails after its rows, and after some were written."""

    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() == 0 and context.attemptNumber() < attempts:
            raise RuntimeError("the disk of this host is gone")

    return frame.mapInArrow(fail, frame.schema)


def test_tasks_that_fail_and_are_done_again_repeat_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = frame_over(spark, topics="orders", splitBytes="32k")
    again = failing(frame, attempts=2).write.format("kafkalog").mode("append")
    again.option("batchBytes", "1k").save(str(tmp_path / "made"))
    truth = truth_of("current")
    for name in ORDERS:
        assert seen(tmp_path / "made", name) == truth[name]
    assert os.listdir(tmp_path) == ["made"]


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    frame = frame_over(spark, topics="orders", splitBytes="32k")
    with pytest.raises(PySparkException, match="the disk of this host is gone"):
        failing(frame, 3).write.format("kafkalog").mode("append").save(str(tmp_path / "made"))
    assert os.listdir(tmp_path) == []


def test_rows_that_come_twice_fail_the_commit_and_leave_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = frame_over(spark, topics="orders")
    with pytest.raises(PySparkException, match="which overlap"):
        frame.union(frame).write.format("kafkalog").mode("append").save(str(tmp_path / "made"))
    with pytest.raises(PySparkException, match="offset 0 comes after offset 0"):
        kafkafs.spark.write(frame.union(frame), str(tmp_path / "made"))
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_is_one_clear_error_before_any_task_starts(
    spark: SparkSession, tmp_path: Path
) -> None:
    tracker = spark.sparkContext.statusTracker()
    jobs = len(tracker.getJobIdsForGroup())
    frame = frame_over(spark, topics="orders")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for options, words in (
        ({"path": str(tmp_path / "full")}, "never overwritten"),
        ({"path": str(tmp_path / "x"), "codec": "lzma"}, "'codec' is one of"),
        ({"path": str(tmp_path / "no" / "x")}, "is no folder"),
    ):
        for mode in ("append", "overwrite"):
            with pytest.raises(AnalysisException, match=words):
                frame.write.format("kafkalog").mode(mode).options(**options).save()
    with pytest.raises(AnalysisException, match="topic option required"):
        frame.drop("topic").write.format("kafkalog").mode("append").save(str(tmp_path / "x"))
    with pytest.raises(OptionError, match="never overwritten"):
        kafkafs.spark.write(frame, str(tmp_path / "full"))
    assert len(tracker.getJobIdsForGroup()) == jobs
    assert os.listdir(tmp_path) == ["full"]


def test_an_insert_into_a_view_writes_too(spark: SparkSession, tmp_path: Path) -> None:
    kafkafs.spark.read(spark, str(log_dir("current")))  # knows the source now
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW made (topic STRING, partition INT, value STRING)"
        f" USING kafkalog OPTIONS (path '{tmp_path / 'made'}')"
    )
    try:
        spark.sql("INSERT INTO made VALUES ('t', 0, 'one'), ('t', 1, 'two')")
    finally:
        spark.catalog.dropTempView("made")
    assert [each[4] for each in seen(tmp_path / "made", "t-1")] == [b"two"]
