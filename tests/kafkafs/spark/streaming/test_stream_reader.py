"""A query that follows log directories gives each record once, whatever happens to it and to them."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from engine.errors import CorruptRecordError, SourceError
from engine.log import source_checkpoints
from kafkafs.spark.errors import DataLossError, OptionError
from kafkafs.spark.streaming import followed_logs, stream_reader
from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import BuiltLog, after_a_tick
from tests.kafkafs.spark.streaming.engine_calls import Crash, Query

EARLIEST = {"startingOffsets": "earliest"}


@pytest.fixture(autouse=True)
def _look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is old, and nobody waits; and tasks leave this process its garbage collection."""
    monkeypatch.setattr(stream_reader, "spare_the_collector", lambda: None)
    monkeypatch.setattr(followed_logs, "MAX_AGE", 0)
    monkeypatch.setattr(followed_logs, "PAUSE", 0)
    monkeypatch.setattr(source_checkpoints, "_MAX_AGE", 0)


@pytest.fixture
def orders(tmp_path: Path) -> BuiltLog:
    """Ten records in two batches."""
    log = BuiltLog(tmp_path / "logs")
    log.segment([], 0)
    grow(log, 5, 5)
    return log


def grow(log: BuiltLog, *counts: int) -> None:
    """Append batches of so many records; each record's value is its offset."""
    for count in counts:
        first = log.next_offset
        log.append(builders.batch([Rec(str(first + i).encode()) for i in range(count)], first))


def offsets_of(query: Query, topic: str = "orders", partition: int = 0) -> list[int]:
    return [offset for name, number, offset in query.seen if (name, number) == (topic, partition)]


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


# What comes and goes


def test_new_partitions_and_topics_are_read_from_their_first_record(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, subscribePattern="ord|pay")
    run = query.run()
    run.all()
    for name in ("orders-1", "payments-0", "other-0"):
        log = BuiltLog(orders.log_dir, name)
        log.segment([], 0)
        grow(log, 3)
    run.all()
    assert query.seen == [
        (topic, partition, offset)
        for topic, partition in (("orders", 1), ("payments", 0))
        for offset in range(3)
    ]


def test_a_new_partition_that_lost_its_beginning_stops_the_query_or_is_a_warning(
    orders: BuiltLog, caplog: pytest.LogCaptureFixture
) -> None:
    strict = Query(orders.log_dir, **EARLIEST)
    loose = Query(orders.log_dir, failOnDataLoss=False, **EARLIEST)
    runs = [strict.run(), loose.run()]
    for run in runs:
        run.all()
    log = BuiltLog(orders.log_dir, "orders-1")
    log.segment([builders.batch([Rec(b"x")], 40)], 40)
    with pytest.raises(DataLossError, match="Added partition orders-1 starts from 40 instead of 0"):
        runs[0].trigger()
    assert len(strict.offsets) == 1
    with caplog.at_level(logging.WARNING):
        runs[1].all()
    assert "starts from 40" in caplog.text
    assert offsets_of(loose, partition=1) == [40]


def test_a_new_partition_that_loses_its_beginning_before_a_batch_is_done_again_is_a_loss(
    orders: BuiltLog,
) -> None:
    query = Query(orders.log_dir, **EARLIEST)
    run = query.run()
    run.all()
    log = BuiltLog(orders.log_dir, "orders-1")
    log.segment([], 0)
    grow(log, 5)
    with pytest.raises(Crash):
        run.trigger("planned")
    log.start_at(3)
    with pytest.raises(DataLossError, match="Added partition orders-1 starts from 3 instead of 0"):
        query.run().start()


def test_a_deleted_topic_stops_the_query_and_its_checkpoint_stays_as_it_was(
    orders: BuiltLog,
) -> None:
    query = Query(orders.log_dir, subscribe="orders", **EARLIEST)
    run = query.run()
    run.all()
    orders.folder.rename(
        orders.folder.with_name("orders-0.0123456789abcdef0123456789abcdef-delete")
    )
    other = BuiltLog(orders.log_dir, "others-0")
    other.segment([], 0)
    with pytest.raises(DataLossError, match=r"PARTITIONS_DELETED.*Set\(orders-0\) have been"):
        run.trigger()
    assert query.ends == [{"orders": {"0": 10}}]


