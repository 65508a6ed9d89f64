"""Partitions as sequences: the same records as a consumer got, by offset, by range and by time."""

from __future__ import annotations

import json
import pickle
import shutil
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

import kafkafs
from engine.errors import CorruptRecordError, SourceError
from kafkafs.api.consumer_record import ConsumerRecord
from kafkafs.api.opened_source import OpenedSource
from tests.builders import NONE, Producer, Rec, batch, end_marker, values
from tests.fixtures_data import (
    DATA,
    WITH_TRUTH,
    TruthRecord,
    log_dir,
    truth_offsets,
    truth_partitions,
    truth_records,
)
from tests.kafkafs.built_logs import BuiltLog, after_a_tick, text_batch

ALL = [(kind, name) for kind in WITH_TRUTH for name in truth_partitions(kind)]
TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}


@pytest.fixture(scope="module", params=WITH_TRUTH)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def current() -> Iterator[OpenedSource]:
    with kafkafs.open(log_dir("current")) as source:
        yield source


def as_truth(record: ConsumerRecord) -> TruthRecord:
    return TruthRecord(
        record.offset,
        {label: number for number, label in TYPES.items()}[record.timestamp_type],
        0 if record.timestamp_type == "NoTimestampType" else record.timestamp,  # as librdkafka
        record.key,
        record.value,
        record.headers,
        None if record.leader_epoch < 0 else record.leader_epoch,
    )


def partition_of(source: OpenedSource, name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)


def test_each_partition_gives_the_records_that_a_consumer_got(kind: str) -> None:
    with kafkafs.open(log_dir(kind)) as source:
        for name in truth_partitions(kind):
            partition = source[partition_of(source, name)]
            assert tuple(map(as_truth, partition)) == truth_records(kind, name), name
            committed = partition.records(isolation="read_committed")
            assert tuple(map(as_truth, committed)) == truth_records(kind, name, True), name


def test_bounds_and_look_ups_by_time_are_those_of_the_broker(kind: str) -> None:
    with kafkafs.open(log_dir(kind)) as source:
        for name in truth_partitions(kind):
            partition, told = source[partition_of(source, name)], truth_offsets(kind)[name]
            assert (partition.start, partition.end) == (told["earliest"], told["latest"])
            assert partition.last_stable_offset == told["latest_committed"]
            assert len(partition) == told["latest"] - told["earliest"]
            offsets = {record.offset for record in truth_records(kind, name)}
            for time, offset in told.get("for_times", {}).items():
                found = partition.at(int(time))
                if offset == -1 or offset in offsets:  # else a control record, which is no record
                    assert (-1 if found is None else found.offset) == offset


def test_each_offset_gives_its_record_or_a_key_error(current: OpenedSource) -> None:
    for name in ("compacted-0", "txn-0", "recoded-zstd-0", "trimmed-0"):
        partition = current[partition_of(current, name)]
        known = {record.offset: record for record in truth_records("current", name)}
        for offset in range(partition.start, partition.end):
            if offset in known:
                assert as_truth(partition[offset]) == known[offset]
            else:
                with pytest.raises(KeyError, match=r"compaction removed it|control record"):
                    _ = partition[offset]


def test_an_offset_outside_of_the_log_is_an_index_error(current: OpenedSource) -> None:
    trimmed = current["trimmed", 0]
    assert trimmed.start > 0
    for offset in (trimmed.start - 1, trimmed.end, 2**63 - 1):
        with pytest.raises(IndexError, match=f"has offsets {trimmed.start} to {trimmed.end}"):
            _ = trimmed[offset]
    with pytest.raises(IndexError, match="has 0 records, not 1"):
        _ = current["empty", 0][-1]


def test_negative_numbers_count_records_back_over_gaps_and_markers(current: OpenedSource) -> None:
    for name in ("txn-0", "compacted-0", "orders-0"):
        partition, known = current[partition_of(current, name)], truth_records("current", name)
        for back in (1, 2, 7, len(known)):
            assert as_truth(partition[-back]) == known[-back]
        with pytest.raises(IndexError, match=f"has {len(known)} records, not {len(known) + 1}"):
            _ = partition[-len(known) - 1]


