"""Rows of log directories beside what Spark's Kafka connector reads from the broker that writes them: the same options for both.

The connector is of 4.2.0, on a 4.3 engine: there is none of 4.3.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED, Written
from tests.kafka.connector_cases import (
    ABSURD,
    CHOICES,
    EVENLY,
    HOUR,
    REFUSALS,
    UNEVENLY,
    offsets_of,
)
from tests.kafka.shapes import Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytestmark = pytest.mark.timeout(900)  # two brokers are filled and started before the first test

FOR_BOTH = {
    "includeHeaders": "true",
    # Of the connector alone: it waits for a broker that may come back.
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
    "kafkaConsumer.pollTimeoutMs": "60000",
}


@dataclass(frozen=True)
class Pair:
    """A running broker for the connector, its log dir for us."""

    spark: SparkSession
    bootstrap: str
    log_dir: Path

    def theirs(self, **options: str) -> DataFrame:
        """The connector's frame; options with _ for the dots of their names."""
        given = FOR_BOTH | {"kafka.bootstrap.servers": self.bootstrap} | _dotted(options)
        return self.spark.read.format("kafka").options(**given).load()

    def ours(self, **options: str) -> DataFrame:
        """Ours, with the same options."""
        given = FOR_BOTH | {"kafka.bootstrap.servers": self.bootstrap} | _dotted(options)
        return self.spark.read.format("kafkalog").options(**given).load(str(self.log_dir))

    def same_rows(self, **options: str) -> list[dict[str, Any]]:
        """The rows, which are the same."""
        theirs, ours = self.theirs(**options), self.ours(**options)
        assert ours.schema == theirs.schema
        wanted, found = _rows(theirs), _rows(ours)
        assert [_place(row) for row in found] == [_place(row) for row in wanted]
        for mine, other in zip(found, wanted, strict=True):
            assert mine == other
        return found

    def errors(self, **options: str) -> tuple[str, str]:
        """What the connector says and what we say, where neither can read."""
        said = []
        for frame in (self.theirs, self.ours):
            with pytest.raises(Exception) as failed:  # noqa: PT011 - of many classes, on either side
                frame(**options).collect()
            said.append(" ".join(str(failed.value).split()))
        return said[0], said[1]


def _dotted(options: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in options.items()}


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return sorted(rows, key=_place)


