"""Spark's own engine over our streaming source: a sink and its checkpoint, restarts, and what an error says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.errors import AnalysisException, StreamingQueryException

from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.spark.session_settings import settings
from tests.kafkafs.spark.streaming.engine_calls import grow
from tests.streaming_starts import started

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.timeout(900)  # queries may have to be started many times: `started`
PATIENCE = 240.0
VERIFIES = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"


class Followed:
    """A query that writes Parquet files, and may be started again."""

    def __init__(self, spark: SparkSession, orders: BuiltLog, home: Path) -> None:
        self.spark, self.orders, self.home = spark, orders, home

    def start(self, trigger: dict[str, Any], **options: Any) -> StreamingQuery:
        stream = self.spark.readStream.format("kafkalog").options(**options)
        writer = (
            stream.load(str(self.orders.log_dir))
            .writeStream.format("parquet")
            .option("path", str(self.home / "sink"))
            .option("checkpointLocation", str(self.home / "checkpoint"))
            .trigger(**trigger)
        )
        return started(writer.start)

    def rows(self) -> DataFrame:
        return self.spark.read.parquet(str(self.home / "sink"))

    def offsets(self) -> list[int]:
        return sorted(row.offset for row in self.rows().select("offset").collect())


@pytest.fixture
def followed(spark: SparkSession, orders: BuiltLog, tmp_path: Path) -> Followed:
    return Followed(spark, orders, tmp_path)


def wait_for(what: Callable[[], bool], query: StreamingQuery) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        if query.exception() is not None:
            raise query.exception()
        assert time.monotonic() < end, query.status
        time.sleep(0.05)


def test_a_query_goes_on_where_its_checkpoint_says(followed: Followed) -> None:
    query = followed.start(
        {"availableNow": True}, startingOffsets="earliest", maxOffsetsPerTrigger=7
    )
    assert query.awaitTermination(PATIENCE)
    sources = [progress["sources"][0] for progress in query.recentProgress]
    assert [json.loads(source["endOffset"]) for source in sources] == [
        {"orders": {"0": 7}}, {"orders": {"0": 10}},
    ]  # fmt: skip
    assert {source["latestOffset"] for source in sources} == {'{"orders": {"0": 10}}'}
    grow(followed.orders, 5)
    assert followed.start({"availableNow": True}).awaitTermination(PATIENCE)
    assert followed.offsets() == list(range(15))
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert followed.rows().columns == columns


def test_a_running_query_sees_what_is_appended_and_says_what_it_lost(followed: Followed) -> None:
    query = followed.start({"processingTime": "0 seconds"})
    try:
        wait_for(lambda: (followed.home / "checkpoint" / "commits" / "0").exists(), query)
        grow(followed.orders, 4)
        wait_for(lambda: (followed.home / "checkpoint" / "commits" / "1").exists(), query)
        assert followed.offsets() == list(range(10, 14))
        with open(followed.orders.active, "r+b") as file:
            file.truncate(0)
        with pytest.raises(StreamingQueryException, match="PARTITION_OFFSET_CHANGED") as told:
            query.awaitTermination(PATIENCE)
        assert "orders-0 offset was changed from 14 to 0" in str(told.value)
        assert not (followed.home / "checkpoint" / "offsets" / "2").exists()
    finally:
        query.stop()


def test_a_micro_batch_that_failed_is_done_again_and_only_once(
    spark: SparkSession, orders: BuiltLog, tmp_path: Path
) -> None:
    done: dict[int, list[int]] = {}

    def start(fails: bool) -> StreamingQuery:
        def take(rows: DataFrame, number: int) -> None:
            offsets = [row.offset for row in rows.collect()]
            if fails:
                raise ValueError("the sink is full")
            done[number] = done.get(number, []) + offsets

        stream = spark.readStream.format("kafkalog").option("startingOffsets", "earliest")
        writer = stream.load(str(orders.log_dir)).writeStream.foreachBatch(take)
        path = str(tmp_path / "checkpoint")
        writer = writer.option("checkpointLocation", path).trigger(availableNow=True)
        return started(writer.start)

    failing = start(fails=True)
    with pytest.raises(StreamingQueryException, match="the sink is full"):
        assert failing.awaitTermination(PATIENCE), failing.status
    grow(orders, 3)
    query = start(fails=False)
    assert query.awaitTermination(PATIENCE), query.status
    assert done == {0: list(range(10)), 1: [10, 11, 12]}


def test_a_query_that_was_killed_while_its_first_micro_batch_was_noted_can_be_started_again(
    spark: SparkSession, followed: Followed
) -> None:
    """Spark's own check would refuse that; see the settings in `kafkafs.spark.session`."""
    noted = followed.home / "checkpoint" / "offsets"
    noted.mkdir(parents=True)
    (noted / ".0.0f0b2f1e-6d0e-4f5c-9a53-0d6d6a3f5c1e.tmp").write_text("v1\n")
    options = {"startingOffsets": "earliest"}
    with settings(spark, {VERIFIES: "true"}), pytest.raises(Exception, match="NOT_EMPTY"):
        followed.start({"availableNow": True}, **options).awaitTermination(PATIENCE)
    assert followed.start({"availableNow": True}, **options).awaitTermination(PATIENCE)
    assert followed.offsets() == list(range(10))


def test_a_mistake_is_told_before_the_query_begins(followed: Followed) -> None:
    with pytest.raises(AnalysisException, match="Only one of the following options"):
        followed.start({}, subscribe="orders", assign='{"orders":[0]}')
