"""What comes and goes while a query follows: partitions, topics, segments, and parts of them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from engine.errors import SourceError
from kafkafs.spark.errors import DataLossError
from tests import builders
from tests.builders import Rec
from tests.kafkafs.built_logs import BuiltLog, after_a_tick
from tests.kafkafs.spark.streaming.engine_calls import EARLIEST, Crash, Query, grow, offsets_of

pytestmark = pytest.mark.usefixtures("look_each_time")

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


OLD_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NEW_ID = "AAAAAAAAAAAAAAAAAAAAAg"
ANEW = (
    r"PARTITIONS_DELETED.*Partitions Set\(orders-0\) have been deleted: topic orders was deleted and created"
    rf" again \(topic id {OLD_ID} before, {NEW_ID} now\)\."
)


@pytest.mark.parametrize("while_it_runs", [True, False])
@pytest.mark.parametrize("records", [5, 10, 12])
def test_a_topic_made_anew_stops_the_query_whatever_its_log_end_is(
    orders: BuiltLog, while_it_runs: bool, records: int
) -> None:
    name_topic(orders, OLD_ID)
    query = Query(orders.log_dir, **EARLIEST)
    run = query.run()
    run.all()
    make_anew(orders, records)
    if not while_it_runs:
        run = query.run()
    with pytest.raises(DataLossError, match=ANEW):
        run.trigger()
    assert query.ends == [{"orders": {"0": 10}, "@topicIds": {"orders": {OLD_ID: [0]}}}]


@pytest.mark.parametrize("while_it_runs", [True, False])
@pytest.mark.parametrize("records", [5, 10, 12])
def test_without_a_care_for_losses_a_topic_made_anew_is_read_from_its_start(
    orders: BuiltLog, while_it_runs: bool, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    name_topic(orders, OLD_ID)
    query = Query(orders.log_dir, failOnDataLoss=False, maxOffsetsPerTrigger=10, **EARLIEST)
    run = query.run()
    run.all()
    make_anew(orders, records)
    if not while_it_runs:
        run = query.run()
    with caplog.at_level(logging.WARNING):
        run.all()
    assert caplog.text.count("PARTITIONS_DELETED") == 1
    assert offsets_of(query) == sorted([*range(10), *range(records)])
    assert query.ends[-1]["@topicIds"] == {"orders": {NEW_ID: [0]}}


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_planned_micro_batch_never_reads_another_topic_of_the_same_name(
    orders: BuiltLog, is_strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    name_topic(orders, OLD_ID)
    query = Query(orders.log_dir, failOnDataLoss=is_strict, **EARLIEST)
    with pytest.raises(Crash):
        query.run().trigger("planned")
    make_anew(orders, 12)
    if is_strict:
        with pytest.raises(DataLossError, match=ANEW):
            query.run().start()
        return
    run = query.run()
    with caplog.at_level(logging.WARNING):
        run.start()
    assert "PARTITIONS_DELETED" in caplog.text
    assert query.rows == []
    run.all()
    assert offsets_of(query) == list(range(12))


def test_a_checkpoint_without_topic_ids_gets_them_with_an_empty_micro_batch(
    orders: BuiltLog,
) -> None:
    query = Query(orders.log_dir, **EARLIEST)
    query.run().all()
    assert query.ends == [{"orders": {"0": 10}}]
    name_topic(orders, OLD_ID)
    run = query.run()
    assert run.all() == 1
    assert query.ends[1:] == [{"orders": {"0": 10}, "@topicIds": {"orders": {OLD_ID: [0]}}}]
    assert query.sink[1] == []
    make_anew(orders, 12)
    with pytest.raises(DataLossError, match=ANEW):
        query.run().trigger()


def test_a_topic_id_that_is_not_there_for_now_is_kept(orders: BuiltLog) -> None:
    name_topic(orders, OLD_ID)
    query = Query(orders.log_dir, **EARLIEST)
    query.run().all()
    (orders.folder / "partition.metadata").unlink()
    grow(orders, 2)
    query.run().all()
    assert query.ends[-1] == {"orders": {"0": 12}, "@topicIds": {"orders": {OLD_ID: [0]}}}
    make_anew(orders, 20)
    with pytest.raises(DataLossError, match=ANEW):
        query.run().trigger()


def make_anew(log: BuiltLog, records: int) -> None:
    """Delete a topic and create it again, with so many records."""
    shutil.rmtree(log.folder)
    again = BuiltLog(log.log_dir)
    again.segment([], 0)
    grow(again, records)
    name_topic(again, NEW_ID)
    after_a_tick()


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
def test_a_topic_made_anew_since_the_plan_is_a_loss(orders: BuiltLog, is_strict: bool) -> None:
    name_topic(orders, OLD_ID)
    read, _ = planned(orders, failOnDataLoss=is_strict)
    make_anew(orders, 12)
    if is_strict:
        with pytest.raises(DataLossError, match=ANEW):
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
