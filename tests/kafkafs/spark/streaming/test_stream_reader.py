"""A query that follows log directories gives each record once, whatever happens to it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from kafkafs.spark.errors import DataLossError, OptionError
from tests import builders
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.spark.streaming.engine_calls import EARLIEST, Crash, Query, grow, offsets_of

pytestmark = pytest.mark.usefixtures("look_each_time")

# Where it begins


def test_everything_is_read_once_and_what_is_new_follows(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, **EARLIEST)
    run = query.run()
    assert run.all() == 1
    grow(orders, 3)
    assert run.all() == 1
    assert query.ends == [{"orders": {"0": 10}}, {"orders": {"0": 13}}]
    assert [row["value"] for row in query.rows] == [b"%d" % i for i in range(13)]


def test_a_query_begins_at_the_end_when_nothing_else_is_said(orders: BuiltLog) -> None:
    query = Query(orders.log_dir)
    run = query.run()
    assert run.trigger()
    assert query.rows == []
    grow(orders, 3)
    assert run.all() == 1
    assert offsets_of(query) == [10, 11, 12]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"startingOffsets": '{"orders":{"0":-1}}'},
        {"startingTimestamp": 1 << 50, "startingOffsetsByTimestampStrategy": "latest"},
    ],
)
def test_the_end_that_a_query_began_at_outlives_a_crash_of_its_first_micro_batch(
    orders: BuiltLog, options: dict[str, object]
) -> None:
    query = Query(orders.log_dir, **options)
    run = query.run()
    assert run.reader.initialOffset() == {"orders": {"0": 10}}
    grow(orders, 4)
    with pytest.raises(Crash):
        run.trigger("planned")
    grow(orders, 4)
    query.run().all()
    assert offsets_of(query) == list(range(10, 18))


def test_a_first_micro_batch_done_again_ignores_what_was_added_since(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, **EARLIEST)
    with pytest.raises(Crash):
        query.run().trigger("planned")
    other = BuiltLog(orders.log_dir, "orders-1")
    other.segment([], 0)
    grow(other, 7)
    assert query.run().all() == 1
    assert offsets_of(query) == list(range(10))
    assert offsets_of(query, partition=1) == list(range(7))


def test_where_a_query_begins_can_be_said_for_each_partition(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, startingOffsets='{"orders":{"0":7}}')
    query.run().all()
    assert offsets_of(query) == [7, 8, 9]


def test_a_start_beyond_the_end_is_an_error_and_not_silence(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, startingOffsets='{"orders":{"0":11}}')
    run = query.run()
    run.trigger()
    with pytest.raises(DataLossError, match=r"PARTITION_OFFSET_CHANGED.* from 11 to 10"):
        run.trigger()


def test_a_time_is_where_its_first_record_is(orders: BuiltLog) -> None:
    log = BuiltLog(orders.log_dir, "timed-0")
    log.segment([builders.batch(builders.values("a", "b", "c", timestamp=5000))], 0)
    query = Query(orders.log_dir, subscribe="timed", startingTimestamp=5001)
    query.run().all()
    assert [row["value"] for row in query.rows] == [b"b", b"c"]
    with pytest.raises(OptionError, match="No offset matched from request"):
        Query(orders.log_dir, subscribe="timed", startingTimestamp=5003).run().trigger()


# How much at a time


def test_a_limit_makes_micro_batches_of_that_size(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, maxOffsetsPerTrigger=4, **EARLIEST)
    assert query.run().all() == 3
    assert [len(query.sink[number]) for number in range(3)] == [4, 4, 2]
    assert offsets_of(query) == list(range(10))


def test_available_now_ends_where_the_log_ended_when_it_began(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, maxOffsetsPerTrigger=4, minOffsetsPerTrigger=4, **EARLIEST)
    run = query.run(available_now=True)
    run.trigger()
    grow(orders, 50)
    assert run.all() == 2
    assert offsets_of(query) == list(range(10))
    assert query.run(available_now=True).all() == 13
    assert offsets_of(query) == list(range(60))


def test_a_query_without_a_limit_takes_what_there_is_whatever_the_trigger_says(
    orders: BuiltLog,
) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    reader = Query(orders.log_dir, maxOffsetsPerTrigger=4, **EARLIEST).run().reader
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == {"orders": {"0": 10}}
    assert reader.reportLatestOffset() == {"orders": {"0": 10}}


def test_a_micro_batch_waits_until_there_is_enough_for_one(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, minOffsetsPerTrigger=5, **EARLIEST)
    run = query.run()
    assert run.all() == 1
    grow(orders, 4)
    assert not run.trigger()
    grow(orders, 1)
    assert run.trigger()
    assert offsets_of(query) == list(range(15))


def test_a_micro_batch_does_not_wait_longer_than_was_said(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, minOffsetsPerTrigger=5, maxTriggerDelay="0ms", **EARLIEST)
    run = query.run()
    assert run.all() == 1
    grow(orders, 1)
    assert run.trigger()


def test_min_partitions_divides_what_a_micro_batch_reads(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, minPartitions=5, **EARLIEST)
    run = query.run()
    splits = run.reader.partitions({"orders": {"0": 0}}, {"orders": {"0": 10}})
    assert len(splits) == 5
    assert sorted(row["offset"] for split in splits for row in run.rows_of(split)) == [*range(10)]


def test_nothing_new_has_no_splits(orders: BuiltLog) -> None:
    reader = Query(orders.log_dir).run().reader
    assert reader.partitions({"orders": {"0": 4}}, {"orders": {"0": 4}}) == []


def test_one_task_reads_what_is_small(orders: BuiltLog) -> None:
    for number in (1, 2):
        log = BuiltLog(orders.log_dir, f"orders-{number}")
        log.segment([], 0)
        grow(log, 3)
    query = Query(orders.log_dir, **EARLIEST)
    run = query.run()
    (task,) = run.reader.partitions({"orders": {"0": 2}}, {"orders": {"0": 10, "1": 3, "2": 1}})
    assert len(run.rows_of(task)) == 8 + 3 + 1


# What is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
        ({"endingTimestamp": 5}, "ending timestamp not valid in streaming queries"),
        ({"view": "batches"}, "is for batch queries"),
        ({"subscribe": "nothing"}, "UnknownTopicOrPartitionException"),
        (
            {"minOffsetsPerTrigger": 9, "maxOffsetsPerTrigger": 8},
            "higher than the maxOffsetsPerTrigger",
        ),
        ({"startingOffsets": '{"orders":{"0":1,"1":2}}'}, "DOES_NOT_MATCH_ASSIGNED"),
        ({"endAt": "highWatermark"}, "needs the replication-offset-checkpoint"),
        ({"endAt": "later"}, "'endAt' is one of"),
    ],
)
def test_what_a_stream_cannot_do_is_said_before_it_begins(
    orders: BuiltLog, options: dict[str, object], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        Query(orders.log_dir, **options).run().trigger()


# All at once


@pytest.fixture(params=range(6))
def dice(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(request.param)


def test_each_record_is_there_once_after_any_crashes(tmp_path: Path, dice: random.Random) -> None:
    """Logs grow, roll, lose whole segments that were read, and get partitions; the query dies at random."""
    logs = [BuiltLog(tmp_path / "logs")]
    logs[0].segment([], 0)
    options = dice.choice([{}, {"maxOffsetsPerTrigger": 9}, {"maxRecordsPerPartition": 5}])
    query = Query(tmp_path / "logs", splitBytes="1k", **EARLIEST, **options)
    run = query.run()
    for _ in range(60):
        log = dice.choice(logs)
        match dice.randrange(8):
            case 0 if len(logs) < 4:
                logs.append(BuiltLog(tmp_path / "logs", f"orders-{len(logs)}"))
                logs[-1].segment([], 0)
            case 1:
                log.segment([], log.next_offset) if log.active.stat().st_size else None
            case 2:
                run.stop()
                run = query.run()
            case 3 | 4:
                crash = dice.choice(["planned", "written", None])
                try:
                    run.trigger(crash)
                except Crash:
                    run = query.run()
            case _:
                grow(log, *[dice.randrange(1, 8) for _ in range(dice.randrange(1, 4))])
    query.run().all()
    assert query.seen == [
        ("orders", number, offset)
        for number, log in enumerate(logs)
        for offset in range(log.next_offset)
    ]