def test_slices_are_ranges_of_offsets_and_cut_at_the_log(current: OpenedSource) -> None:
    orders, known = current["orders", 0], truth_records("current", "orders-0")
    for place in (slice(100, 200), slice(None, 5), slice(-5, None), slice(990, 5000), slice(7, 3)):
        assert tuple(map(as_truth, orders[place])) == known[place]
    assert tuple(orders[3:5]) == tuple(orders[3:5])
    with pytest.raises(ValueError, match="no step"):
        _ = orders[::2]
    compacted = current["compacted", 0]
    wanted = [r for r in truth_records("current", "compacted-0") if 20 <= r.offset < 300]
    assert list(map(as_truth, compacted[20:300])) == wanted


def test_a_partition_in_text_has_its_bounds(current: OpenedSource) -> None:
    assert repr(current["orders", 0]) == "<orders-0: offsets 0 to 1000>"
    assert repr(current["orders", 0][1:3]) == "<orders-0[1:3]>"
    assert repr(current["orders"]) == "<topic orders: 1 partition>"


def test_what_is_not_there_is_a_key_error(current: OpenedSource) -> None:
    for name in ("nothing", ("orders", 1), ("nothing", 0), ("doomed", 0)):
        with pytest.raises(KeyError):
            _ = current[name]
    assert "doomed" not in current.topics
    assert {"orders", "__consumer_offsets"} <= set(current.topics)
    assert [each.name for each in current.partitions()] == sorted(
        name for name in current.logs.partitions() if "-delete" not in name
    )


def test_a_moment_is_a_datetime_with_a_zone_or_milliseconds_or_a_text(
    current: OpenedSource,
) -> None:
    orders = current["orders", 0]
    third = orders[3]
    assert third.time is not None
    elsewhere = third.time.astimezone(timezone(timedelta(hours=5)))
    for moment in (third.timestamp, third.time, elsewhere, third.time.isoformat()):
        assert orders.at(moment) == third
    later = third.time + timedelta(microseconds=1)
    assert orders.at(later) == orders[4]
    assert orders.at(datetime(2100, 1, 1, tzinfo=UTC)) is None
    with pytest.raises(ValueError, match="no time zone"):
        orders.at(datetime(2024, 1, 1))  # noqa: DTZ001
    with pytest.raises(ValueError, match="is not a time"):
        orders.at("soon")


def test_values_are_decoded_as_in_the_record_line(tmp_path: Path, current: OpenedSource) -> None:
    log = BuiltLog(tmp_path)
    contents = [b'{"a":[1]}', "ключ".encode(), b"\xff\x00", b"", None, b"7"]
    log.segment([batch([Rec(content) for content in contents])], 0)
    with kafkafs.open(tmp_path) as source:
        found = [record.decoded().value for record in source["orders", 0]]
    assert found == [{"a": [1]}, "ключ", b"\xff\x00", "", None, "7"]
    offsets = current["__consumer_offsets", 0]
    again = pickle.loads(pickle.dumps(offsets[0]))
    assert again.decoded() == offsets[0].decoded()
    assert {record.decoded().key["type"] for record in offsets} >= {"1", "2"}


def test_values_with_a_schema_are_decoded_as_in_the_record_line() -> None:
    with kafkafs.open(DATA / "schemas-confluent" / "data") as source:
        compared = 0
        for partition in source.partitions():
            for record in partition:
                line = json.loads(source.read(f"{partition.name}/offset/{record.offset}"))
                if line.get("valueEncoding") in ("avro", "protobuf", "json-schema"):
                    assert record.decoded().value == line["value"]
                    compared += 1
        assert compared > 10