def test_without_a_care_for_losses_a_deleted_topic_begins_anew(orders: BuiltLog) -> None:
    other = BuiltLog(orders.log_dir, "others-0")
    other.segment([], 0)
    grow(other, 1)
    query = Query(orders.log_dir, failOnDataLoss=False, **EARLIEST)
    run = query.run()
    run.all()
    shutil.rmtree(orders.folder)
    after_a_tick()
    run.all()
    assert query.ends[-1] == {"others": {"0": 1}}
    again = BuiltLog(orders.log_dir)
    again.segment([], 0)
    grow(again, 2)
    after_a_tick()
    run.all()
    assert offsets_of(query) == sorted([*range(10), 0, 1])


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_topic_made_anew_is_a_loss_also_when_it_has_more_records_by_now(
    orders: BuiltLog, is_strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    name_topic(orders, "AAAAAAAAAAAAAAAAAAAAAQ")
    query = Query(orders.log_dir, failOnDataLoss=is_strict, **EARLIEST)
    run = query.run()
    run.all()
    shutil.rmtree(orders.folder)
    again = BuiltLog(orders.log_dir)
    again.segment([], 0)
    grow(again, 12)
    name_topic(again, "AAAAAAAAAAAAAAAAAAAAAg")
    after_a_tick()
    if is_strict:
        with pytest.raises(DataLossError, match=r"PARTITIONS_DELETED.*orders-0"):
            run.trigger()
        assert len(query.offsets) == 1
    else:
        with caplog.at_level(logging.WARNING):
            run.all()
        assert caplog.text.count("PARTITIONS_DELETED") == 1
        assert offsets_of(query) == list(range(12))


def name_topic(log: BuiltLog, topic_id: str) -> None:
    """Say which topic a folder is of."""
    (log.folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


def test_a_new_partition_that_is_gone_before_it_was_read_is_a_loss(orders: BuiltLog) -> None:
    reader = Query(orders.log_dir, **EARLIEST).run().reader
    start = reader.initialOffset()
    log = BuiltLog(orders.log_dir, "orders-1")
    log.segment([], 0)
    grow(log, 5)
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {"orders": {"0": 10, "1": 5}}
    shutil.rmtree(log.folder)
    after_a_tick()
    with pytest.raises(DataLossError, match=r"PARTITIONS_DELETED.*Set\(orders-1\)"):
        reader.partitions(start, end)


def test_a_folder_that_is_away_for_a_moment_is_waited_for(
    orders: BuiltLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(orders.log_dir, **EARLIEST)
    run = query.run()
    run.all()
    aside = orders.log_dir / "orders-0.0123456789abcdef0123456789abcdef-future"
    orders.folder.rename(aside)

    def come_back(_: float) -> None:
        if aside.exists():
            aside.rename(orders.folder)
            after_a_tick()

    monkeypatch.setattr(run.reader._logs, "_wait", come_back)
    assert not run.trigger()
    assert not aside.exists()
    grow(orders, 2)
    run.all()
    assert offsets_of(query) == list(range(12))


def test_a_log_that_was_cut_off_stops_the_query_or_is_a_warning(
    orders: BuiltLog, caplog: pytest.LogCaptureFixture
) -> None:
    strict = Query(orders.log_dir, **EARLIEST)
    loose = Query(orders.log_dir, failOnDataLoss=False, **EARLIEST)
    for query in (strict, loose):
        query.run().all()
    size = orders.active.stat().st_size // 2
    with open(orders.active, "r+b") as file:
        file.truncate(size)
    orders.next_offset = 5
    with pytest.raises(DataLossError, match=r"orders-0 offset was changed from 10 to 5"):
        strict.run().trigger()
    assert len(strict.offsets) == 1
    run = loose.run()
    with caplog.at_level(logging.WARNING):
        run.trigger()
    assert "was changed from 10 to 5" in caplog.text
    grow(orders, 2)
    run.all()
    assert offsets_of(loose) == sorted([*range(10), 5, 6])


def test_records_deleted_before_they_were_read_stop_the_query_or_are_a_warning(
    orders: BuiltLog, caplog: pytest.LogCaptureFixture
) -> None:
    strict = Query(orders.log_dir, maxOffsetsPerTrigger=2, **EARLIEST)
    loose = Query(orders.log_dir, maxOffsetsPerTrigger=2, failOnDataLoss=False, **EARLIEST)
    for query in (strict, loose):
        query.run().trigger()
    orders.start_at(6)
    with pytest.raises(DataLossError, match=r"COULD_NOT_READ_OFFSET_RANGE.*\[2, 4\).*orders-0"):
        strict.run().trigger()
    with caplog.at_level(logging.WARNING):
        loose.run().all()
    assert "the log holds [6, 10)" in caplog.text
    assert offsets_of(loose) == [0, 1, 6, 7, 8, 9]


def test_a_path_that_is_gone_is_an_error_that_names_it(orders: BuiltLog) -> None:
    query = Query(orders.log_dir, failOnDataLoss=False, **EARLIEST)
    run = query.run()
    run.all()
    shutil.move(orders.log_dir, orders.log_dir.with_name("elsewhere"))
    with pytest.raises(SourceError, match=str(orders.log_dir)):
        run.trigger()


def test_a_newer_snapshot_in_the_place_of_the_old_one_is_followed(orders: BuiltLog) -> None:
    current = orders.log_dir.with_name("current")
    older = orders.log_dir.with_name("older")
    shutil.copytree(orders.log_dir, older)
    current.symlink_to(older)
    query = Query(current, **EARLIEST)
    run = query.run()
    run.all()
    grow(orders, 5)
    current.unlink()
    current.symlink_to(orders.log_dir)
    run.all()
    assert offsets_of(query) == list(range(15))


# Between the plan and the read


def planned(orders: BuiltLog, **options: object) -> tuple[Callable[[], list[int]], Query]:
    """What a task gives of all ten records, planned now and read when it is called."""
    query = Query(orders.log_dir, **EARLIEST, **options)
    run = query.run()
    splits = run.reader.partitions({"orders": {"0": 0}}, {"orders": {"0": 10}})
    return lambda: [row["offset"] for split in splits for row in run.rows_of(split)], query


def test_what_was_appended_since_the_plan_is_not_read(orders: BuiltLog) -> None:
    read, _ = planned(orders)
    grow(orders, 5)
    orders.segment([builders.batch([Rec(b"x")], 15)], 15)
    assert read() == list(range(10))


def test_a_segment_compacted_since_the_plan_gives_what_is_left(orders: BuiltLog) -> None:
    orders.segment([], 10)
    read, _ = planned(orders)
    orders.compact(0, builders.batch([Rec(b"3", offset=3), Rec(b"8", offset=8)], 0))
    assert read() == [3, 8]


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_segment_deleted_since_the_plan_is_a_loss(orders: BuiltLog, is_strict: bool) -> None:
    orders.segment([builders.batch([Rec(b"x")], 10)], 10)
    read, _ = planned(orders, failOnDataLoss=is_strict)
    first = min(orders.folder.glob("*.log"))
    first.rename(first.with_name(first.name + ".deleted"))
    if is_strict:
        with pytest.raises(DataLossError, match=r"\[0, 10\).*the log holds offsets \[10, 11\)"):
            read()
    else:
        assert read() == []


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_log_cut_off_since_the_plan_is_a_loss(orders: BuiltLog, is_strict: bool) -> None:
    read, _ = planned(orders, failOnDataLoss=is_strict)
    with open(orders.active, "r+b") as file:
        file.truncate(orders.active.stat().st_size // 2)
    if is_strict:
        with pytest.raises(DataLossError, match=r"\[0, 10\).*the log holds offsets \[0, 5\)"):
            read()
    else:
        assert read() == list(range(5))


# Bytes


@pytest.mark.parametrize("on_corrupt", ["fail", "skip", "row"])
def test_a_batch_that_is_being_written_is_read_when_it_is_there(
    orders: BuiltLog, on_corrupt: str
) -> None:
    query = Query(orders.log_dir, onCorrupt=on_corrupt, **EARLIEST)
    run = query.run()
    batch = builders.batch([Rec(b"%d" % i) for i in range(10, 14)], 10)
    for part in (batch[:7], batch[7:40], batch[40:-1]):
        with open(orders.active, "ab") as file:
            file.write(part)
        run.all()
        assert offsets_of(query) == list(range(10))
    with open(orders.active, "ab") as file:
        file.write(batch[-1:])
    run.all()
    assert offsets_of(query) == list(range(14))
    assert query.ends == [{"orders": {"0": 10}}, {"orders": {"0": 14}}]


def test_a_batch_cut_off_at_the_end_of_a_copy_is_no_hole_of_a_stream(orders: BuiltLog) -> None:
    batch = builders.batch([Rec(b"%d" % i) for i in range(10, 14)], 10)
    orders.append(batch[:-9])
    orders.next_offset = 14
    query = Query(orders.log_dir, onCorrupt="row", **EARLIEST)
    run = query.run()
    run.all()
    with open(orders.active, "ab") as file:
        file.write(batch[-9:])
    grow(orders, 2)
    run.all()
    assert offsets_of(query) == list(range(16))


def test_the_zeros_of_a_preallocated_file_are_no_records(orders: BuiltLog) -> None:
    end = orders.active.stat().st_size
    with open(orders.active, "r+b") as file:
        file.truncate(end + 100_000)
    query = Query(orders.log_dir, onCorrupt="row", **EARLIEST)
    run = query.run()
    run.all()
    with open(orders.active, "r+b") as file:
        file.seek(end)
        file.write(builders.batch([Rec(b"10")], 10))
    run.all()
    assert offsets_of(query) == list(range(11))


def spoil(log: BuiltLog, batch: bytes) -> None:
    """Flip a bit in a batch's records."""
    data = bytearray(log.active.read_bytes())
    data[data.index(batch) + len(batch) - 2] ^= 1
    log.active.write_bytes(data)


def test_a_hole_is_one_row_however_micro_batches_divide_it(orders: BuiltLog) -> None:
    bad = builders.batch([Rec(b"bad %d" % i) for i in range(6)], 10)
    orders.append(bad)
    grow(orders, 4)
    spoil(orders, bad)
    for limit in (1, 3, 7, 100):
        query = Query(orders.log_dir, onCorrupt="row", maxOffsetsPerTrigger=limit, **EARLIEST)
        query.run().all()
        assert [row["offset"] for row in query.rows if not row["_corrupt"]] == [
            *range(10), *range(16, 20),
        ]  # fmt: skip
        (hole,) = [json.loads(row["_corrupt"]) for row in query.rows if row["_corrupt"]]
        assert (hole["firstOffset"], hole["lastOffset"]) == (10, 15)


def test_a_query_that_begins_inside_of_a_hole_tells_of_it(orders: BuiltLog) -> None:
    bad = builders.batch([Rec(b"bad %d" % i) for i in range(6)], 10)
    orders.append(bad)
    grow(orders, 4)
    spoil(orders, bad)
    query = Query(
        orders.log_dir,
        onCorrupt="row",
        startingOffsets='{"orders":{"0":12}}',
        maxOffsetsPerTrigger=2,
    )
    query.run().all()
    assert sum(row["_corrupt"] is not None for row in query.rows) == 1


def test_damage_stops_the_query_unless_it_is_to_be_skipped(orders: BuiltLog) -> None:
    bad = builders.batch([Rec(b"bad")], 10)
    orders.append(bad)
    grow(orders, 1)
    spoil(orders, bad)
    with pytest.raises(CorruptRecordError, match=r"onCorrupt=skip"):
        Query(orders.log_dir, **EARLIEST).run().trigger()
    query = Query(orders.log_dir, onCorrupt="skip", **EARLIEST)
    query.run().all()
    assert offsets_of(query) == [*range(10), 11]


def test_a_stream_of_committed_records_waits_for_open_transactions(orders: BuiltLog) -> None:
    writer = Producer(id=7)
    query = Query(orders.log_dir, isolationLevel="read_committed", **EARLIEST)
    run = query.run()

    def write(first: int, sequence: int) -> None:
        producer = Producer(id=7, sequence=sequence)
        data = builders.batch([Rec(b"t")] * 2, first, producer=producer, transactional=True)
        orders.append(data)

    write(10, 0)
    run.all()
    assert offsets_of(query) == list(range(10))
    grow(orders, 1)
    run.all()
    assert offsets_of(query) == list(range(10))
    orders.append(builders.end_marker(13, writer, commit=False))
    run.all()
    assert offsets_of(query) == [*range(10), 12]
    write(14, 2)
    orders.append(builders.end_marker(16, writer, commit=True))
    run.all()
    assert offsets_of(query) == [*range(10), 12, 14, 15]


def test_a_stream_can_stay_below_what_is_replicated(orders: BuiltLog) -> None:
    def note(offset: int) -> None:
        path = orders.log_dir / "replication-offset-checkpoint"
        path.with_suffix(".tmp").write_text(f"0\n1\norders 0 {offset}\n")
        path.with_suffix(".tmp").replace(path)
        after_a_tick()

    note(4)
    query = Query(orders.log_dir, endAt="highWatermark", **EARLIEST)
    run = query.run()
    run.all()
    assert offsets_of(query) == list(range(4))
    grow(orders, 5)
    note(11)
    run.all()
    assert offsets_of(query) == list(range(11))


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