def _place(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["topic"], row["partition"], row["offset"]


@pytest.fixture(scope="module")
def connector(spark: SparkSession) -> SparkSession:
    """The session, which has the connector because tests ask for it by this name."""
    assert "spark-sql-kafka" in spark.conf.get("spark.jars", "")
    return spark


@pytest.fixture(scope="module")
def pair(
    connector: SparkSession, current: Written, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """A broker of the current release with every shape; an open transaction is one of them."""
    with _started_again(current, tmp_path_factory.mktemp("connector")) as broker:
        _fill_more(Session(broker.bootstrap, random.Random(SEED)))
        yield Pair(connector, broker.bootstrap, broker.log_dir)


@pytest.fixture(scope="module")
def legacy_pair(
    connector: SparkSession, legacy: Written, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """A 2.8.2 broker with message formats 0, 1 and 2."""
    with _started_again(legacy, tmp_path_factory.mktemp("connector-legacy")) as broker:
        _wait_for_topics(broker.bootstrap)
        yield Pair(connector, broker.bootstrap, broker.log_dir)


def _wait_for_topics(bootstrap: str) -> None:
    """A broker with ZooKeeper learns its topics only after it has started."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + 60
    while "upgraded" not in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def _started_again(written: Written, home: Path) -> Broker:
    """A broker on a copy of what another one left."""
    for name in ("data", "zookeeper"):
        if (written.log_dir.parent / name).is_dir():
            shutil.copytree(written.log_dir.parent / name, home / name)
    # An open transaction stays open, however long ago its producer went.
    cleanup = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
    return Broker(home, written.version, {cleanup: HOUR})


def _fill_more(session: Session) -> None:
    one_segment = {"internal_segment_bytes": 64 << 20}
    session.create(EVENLY, 4, **one_segment)
    session.send(EVENLY, 400, partitions=4)
    session.create(UNEVENLY, 2, **one_segment)
    session.send(UNEVENLY, 300)
    session.send(UNEVENLY, 60, partitions=2)
    session.create(ABSURD, message_timestamp_after_max_ms=2**63 - 1)
    late = clients.producer(session.bootstrap)
    late.produce(ABSURD, b"still fits", timestamp=(2**63 - 1) // 1000)
    late.produce(ABSURD, b"does not", timestamp=(2**63 - 1) // 1000 + 1)
    late.flush()


# -- rows

ISOLATION = pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])


@ISOLATION
def test_all_topics_of_a_broker_are_the_same(pair: Pair, isolation: str) -> None:
    rows = pair.same_rows(subscribePattern="^(?!absurd)", kafka_isolation_level=isolation)
    topics = {row["topic"] for row in rows}
    assert topics >= {"orders", "weird", "append-time", "compacted", "trimmed", "txn", "open-txn"}
    assert "empty" not in topics
    assert not any(topic.startswith("__") for topic in topics)
    assert {row["timestampType"] for row in rows} == {0, 1}
    headers = [row["headers"] for row in rows]
    assert None in headers
    assert any(each and [one["key"] for one in each][:2] == ["dup", "dup"] for each in headers)
    assert any(each and any(one["value"] is None for one in each) for each in headers)
    of_open = [row for row in rows if row["topic"] == "open-txn"]
    assert len(of_open) == (30 if isolation == "read_committed" else 60)


@ISOLATION
def test_all_topics_of_an_old_broker_are_the_same(legacy_pair: Pair, isolation: str) -> None:
    rows = legacy_pair.same_rows(subscribePattern=".", kafka_isolation_level=isolation)
    assert {row["timestampType"] for row in rows} == {-1, 0, 1}
    assert {row["topic"].partition("-")[0] for row in rows} == {"v0", "v1", "v2", "upgraded"}


@pytest.mark.parametrize(("options", "some"), CHOICES.values(), ids=CHOICES)
def test_the_same_options_give_the_same_rows(
    pair: Pair, options: dict[str, str], some: bool
) -> None:
    assert bool(pair.same_rows(**options)) == some


def test_look_ups_by_time_find_the_same_records_where_times_do_not_ascend(pair: Pair) -> None:
    stamps = sorted(
        int(row["timestamp"].timestamp() * 1000)
        for row in _rows(pair.ours(subscribe="out-of-order"))
    )
    for part in (1, 4):
        first, last = stamps[len(stamps) * part // 7], stamps[len(stamps) * (part + 1) // 7]
        by_partition = {"startingOffsetsByTimestamp": offsets_of(out_of_order=[first])}
        pair.same_rows(subscribe="out-of-order", **by_partition)
        pair.same_rows(subscribe="out-of-order", endingTimestamp=str(last))


def test_without_headers_the_schema_is_the_same(pair: Pair) -> None:
    pair.same_rows(subscribe="orders", includeHeaders="false")


@pytest.mark.parametrize(
    ("topics", "minimum"), [(EVENLY, 10), (UNEVENLY, 3), (f"{EVENLY},{UNEVENLY}", 17)]
)
def test_min_partitions_gives_tasks_of_the_same_offsets(
    pair: Pair, topics: str, minimum: int
) -> None:
    options = {"subscribe": topics, "minPartitions": str(minimum)}
    theirs, ours = _tasks(pair.theirs(**options)), _tasks(pair.ours(**options))
    assert ours == theirs
    assert len(ours) >= 3


def _tasks(frame: DataFrame) -> list[tuple[object, ...]]:
    from pyspark.sql import functions as f

    grouped = frame.groupBy(f.spark_partition_id().alias("task"), "topic", "partition")
    found = grouped.agg(f.min("offset").alias("first"), f.max("offset").alias("last")).collect()
    tasks = sorted((row["topic"], row["partition"], row["first"], row["last"]) for row in found)
    assert len({row["task"] for row in found}) == len(found)
    return tasks


def test_a_row_is_the_same_whatever_else_a_query_does(pair: Pair) -> None:
    from pyspark.sql import functions as f

    def asked(frame: DataFrame) -> list[tuple[object, ...]]:
        text = frame.select(f.col("value").cast("string").alias("text"), "timestamp", "partition")
        hours = text.groupBy(f.date_trunc("hour", "timestamp").alias("hour"), "partition")
        counted = hours.agg(f.count("*"), f.max("text"), f.min("timestamp"))
        return sorted(map(tuple, counted.collect()))

    assert asked(pair.ours(subscribe="days")) == asked(pair.theirs(subscribe="days"))


# -- errors


@pytest.mark.parametrize(("options", "words"), REFUSALS.values(), ids=REFUSALS)
def test_the_same_options_are_refused_with_the_same_words(
    pair: Pair, options: dict[str, str], words: str
) -> None:
    theirs, ours = pair.errors(**options)
    assert words in theirs
    assert words in ours


def test_the_largest_time_that_fits_is_read(pair: Pair) -> None:
    microseconds = "unix_micros(timestamp) AS t"
    options = {"subscribe": ABSURD, "endingOffsets": offsets_of(absurd_time=[1])}
    (theirs,) = pair.theirs(**options).selectExpr(microseconds).collect()
    (ours,) = pair.ours(**options).selectExpr(microseconds).collect()
    assert ours["t"] == theirs["t"] == (2**63 - 1) // 1000 * 1000


def test_a_time_that_ends_the_connector_s_query_is_null(pair: Pair) -> None:
    theirs, _ = pair.errors(subscribe=ABSURD)
    assert "overflows when converting to Spark's microsecond-precision TimestampType" in theirs
    ours = pair.ours(subscribe=ABSURD).selectExpr("unix_micros(timestamp) AS t").collect()
    assert [row["t"] for row in ours] == [(2**63 - 1) // 1000 * 1000, None]
