"""In a session: every partition's rows are what a consumer saw, however they are asked for."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkafs
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


def test_a_frame_at_a_moment_has_what_the_source_has_then(spark: SparkSession) -> None:
    for at, topic in (("txn-0@300", "txn"), ("before-delete:doomed", "doomed")):
        options = {"at": at, "subscribe": topic, "isolationLevel": "read_committed"}
        rows = rows_of(load(spark, "current", splitBytes="20000", **options).select("offset"))
        with kafkafs.open(log_dir("current"), at=at) as source:
            records = source[topic, 0].records(isolation="read_committed")
            then = [each.offset for each in records]
        assert then
        assert [row["offset"] for row in rows] == then


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


def cut(
    wanted: dict[str, list[Seen]], starts: dict[str, int], stops: dict[str, int]
) -> dict[str, list[Seen]]:
    """The records of the truth in offsets [start, stop) of each partition."""
    found = {
        name: [each for each in wanted[name] if starts[name] <= each[0] < stops[name]]  # type: ignore[operator]
        for name in wanted
        if name in starts
    }
    return {name: records for name, records in found.items() if records}


@pytest.mark.parametrize("kind", ["current", "legacy"])
@pytest.mark.parametrize(
    "sizes", [{"splitBytes": "9k"}, {"maxRecordsPerPartition": "70"}], ids=["bytes", "records"]
)
def test_a_range_of_offsets_is_read_in_small_pieces(
    spark: SparkSession, kind: str, sizes: dict[str, str]
) -> None:
    wanted, bounds = truth(kind), truth_offsets(kind)
    lengths = {name: bounds[name]["latest"] - bounds[name]["earliest"] for name in wanted}
    starts = {name: bounds[name]["earliest"] + lengths[name] // 3 for name in wanted}
    stops = {name: starts[name] + lengths[name] // 4 + 1 for name in wanted}
    options = {"startingOffsets": by_number(starts), "endingOffsets": by_number(stops)}
    frame = load(spark, kind, assign=assigned(list(wanted)), **options, **sizes)
    assert by_partition(rows_of(frame)) == cut(wanted, starts, stops)
    assert frame.rdd.getNumPartitions() > 1.5 * len(wanted)


@pytest.mark.parametrize("kind", ["current", "legacy"])
@pytest.mark.parametrize("side", ["starting", "ending"])
def test_times_of_each_partition_are_the_offsets_that_the_broker_gave_for_them(
    spark: SparkSession, kind: str, side: str
) -> None:
    wanted, bounds = truth(kind), truth_offsets(kind)
    asked = {name: list(bounds[name].get("for_times", {}).items()) for name in wanted}
    asked = {name: times for name, times in asked.items() if times}
    times = {name: int(some[len(some) // 2][0]) for name, some in asked.items()}
    answers = {name: some[len(some) // 2][1] for name, some in asked.items()}
    last = {name: bounds[name]["latest"] for name in asked}
    answers = {name: last[name] if found < 0 else found for name, found in answers.items()}
    options = {f"{side}OffsetsByTimestamp": by_number(times)}
    frame = load(
        spark,
        kind,
        assign=assigned(list(asked)),
        startingOffsetsByTimestampStrategy="latest",
        **options,
    )
    first = {name: bounds[name]["earliest"] for name in asked}
    starts, stops = (answers, last) if side == "starting" else (first, answers)
    assert by_partition(rows_of(frame)) == cut(wanted, starts, stops)
    assert answers != first
    assert answers != last


def test_one_time_for_all_partitions_is_looked_up_in_each(spark: SparkSession) -> None:
    moment = 1_700_000_500_000
    chosen = {"subscribePattern": "^(orders|codec-.*)$", "includeInternalTopics": "false"}
    after = by_partition(rows_of(load(spark, "current", startingTimestamp=str(moment), **chosen)))
    before = by_partition(rows_of(load(spark, "current", endingTimestamp=str(moment), **chosen)))
    assert len(after) == 5
    for name, records in after.items():
        assert before[name] + records == truth("current")[name]
        assert records[0][2] >= moment  # type: ignore[operator]
        assert before[name][-1][2] < moment  # type: ignore[operator]


def test_a_pattern_matches_anywhere_in_a_topics_name(spark: SparkSession) -> None:
    frame = load(spark, "current", subscribePattern="der|txn")
    topics = {row["topic"] for row in rows_of(frame.select("topic").distinct())}
    assert topics == {"orders", "out-of-order", "txn", "open-txn"}
    assert load(spark, "current", subscribePattern="nothing-of-the-kind").count() == 0


def test_topics_without_a_record_give_none(spark: SparkSession) -> None:
    assert load(spark, "current", subscribe="empty").count() == 0
    names = {row["topic"] for row in rows_of(load(spark, "current", subscribe="empty,orders"))}
    assert names == {"orders"}


@pytest.mark.parametrize(
    "columns",
    ["offset long", "timestamp timestamp, offset long", "value binary, key binary, codec string"],
)
def test_a_schema_is_a_projection(spark: SparkSession, columns: str) -> None:
    reader = spark.read.format("kafkalog").option("subscribe", "txn")
    rows = rows_of(reader.schema(columns).load(str(log_dir("current"))))
    names = [column.split()[0] for column in columns.split(", ")]
    whole = rows_of(load(spark, "current", subscribe="txn").select(*names[:2]))
    assert [tuple(row.values())[:2] for row in rows] == [tuple(row.values()) for row in whole]
    assert list(rows[0]) == names


def test_a_frame_can_be_used_again_and_in_parts(spark: SparkSession) -> None:
    frame = load(spark, "sample", subscribe="orders")
    assert frame.where("partition = 1").count() == 1000
    assert frame.count() == 2000
    assert frame.where("offset in (1, 2)").count() == 4
    both = frame.where("partition = 0").union(frame.where("partition = 1"))
    counts = {row["partition"]: row["count"] for row in rows_of(both.groupBy("partition").count())}
    assert counts == {0: 1000, 1: 1000}
    frame.createOrReplaceTempView("orders_view")
    assert spark.sql("select 1 from orders_view where offset < 10").count() == 20
    assert spark.sql("select 1 from orders_view").count() == 2000
    joined = frame.alias("a").join(frame.alias("b"), ["partition", "offset"])
    assert joined.where("a.offset < 5 and b.offset < 900").count() == 10


def test_times_are_instants_whatever_the_sessions_time_zone(spark: SparkSession) -> None:
    from tests.kafkafs.spark.session_settings import settings

    first = truth("current")["orders-0"][0]
    frame = load(spark, "current", assign='{"orders":[0]}').where("offset = 0")
    with settings(spark, {"spark.sql.session.timeZone": "Asia/Kolkata"}):
        (row,) = frame.selectExpr("unix_millis(timestamp) as ms", "timestamp").collect()
        assert row["ms"] == first[2]
        assert round(row["timestamp"].timestamp() * 1000) == first[2]


# -- other views, and damage


def test_batches_and_segments_are_views_of_the_same_records(spark: SparkSession) -> None:
    batches = load_view(spark, "batches").where("not isControl")
    totals = {
        row["topic"]: row["sum(records)"]
        for row in rows_of(batches.groupBy("topic").sum("records"))
    }
    segments = load_view(spark, "segments").groupBy("topic").sum("records", "size")
    sums = {row["topic"]: row["sum(records)"] for row in rows_of(segments)}
    assert totals == sums
    assert totals["orders"] == 2000


def load_view(spark: SparkSession, view: str) -> DataFrame:
    return spark.read.format("kafkalog").option("view", view).load(str(log_dir("sample")))


def test_an_empty_schema_counts(spark: SparkSession) -> None:
    from pyspark.sql.types import StructType

    names = [name for name in shown("current") if truth_records("current", name, True)]
    reader = spark.read.format("kafkalog").schema(StructType([]))
    chosen = {"assign": assigned(names), "isolationLevel": "read_committed"}
    frame = reader.options(**chosen).load(str(log_dir("current")))
    assert frame.count() == sum(len(truth_records("current", name, True)) for name in names)


def test_rows_come_in_the_order_of_partitions_and_offsets(spark: SparkSession) -> None:
    frame = load(spark, "sample", subscribe="orders", maxRecordsPerPartition="30")
    frame = frame.select("partition", "offset")
    assert [tuple(row) for row in frame.limit(5).collect()] == [(0, number) for number in range(5)]
    assert tuple(frame.head() or ()) == (0, 0)
    assert [tuple(row) for row in frame.tail(2)] == [(1, 998), (1, 999)]
    rows = [tuple(row) for row in frame.collect()]
    assert rows == sorted(rows)


def test_a_large_frame_that_nothing_narrows_says_what_would(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from kafkafs.spark import data_source

    monkeypatch.setattr(data_source, "HINT_BYTES", 1000)

    def hints(columns: str | None = None, **options: str) -> int:
        caplog.clear()
        source = data_source.KafkaLogDataSource(options | {"path": str(log_dir("sample"))})
        schema = source.schema()
        if columns is not None:
            schema = type(schema)([each for each in schema if each.name in columns.split()])
        assert source.reader(schema).partitions()
        return caplog.text.count("where() and select() do not narrow that. Options do")

    assert hints() == 1
    assert hints(view="batches") == hints("partition offset") == hints("") == 0
    assert hints(startingTimestamp="1") == hints(keyEquals="k1") == 0
    monkeypatch.setattr(data_source, "HINT_BYTES", 1 << 30)
    assert hints() == 0


def test_fault_144_damage_fails_is_skipped_or_is_a_row(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    shutil.copytree(log_dir("current") / "orders-0", folder)
    log = min(folder.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[4000] ^= 1  # in the batch of offsets 25 to 36
    log.write_bytes(data)
    reader = spark.read.format("kafkalog")
    good = [each for each in range(1000) if not 25 <= each <= 36]
    with pytest.raises(Exception, match=r"orders-0/0{20}\.log at byte 3904"):
        reader.load(str(tmp_path)).collect()
    skipped = reader.option("onCorrupt", "skip").load(str(tmp_path))
    assert sorted(row["offset"] for row in rows_of(skipped)) == good
    told = rows_of(reader.option("onCorrupt", "row").load(str(tmp_path)))
    assert sorted(row["offset"] for row in told if not row["_corrupt"]) == good
    (hole,) = [json.loads(row["_corrupt"]) for row in told if row["_corrupt"]]
    lost = {name: hole[name] for name in ("kind", "position", "firstOffset", "lastOffset")}
    assert lost == {"kind": "crc_mismatch", "position": 3904, "firstOffset": 25, "lastOffset": 36}