def test_a_source_without_the_registrys_topic_takes_schemas_of_another_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = DATA / "schemas-confluent" / "data"
    shutil.copytree(folder / "avro-evolution-0", tmp_path / "avro-evolution-0")
    with kafkafs.open(folder) as whole, kafkafs.open(folder, schemas="none") as bare:
        wanted = [record.decoded() for record in whole["avro-evolution", 0]]
        raw = [record.decoded() for record in bare["avro-evolution", 0]]
    assert any(isinstance(each.value, dict) for each in wanted)
    assert not any(isinstance(each.value, dict) for each in raw)
    with kafkafs.open(tmp_path) as alone:
        assert [record.decoded() for record in alone["avro-evolution", 0]] == raw
    monkeypatch.chdir(folder.parent)
    for schemas in (folder, "data", ["auto", str(folder)]):
        with kafkafs.open(tmp_path, schemas=schemas) as alone:
            copied = pickle.dumps(alone)
            assert [record.decoded() for record in alone["avro-evolution", 0]] == wanted
    monkeypatch.chdir(tmp_path)
    with pickle.loads(copied) as again:
        assert [record.decoded() for record in again["avro-evolution", 0]] == wanted
    with pytest.raises(SourceError):
        kafkafs.open(tmp_path, schemas="/no/such")


