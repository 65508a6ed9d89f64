"""Rows of log directories beside what Spark's Kafka connector reads from the broker that writes them: the same options for both.

The connector is of 4.2.0, on a 4.3 engine: there is none of 4.3.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kafka import clients, jars
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED, Written
from tests.kafka.shapes import DAY, START, Session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytestmark = pytest.mark.timeout(900)  # two brokers are filled and started before the first test

HOUR = 3_600_000
EVENLY = "evenly"
UNEVENLY = "unevenly"
ABSURD = "absurd-time"
FOR_BOTH = {
    "includeHeaders": "true",
    # Of the connector alone: it waits for a broker that may come back.
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "10",
    "kafkaConsumer.pollTimeoutMs": "4000",
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
    """The session, with the connector in it."""
    for jar in jars.connector_jars():
        spark.sql(f"ADD JAR '{jar}'")
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
        yield Pair(connector, broker.bootstrap, broker.log_dir)


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


def _offsets(**partitions: list[int]) -> str:
    return json.dumps(
        {
            topic.replace("_", "-"): {str(number): each for number, each in enumerate(offsets)}
            for topic, offsets in partitions.items()
        }
    )


CHOICES: dict[str, tuple[dict[str, str], bool]] = {
    "two topics": ({"subscribe": " orders , weird,orders"}, True),
    "a pattern that is found inside": ({"subscribePattern": "dec-[gz]"}, True),
    "a pattern that is nowhere": ({"subscribePattern": "^dec-"}, False),
    "an empty topic": ({"subscribe": "empty"}, False),
    "some partitions": ({"assign": '{"orders":[1],"days":[0,1]}'}, True),
    "a partition that is not there": ({"assign": '{"orders":[0,77]}'}, True),
    "no topic that was deleted": ({"subscribePattern": "doomed"}, False),
    "offsets": (
        {
            "subscribe": "orders",
            "startingOffsets": _offsets(orders=[17, 300]),
            "endingOffsets": _offsets(orders=[18, 444]),
        },
        True,
    ),
    "offsets that stand for others": (
        {
            "subscribe": "orders",
            "startingOffsets": _offsets(orders=[-2, 590]),
            "endingOffsets": _offsets(orders=[20, -1]),
        },
        True,
    ),
    "no offsets between": (
        {
            "subscribe": "orders",
            "startingOffsets": _offsets(orders=[17, 5]),
            "endingOffsets": _offsets(orders=[17, 5]),
        },
        False,
    ),
    "offsets inside of holes": (
        {
            "subscribe": "compacted",
            "startingOffsets": _offsets(compacted=[333]),
            "endingOffsets": _offsets(compacted=[1100]),
        },
        True,
    ),
    "from a marker on": (
        {
            "subscribe": "txn",
            "startingOffsets": _offsets(txn=[11, 12]),
            "endingOffsets": _offsets(txn=[31, 29]),
            "kafka_isolation_level": "read_committed",
        },
        True,
    ),
    "the part above the log start": (
        {"subscribe": "trimmed", "startingOffsets": "earliest"},
        True,
    ),
    "a day": (
        {
            "subscribe": "days,days-zstd",
            "startingTimestamp": str(START + DAY),
            "endingTimestamp": str(START + 2 * DAY),
        },
        True,
    ),
    "from a time in one, from another in the other": (
        {
            "subscribe": "days",
            "startingOffsetsByTimestamp": _offsets(days=[START + HOUR, START + 2 * DAY]),
            "endingOffsetsByTimestamp": _offsets(days=[START + 2 * HOUR, START + 40 * DAY]),
        },
        True,
    ),
    "up to a time that is before all": ({"subscribe": "days", "endingTimestamp": "5"}, False),
    "from a time that is after all": (
        {
            "subscribe": "days",
            "startingTimestamp": str(START + 9 * DAY),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        False,
    ),
    "one time goes before times and offsets": (
        {
            "subscribe": "days",
            "startingTimestamp": str(START + 2 * DAY),
            "startingOffsetsByTimestamp": _offsets(days=[START, START]),
            "startingOffsets": _offsets(days=[1, 1]),
        },
        True,
    ),
    "times go before offsets": (
        {
            "subscribe": "days",
            "endingOffsetsByTimestamp": _offsets(days=[START + HOUR, START + 2 * HOUR]),
            "endingOffsets": _offsets(days=[1, 1]),
        },
        True,
    ),
    "a time after the log's end": (
        {"subscribe": "append-time", "endingTimestamp": str(2**62)},
        True,
    ),
    "what is left below the log start": (
        {
            "subscribe": "trimmed",
            "startingOffsets": _offsets(trimmed=[3]),
            "failOnDataLoss": "false",
        },
        True,
    ),
    "what there is above the log end": (
        {
            "subscribe": "orders",
            "endingOffsets": _offsets(orders=[99_999, 30]),
            "failOnDataLoss": "false",
        },
        True,
    ),
    "nothing of what is gone": (
        {
            "subscribe": "trimmed",
            "startingOffsets": _offsets(trimmed=[3]),
            "endingOffsets": _offsets(trimmed=[9]),
            "failOnDataLoss": "false",
        },
        False,
    ),
}


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
        by_partition = {"startingOffsetsByTimestamp": _offsets(out_of_order=[first])}
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

REFUSALS: dict[str, tuple[dict[str, str], str]] = {
    "an unknown topic": ({"subscribe": "orders,nowhere"}, "UnknownTopicOrPartition"),
    "a partition of an unknown topic": ({"assign": '{"nowhere":[0]}'}, "UnknownTopicOrPartition"),
    "two ways to choose": (
        {"subscribe": "orders", "subscribePattern": "orders"},
        "Only one of the following options can be specified for Kafka source: ",
    ),
    "no topics": (
        {"subscribe": " , "},
        "No topics to subscribe to as specified value for option 'subscribe' is ' , '",
    ),
    "an empty pattern": (
        {"subscribePattern": " "},
        "Pattern to subscribe is empty as specified value for option 'subscribePattern' is ' '",
    ),
    "partitions that are no JSON": (
        {"assign": "orders"},
        "No topicpartitions to assign as specified value for option 'assign' is 'orders'",
    ),
    "partitions of another form": (
        {"assign": '{"orders":{"0":1}}'},
        'Expected e.g. {"topicA":[0,1],"topicB":[0,1]}, got {"orders":{"0":1}}',
    ),
    "a start at the end": (
        {"subscribe": "orders", "startingOffsets": "latest"},
        "starting offset can't be latest for batch queries on Kafka",
    ),
    "an end at the start": (
        {"subscribe": "orders", "endingOffsets": "earliest"},
        "ending offset can't be earliest for batch queries on Kafka",
    ),
    "a start at the end of a partition": (
        {"subscribe": "orders", "startingOffsets": _offsets(orders=[0, -1])},
        "startingOffsets for orders-1 can't be latest for batch queries on Kafka",
    ),
    "an end at the start of a partition": (
        {"subscribe": "orders", "endingOffsets": _offsets(orders=[0, -2])},
        "ending offset for orders-1 can't be earliest for batch queries on Kafka",
    ),
    "offsets that are no JSON": (
        {"subscribe": "orders", "startingOffsets": "{orders"},
        "Expected e.g. ",
    ),
    "starts of too few partitions": (
        {"subscribe": "orders", "startingOffsets": _offsets(orders=[0])},
        "Partitions specified for Kafka start offsets don't match what are assigned.",
    ),
    "times of too few partitions": (
        {"subscribe": "days", "startingOffsetsByTimestamp": _offsets(days=[START])},
        "Partitions specified for Kafka timestamp based start offsets don't match what are assigned.",
    ),
    "starts and ends of different partitions": (
        {
            "subscribe": "orders",
            "startingOffsets": _offsets(orders=[0, 0]),
            "endingOffsets": _offsets(orders=[1]),
        },
        "The specified start offset and end offset should have the same topic-partitions. Topic-partitions for start offset: orders-0, orders-1, topic-partitions for end offset: orders-0.",
    ),
    "a start above the end": (
        {
            "subscribe": "orders",
            "startingOffsets": _offsets(orders=[9, 0]),
            "endingOffsets": _offsets(orders=[8, 9]),
        },
        "The specified start offset 9 is greater than the end offset 8 for topic orders partition 0.",
    ),
    "a start time above the end time": (
        {
            "subscribe": "days",
            "startingTimestamp": str(START + DAY),
            "endingTimestamp": str(START),
        },
        "is greater than the",  # we say it of the times, the connector of what they lead to
    ),
    "a start time above the end time of a partition": (
        {
            "subscribe": "days",
            "startingOffsetsByTimestamp": _offsets(days=[START, START + 1]),
            "endingOffsetsByTimestamp": _offsets(days=[START, START]),
        },
        (
            f"The specified start timestamp {START + 1} is greater than the end timestamp {START} for"
            " topic days partition 1."
        ),
    ),
    "a start above the end that a time leads to": (
        {
            "subscribe": "days",
            "startingOffsets": _offsets(days=[400, 400]),
            "endingTimestamp": str(START + DAY),
        },
        "The resolved start offset 400 is greater than the resolved end offset ",
    ),
    "a time after all": (
        {"subscribe": "days", "startingTimestamp": str(START + 9 * DAY)},
        "No offset matched from request of topic-partition days-",
    ),
    "a loss below the log start": (
        {"subscribe": "trimmed", "startingOffsets": _offsets(trimmed=[3])},
        "Could not read records in offset [3, ",
    ),
    "a loss above the log end": (
        {"subscribe": "orders", "endingOffsets": _offsets(orders=[99_999, 30])},
        "Some data may have been lost because they are not available in ",
    ),
    "no tasks": ({"subscribe": "orders", "minPartitions": "0"}, "minPartitions must be positive"),
    "no records": (
        {"subscribe": "orders", "maxRecordsPerPartition": "-1"},
        "must be positive",
    ),
    "another start of consumers": (
        {"subscribe": "orders", "kafka_auto_offset_reset": "earliest"},
        "Kafka option 'auto.offset.reset' is not supported.",
    ),
    "deserializers": (
        {"subscribe": "orders", "kafka_value_deserializer": "java.lang.String"},
        "Kafka option 'value.deserializer' is not supported as values are deserialized",
    ),
    "commits": (
        {"subscribe": "orders", "kafka_enable_auto_commit": "true"},
        "Kafka option 'enable.auto.commit' is not supported",
    ),
    "interceptors": (
        {"subscribe": "orders", "kafka_interceptor_classes": "x"},
        "Kafka option 'interceptor.classes' is not supported",
    ),
    "a time beyond Spark's": (
        {"subscribe": ABSURD},
        (
            "Record at topic absurd-time partition 0 offset 1 has timestamp value 9223372036854776 that"
            " overflows when converting to Spark's microsecond-precision TimestampType."
        ),
    ),
}


@pytest.mark.parametrize(("options", "words"), REFUSALS.values(), ids=REFUSALS)
def test_the_same_options_are_refused_with_the_same_words(
    pair: Pair, options: dict[str, str], words: str
) -> None:
    theirs, ours = pair.errors(**options)
    assert words in theirs
    assert words in ours


def test_the_largest_time_that_fits_is_read(pair: Pair) -> None:
    microseconds = "unix_micros(timestamp) AS t"
    options = {"subscribe": ABSURD, "endingOffsets": _offsets(absurd_time=[1])}
    (theirs,) = pair.theirs(**options).selectExpr(microseconds).collect()
    (ours,) = pair.ours(**options).selectExpr(microseconds).collect()
    assert ours["t"] == theirs["t"] == (2**63 - 1) // 1000 * 1000
