"""What Spark itself does that the source is built around. Where one of these fails, Spark has changed: see each."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures_data import log_dir
from tests.kafkafs.spark.session_settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register_toy(spark: SparkSession, *, leaves_filters: bool = False) -> None:
    """Rows of partitions 0 and 1, 500 each; looks at filters on the partition, and may leave them to Spark too."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

    class Reader(DataSourceReader):
        def __init__(self) -> None:
            self.wanted = (0, 1)

        def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802
            for each in filters:
                if isinstance(each, EqualTo) and each.attribute == ("partition",):
                    self.wanted = (each.value,)
                    if leaves_filters:
                        yield each
                else:
                    yield each

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in self.wanted]

        def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
            return iter([(partition.value, offset) for offset in range(500)])

    class Toy(DataSource):
        @classmethod
        def name(cls) -> str:
            return "toy_with_filters"

        def schema(self) -> str:
            return "partition int, offset int"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Toy)


def test_a_pushed_filter_stays_for_later_uses_of_a_frame(spark: SparkSession) -> None:
    """Why there is no `pushFilters` in the source. Once this fails, filters can be pushed down."""
    register_toy(spark)
    with settings(spark, {PUSHDOWN: "true"}):
        frame = spark.read.format("toy_with_filters").load()
        assert frame.where("partition = 1").count() == 500
        assert frame.count() == 500  # of 1000


def test_a_pushed_filter_stays_also_where_spark_applies_it_again(spark: SparkSession) -> None:
    """Why no filter narrows what is read, not even one that the source leaves to Spark: rows get lost."""
    register_toy(spark, leaves_filters=True)
    with settings(spark, {PUSHDOWN: "true"}):
        frame = spark.read.format("toy_with_filters").load()
        both = frame.where("partition = 0").union(frame.where("partition = 1"))
        assert both.count() == 500  # of 1000
        frame = spark.read.format("toy_with_filters").load()
        assert frame.where("partition = 1").count() == 500
        assert frame.count() == 500  # of 1000
        assert frame.where("offset < 10 or offset is null").count() == 10  # of 20


def test_a_reader_that_takes_filters_fails_where_they_are_off(spark: SparkSession) -> None:
    """And off is Spark's default: the source must not define the method."""
    register_toy(spark)
    with (
        settings(spark, {PUSHDOWN: "false"}),
        pytest.raises(Exception, match="DATA_SOURCE_PUSHDOWN_DISABLED"),
    ):
        spark.read.format("toy_with_filters").load().count()


def test_our_frames_are_right_where_filters_are_pushed_down(spark: SparkSession) -> None:
    with settings(spark, {PUSHDOWN: "true"}):
        frame = spark.read.format("kafkalog").option("subscribe", "orders")
        rows = frame.load(str(log_dir("sample")))
        assert rows.where("partition = 1").count() == 1000
        assert rows.count() == 2000
        both = rows.where("partition = 0").union(rows.where("partition = 1"))
        counts = both.groupBy("partition").count().collect()
        assert {row["partition"]: row["count"] for row in counts} == {0: 1000, 1: 1000}


def test_a_frame_reads_what_was_there_when_it_was_first_used(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The README says so: a new `load` looks again."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    logs = sorted((log_dir("current") / "orders-0").glob("*.log"))
    shutil.copy(logs[0], folder)
    reader = spark.read.format("kafkalog").schema("offset long")
    frame = reader.load(str(tmp_path))
    before = frame.count()
    shutil.copy(logs[1], folder)
    assert frame.count() == before
    assert reader.load(str(tmp_path)).count() > before


def test_a_plan_of_nothing_comes_as_one_task_of_nothing(spark: SparkSession) -> None:
    """`read` is called with a partition that is none of ours."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return []

        def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
            return iter([(repr(partition),)])

    class Nothing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "toy_of_nothing"

        def schema(self) -> str:
            return "given string"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Nothing)
    rows = spark.read.format("toy_of_nothing").load().collect()
    assert [row["given"] for row in rows] == ["InputPartition(value=None)"]
    nothing = spark.read.format("kafkalog").option("subscribePattern", "^none$")
    assert nothing.load(str(log_dir("sample"))).collect() == []


@pytest.mark.parametrize("kind", ["timestamp[ms, tz=UTC]", "timestamp[us, tz=+00:00]"])
def test_record_batches_must_have_exactly_sparks_arrow_schema(
    spark: SparkSession, kind: str
) -> None:
    """Why batches are made with `to_arrow_schema` and nothing else."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def read(self, partition: InputPartition) -> Iterator[Any]:
            import pyarrow as pa

            unit, zone = kind[10:12], kind[17:-1]
            yield pa.record_batch({"timestamp": pa.array([0], pa.timestamp(unit, zone))})

    class Typed(DataSource):
        @classmethod
        def name(cls) -> str:
            return "toy_of_types"

        def schema(self) -> str:
            return "timestamp timestamp"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Typed)
    with pytest.raises(Exception, match=r"DATA_SOURCE_RETURN_SCHEMA_MISMATCH|[Ss]chema"):
        spark.read.format("toy_of_types").load().collect()


def test_options_of_tables_in_the_catalog_do_not_arrive(spark: SparkSession) -> None:
    """Why the README shows temporary views. Once this fails, tables work."""
    path = log_dir("sample")
    options = f"using kafkalog options (subscribe 'orders', path '{path}')"
    with pytest.raises(Exception, match="make a temporary view"):
        spark.sql(f"create table logs {options}")
    spark.sql("drop table if exists logs")
    spark.sql(f"create table logs (offset long) {options}")
    with pytest.raises(Exception, match=r"'path' must be specified: .* make a temporary view"):
        spark.sql("select * from logs").count()
    spark.sql("drop table logs")
    spark.sql(f"create or replace temporary view orders_log {options}")
    assert spark.sql("select * from orders_log where offset < 3").count() == 6


def test_a_stream_whose_end_goes_back_is_not_noticed(spark: SparkSession, tmp_path: Path) -> None:
    """Why the streaming reader looks for that itself."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Backwards(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802
            return {"at": 10}

        def latestOffset(self, *_: Any) -> dict[str, int]:  # noqa: N802
            return {"at": 5}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition(at) for at in range(start["at"], end["at"])]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            return iter([(partition.value,)] if partition.value is not None else [])

    class Toy(DataSource):
        @classmethod
        def name(cls) -> str:
            return "toy_backwards"

        def schema(self) -> str:
            return "at int"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
            return Backwards()

    spark.dataSource.register(Toy)
    query = (
        spark.readStream.format("toy_backwards")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert query.exception() is None
    assert [each["numInputRows"] for each in query.recentProgress] in ([0], [])