def test_damage_is_an_error_with_file_position_and_offsets_or_is_skipped(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    batches = [text_batch(first, 10) for first in (0, 10, 20)]
    path = log.segment(batches, 0)
    data = bytearray(path.read_bytes())
    position = len(batches[0])
    data[position + 70] ^= 1
    path.write_bytes(data)
    with kafkafs.open(tmp_path) as source:
        orders = source["orders", 0]
        records = iter(orders)
        assert [next(records).offset for _ in range(10)] == list(range(10))
        with pytest.raises(kafkafs.CorruptBatchError) as failed:
            next(records)
        error = failed.value
        assert (error.path, error.position) == (str(path), position)
        assert (error.first_offset, error.last_offset) == (10, 19)
        assert isinstance(error, CorruptRecordError)
        again = pickle.loads(pickle.dumps(error))
        assert (again.path, again.first_offset) == (str(path), 10)
        with pytest.raises(kafkafs.CorruptBatchError) as single:
            _ = orders[15]
        assert (single.value.path, single.value.position) == (str(path), position)
        skipped = [record.offset for record in orders.records(on_corrupt="skip")]
        assert skipped == [*range(10), *range(20, 30)]
        assert [record.offset for record in orders[20:]] == list(range(20, 30))
        with pytest.raises(ValueError, match="for scans"):
            orders.records(on_corrupt="row")
        with pytest.raises(ValueError, match="on_corrupt is one of raise, skip, row, not 'x'"):
            orders.records(on_corrupt="x")  # type: ignore[arg-type]


def test_a_record_in_a_batch_that_does_not_decode_is_an_error_at_that_batch(tmp_path: Path) -> None:
    from tests.builders import patched, resealed

    log = BuiltLog(tmp_path)
    good = batch(values("a", "b", "c"))
    path = log.segment([resealed(patched(good, 61, b"\x7e"))], 0)
    with kafkafs.open(tmp_path) as source:
        with pytest.raises(kafkafs.CorruptBatchError) as failed:
            _ = source["orders", 0][0]
        assert (failed.value.path, failed.value.position) == (str(path), 0)


def test_an_iteration_can_be_closed_early_and_holds_no_file(current: OpenedSource) -> None:
    records = iter(current["orders", 0])
    first = next(records)
    records.close()
    assert first.offset == 0
    assert list(records) == []


def test_new_records_show_up_in_the_next_iteration(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([text_batch(0, 10)], 0)
    with kafkafs.open(tmp_path) as source:
        orders = source["orders", 0]
        assert sum(1 for _ in orders) == len(orders) == 10
        log.append(text_batch(10, 5))
        deadline = datetime.now(UTC) + timedelta(seconds=5)
        while len(orders) < 15 and datetime.now(UTC) < deadline:
            pass
        assert [record.offset for record in orders] == list(range(15))
        assert orders[-1].offset == 14


def test_records_that_are_deleted_during_an_iteration_are_an_error(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    first = log.segment([text_batch(0, 10)], 0)
    second = log.segment([text_batch(10, 10)], 10)
    log.segment([text_batch(20, 10)], 20)
    with kafkafs.open(tmp_path) as source:
        records = iter(source["orders", 0])
        assert [next(records).offset for _ in range(10)] == list(range(10))
        for path in (first, second):
            for file in log.folder.glob(f"{path.stem}.*"):
                file.unlink()
        with pytest.raises(kafkafs.LostRecordsError, match=r"offsets \[10, 20\) of orders-0"):
            list(records)


def test_a_snapshot_shows_what_a_broker_deletes(tmp_path: Path) -> None:
    shutil.copytree(log_dir("sample"), tmp_path / "data")
    with kafkafs.open(tmp_path / "data", snapshot=True) as source:
        shutil.rmtree(tmp_path / "data" / "orders-0")
        assert sum(1 for _ in source["orders", 0]) == 1000


def test_sources_and_partitions_travel_to_other_processes(current: OpenedSource) -> None:
    orders = current["orders", 0]
    again = pickle.loads(pickle.dumps(orders))
    assert again[35] == orders[35]
    assert list(pickle.loads(pickle.dumps(current)).topics) == list(current.topics)
    record = orders[1]
    assert pickle.loads(pickle.dumps(record)) == record


def test_threads_share_a_source(current: OpenedSource) -> None:
    wanted = truth_records("current", "orders-0")
    found: list[object] = []

    def read() -> None:
        found.append(tuple(map(as_truth, current["orders", 0])))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 8


def test_a_copy_of_a_folder_and_a_single_file_are_partitions_too(tmp_path: Path) -> None:
    copy = tmp_path / "backup"
    shutil.copytree(log_dir("sample") / "orders-0", copy)
    with kafkafs.open(copy) as source:
        (partition,) = source.partitions()
        assert (partition.topic, partition.partition, len(partition)) == ("backup", 0, 1000)
        assert sum(1 for _ in partition) == 1000
    with kafkafs.open(min(copy.glob("*.log"))) as source:
        (partition,) = source.partitions()
        assert [record.offset for record in partition] == list(range(395))


def test_control_records_are_no_records(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    producer = Producer(id=7, epoch=0, sequence=0)
    inside = batch(values("a"), 0, NONE, producer=producer, transactional=True)
    log.segment([inside, end_marker(1, Producer(id=7), commit=True)], 0)
    with kafkafs.open(tmp_path) as source:
        orders = source["orders", 0]
        (only,) = orders
        assert (only.offset, only.transaction, only.producer_id) == (0, "committed", 7)
        assert orders[-1] == only
        with pytest.raises(KeyError, match="offset 1 of orders-0 is a control record's"):
            _ = orders[1]


def test_the_newest_record_of_a_key_is_the_last_one_that_a_consumer_got(kind: str) -> None:
    asked = 0
    with kafkafs.open(log_dir(kind)) as source:
        for name in truth_partitions(kind):
            partition = source[partition_of(source, name)]
            newest = {each.key: each for each in truth_records(kind, name)}
            newest.pop(None, None)
            for key in [*newest][:: len(newest) // 10 + 1]:
                assert key is not None
                found = partition.newest(key)
                assert found is not None
                assert as_truth(found) == newest[key]
                asked += 1
            assert partition.newest(b"no record has this key") is None
    assert asked > 10


def test_the_newest_record_of_a_key_may_be_a_tombstone_and_follows_the_log(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    log.segment([batch([Rec(b"1", key="ключ".encode()), Rec(b"2", key=b"k")])], 0)
    with kafkafs.open(tmp_path) as source:
        partition = source["orders", 0]
        assert [partition.newest(key) for key in ("none", "gone")] == [None, None]
        found = partition.newest("ключ")
        assert found is not None
        assert (found.offset, found.value) == (0, b"1")
        log.append(batch([Rec(None, key=b"k")], 2))
        after_a_tick()
        partition.log.view(0.0)
        found = partition.newest(b"k")
        assert found is not None
        assert (found.offset, found.value) == (2, None)


def test_damage_that_may_hide_a_newer_record_of_a_key_is_an_error(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path)
    first, second = (batch([Rec(b"v", key=key)], at) for at, key in enumerate((b"a", b"b")))
    path = log.segment([first, second[:-1] + b"?", batch([Rec(b"v", key=b"c")], 2)], 0)
    with kafkafs.open(tmp_path) as source:
        for _ in range(3):
            found = source["orders", 0].newest(b"c")
            assert found is not None
            for key in (b"a", b"none"):
                with pytest.raises(kafkafs.CorruptBatchError, match="newer record") as caught:
                    source["orders", 0].newest(key)
                assert (caught.value.path, caught.value.position) == (str(path), len(first))
