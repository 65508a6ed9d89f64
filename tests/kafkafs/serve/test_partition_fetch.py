"""Fetches of one partition, judged by what consumers of real brokers got."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.log.segment.log_segment import LogSegment
from engine.record.encoding.batch_encoding import encode_message
from engine.record.memory_records import MemoryRecords
from engine.record.record import Record
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.records.conversions import OldFormats
from kafkafs.serve.records.partition_fetch import FetchRules
from tests.builders import Rec, batch
from tests.engine.log.folders import LogWriter
from tests.fixtures_data import (
    WITH_TRUTH,
    copy_of,
    log_dir,
    logs,
    truth_offsets,
    truth_partitions,
    truth_records,
)
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.consumed import Consumer, FetchError, bytes_of
from tests.kafkafs.serve.serving import serving

PARTITIONS = [(kind, name) for kind in WITH_TRUTH for name in truth_partitions(kind)]
each_partition = pytest.mark.parametrize(("kind", "name"), PARTITIONS)


def facts(records) -> list[tuple]:
    return [
        (
            each.offset,
            each.key,
            each.value,
            tuple((header.key, header.value) for header in each.headers),
        )
        for each in records
    ]


def truth(kind: str, name: str, *, committed: bool = False) -> list[tuple]:
    return [
        (
            each.offset,
            each.key,
            each.value,
            tuple((key.encode(), value) for key, value in each.headers),
        )
        for each in truth_records(kind, name, committed)
    ]


def plain(found: list[tuple]) -> list[tuple]:
    """The same with bytes for keys of headers, whichever form they have."""
    return [
        (offset, key and bytes(key), value and bytes(value) if value else value,
         tuple((name if isinstance(name, bytes) else str(name).encode(), data) for name, data in headers))
        for offset, key, value, headers in found
    ]  # fmt: skip


@each_partition
@pytest.mark.parametrize("committed", [False, True], ids=["uncommitted", "committed"])
def test_fetches_give_the_records_that_a_real_broker_gave(kind, name, committed):
    consumer = Consumer(log_dir(kind))
    got = plain(facts(consumer.records(name, committed=committed)))
    assert got == truth(kind, name, committed=committed)


@each_partition
def test_an_answer_states_the_offsets_of_the_real_broker(kind, name):
    consumer = Consumer(log_dir(kind))
    known = truth_offsets(kind)[name]
    answer = consumer.fetch(name, known["latest"], committed=True)
    assert (answer.log_start_offset, answer.high_watermark, answer.last_stable_offset) == (
        known["earliest"], known["latest"], known["latest_committed"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name"), [("current", "txn-0"), ("current", "compacted-0"), ("legacy", "upgraded-0")]
)
@pytest.mark.parametrize("committed", [False, True], ids=["uncommitted", "committed"])
def test_any_start_offset_gives_the_rest_of_the_records(kind, name, committed):
    consumer = Consumer(log_dir(kind))
    whole = truth(kind, name, committed=committed)
    known = truth_offsets(kind)[name]
    for start in range(known["earliest"], known["latest"], 11):
        got = plain(facts(consumer.records(name, start, committed=committed)))
        assert got == [each for each in whole if each[0] >= start], start


@pytest.mark.parametrize("most", [0, 1, 61, 5_000])
def test_small_limits_give_one_batch_at_a_time_and_lose_nothing(most):
    consumer = Consumer(log_dir("current"))
    got = plain(facts(consumer.records("txn-0", most=most, committed=True)))
    assert got == truth("current", "txn-0", committed=True)


def test_an_answer_has_no_more_bytes_than_asked_after_its_first_batch():
    consumer = Consumer(log_dir("current"))
    first = consumer.fetch("orders-0", 0, 0).size
    assert 0 < first < 20_000
    assert consumer.fetch("orders-0", 0, first + 100).size == first + 100


def test_without_the_promise_of_one_batch_a_small_limit_gives_none():
    answer = Consumer(log_dir("current")).fetch("orders-0", 0, 10, min_one_batch=False)
    assert (answer.error, answer.size) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("offset", [-1, 1501])
def test_an_offset_outside_the_log_is_out_of_range(offset):
    answer = Consumer(log_dir("current")).fetch("trimmed-0", offset)
    assert answer.error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (answer.high_watermark, answer.log_start_offset) == (-1, -1)


@pytest.mark.parametrize(
    ("stated", "error"),
    [(-1, ErrorCode.NONE), (0, ErrorCode.NONE), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_leader_epoch_above_the_newest_is_unknown(stated, error):
    consumer = Consumer(log_dir("current"))
    assert consumer.cluster.leader_epoch(consumer.log("orders-0")) == 0
    answer = consumer.fetch("orders-0", 0, 1000, epoch=stated)
    assert answer.error == error


# Damage


@pytest.fixture
def hurt(tmp_path: Path) -> tuple[Path, int, int]:
    """A log whose third batch has a wrong byte: the source, and the batch's first and last offset."""
    copy = copy_of("current", tmp_path, ["orders-0"])
    batch = list(batches_of(copy))[2]
    path = copy / "orders-0" / logs("current", "orders-0")[0].name
    data = bytearray(path.read_bytes())
    data[batch.position + batch.size - 1] ^= 0x55
    path.write_bytes(data)
    return copy, batch.base_offset, batch.last_offset


def batches_of(source: Path):
    segment: LogSegment = Consumer(source).log("orders-0").view().segment_at(0)
    for run in segment.scan():
        yield from (run.headers[row] for row in range(len(run.headers)))


def test_damage_is_an_error_at_its_offsets_and_nowhere_else(hurt):
    source, first, last = hurt
    consumer = Consumer(source)
    for offset in range(1000):
        answer = consumer.fetch("orders-0", offset, 1)
        is_lost = first <= offset <= last
        assert answer.error == (ErrorCode.CORRUPT_MESSAGE if is_lost else ErrorCode.NONE), offset
        assert bool(answer.size) is not is_lost


def test_batches_before_damage_are_served_up_to_it(hurt):
    source, first, _ = hurt
    with pytest.raises(FetchError) as error:
        Consumer(source).records("orders-0")
    assert (error.value.code, error.value.offset) == (ErrorCode.CORRUPT_MESSAGE, first)


def test_with_skip_damaged_every_other_record_is_served(hurt):
    source, first, last = hurt
    consumer = Consumer(source, rules=FetchRules(skip_damaged=True))
    got = plain(facts(consumer.records("orders-0")))
    assert got == [each for each in truth("current", "orders-0") if not first <= each[0] <= last]


def test_with_skip_damaged_a_fetch_at_damage_gets_the_next_good_batch_on_the_wire(hurt, tmp_path):
    """Clients that read on from the last record they got, such as kafka-go, ask for ever after an empty batch."""
    source, first, last = hurt
    with serving(source, tmp_path, "--skip-damaged") as served, Connection(served) as client:
        for offset in (first, last):
            partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1}
            answer = client.ask(
                1, 12, replicaId=-1, maxWaitMs=0, minBytes=1, maxBytes=1 << 20, sessionEpoch=-1,
                topics=[{"topic": "orders", "partitions": [partition]}],
            )  # fmt: skip
            records = answer["responses"][0]["partitions"][0]["records"]
            got = next(iter(MemoryRecords(bytes(records)).batches()))
            assert (got.base_offset, bool(got.record_count)) == (last + 1, True)


def test_a_lost_segment_end_is_passed_over_to_the_next_segment(tmp_path):
    copy = copy_of("current", tmp_path, ["compacted-0"])
    first, second = logs("current", "compacted-0")[:2]
    path = copy / "compacted-0" / first.name
    path.write_bytes(path.read_bytes()[:-30])
    base = int(second.name.split(".")[0])
    got = plain(facts(Consumer(copy, rules=FetchRules(skip_damaged=True)).records("compacted-0")))
    whole = truth("current", "compacted-0")
    assert [each for each in got if each[0] >= base] == [each for each in whole if each[0] >= base]
    assert 0 < len(got) < len(whole)


# Batches that are gone from the middle of a file

KINDS = {"txn-0": ["txn-0"], "orders-0": ["orders-0", "__cluster_metadata-0"]}
"""What shows that a batch is lost: numbers of a producer, or the topic's policy in the metadata."""


def without_batch(tmp_path: Path, name: str, place: int, row: int) -> tuple[Path, int, int]:
    """A log dir without a batch of a log's segment, and the batch's first and last offset."""
    copy = copy_of("current", tmp_path, KINDS[name])
    segment = Consumer(copy).log(name).view().segment_at(place)
    batch = next(segment.scan()).headers[row]
    path = copy / name / segment.name
    data = path.read_bytes()
    path.write_bytes(data[: batch.position] + data[batch.position + batch.size :])
    for each in path.parent.glob(f"{path.stem}.*index"):
        each.unlink()
    return copy, batch.base_offset, batch.last_offset


each_lost_batch = pytest.mark.parametrize(
    ("name", "place", "row"), [("orders-0", 1, 5), ("orders-0", 0, 1), ("txn-0", 1, 6)]
)


@each_lost_batch
@pytest.mark.parametrize("is_from_start", [True, False])
def test_offsets_of_a_batch_that_is_gone_from_a_file_are_an_error(
    name, place, row, is_from_start, tmp_path
):
    source, first, last = without_batch(tmp_path, name, place, row)
    consumer = Consumer(source)
    if is_from_start:
        with pytest.raises(FetchError) as error:
            consumer.records(name)
        assert (error.value.code, error.value.offset) == (ErrorCode.CORRUPT_MESSAGE, first)
    for offset in range(first - 3, last + 4):
        answer = consumer.fetch(name, offset)
        is_lost = first <= offset <= last
        assert answer.error == (ErrorCode.CORRUPT_MESSAGE if is_lost else ErrorCode.NONE), offset
        assert bool(answer.size) is not is_lost
    problems = consumer.cluster.logs.source.problems
    count = last - first + 1
    (told,) = {each["reason"] for each in problems if each["kind"] == "missing"}
    assert told.startswith(f"offsets {first} to {last} ({count}) are missing")
    assert consumer.fetches.damage_answers >= count


@each_lost_batch
def test_with_skip_damaged_a_batch_that_is_gone_from_a_file_is_passed_over(
    name, place, row, tmp_path
):
    source, first, last = without_batch(tmp_path, name, place, row)
    consumer = Consumer(source, rules=FetchRules(skip_damaged=True))
    got = plain(facts(consumer.records(name)))
    assert got == [each for each in truth("current", name) if not first <= each[0] <= last]


def test_a_long_read_ends_at_each_batch_that_is_gone_however_it_began(tmp_path):
    source, first, last = without_batch(tmp_path, "orders-0", 1, 5)
    for starts in ([395, 430], [last + 1, 395], [last + 1, first - 1, 395], [first, 395]):
        consumer = Consumer(source)
        for start in [*starts, *starts]:
            answer = consumer.fetch("orders-0", start)
            found = [b.next_offset for b in MemoryRecords(bytes_of(answer.pieces)).batches()]
            if start < first:
                assert found[-1] == first
            elif start > last:
                assert found[-1] == 790


@pytest.mark.parametrize("size", [40_000, 300_000, 700_000, 1_100_000])
@pytest.mark.parametrize("starts", [[0], [2, 0], [4, 2, 0], [4, 3, 1], [5, 0], [3, 5, 2]])
def test_what_is_read_in_pieces_ends_at_a_batch_that_is_gone(starts, size, tmp_path):
    writer = LogWriter(tmp_path, "orders-0")
    writer.append(*(batch([Rec(bytes(size))], offset) for offset in (0, 1, 2, 4, 5, 6)))
    consumer = Consumer(tmp_path)
    for start in [*starts, *range(7)]:
        answer = consumer.fetch("orders-0", start, 3 << 20 if start % 2 else 1)
        found = [b.base_offset for b in MemoryRecords(bytes_of(answer.pieces)).batches()]
        assert (answer.error == ErrorCode.CORRUPT_MESSAGE) == (start == 3)
        assert not found or found[0] == start
        assert start > 3 or all(offset < 3 for offset in found)


def test_offsets_that_compaction_took_from_a_file_are_passed_over():
    consumer = Consumer(log_dir("current"))
    log = consumer.log("compacted-0").view()
    for offset in range(log.log_start_offset, log.log_end_offset):
        assert consumer.fetch("compacted-0", offset).error == ErrorCode.NONE
    assert consumer.fetches.damage_answers == 0


# Old formats

CONVERTED = FetchRules(old_formats=OldFormats.CONVERT)
OLD = [name for name in truth_partitions("legacy") if not name.startswith("v2")]


def with_times(records: Iterable[Record]) -> list[tuple]:
    """Facts of records with type and time."""
    got = list(records)
    stamps = [(int(each.timestamp_type) + 1, each.timestamp) for each in got]
    return list(zip(plain(facts(got)), stamps, strict=True))


def converted_truth(name: str) -> list[tuple]:
    """The same of what a consumer of the broker got; magic 0 has no times, which magic 2 shows as -1 and created."""
    stamps = [
        (each.timestamp_type, each.timestamp) if each.timestamp_type else (1, -1)
        for each in truth_records("legacy", name, False)
    ]
    return list(zip(truth("legacy", name), stamps, strict=True))


def test_old_formats_are_sent_as_they_are_or_refused():
    sent = Consumer(log_dir("legacy")).fetch("v1-gzip-0", 0)
    refusing = Consumer(log_dir("legacy"), rules=FetchRules(old_formats=OldFormats.REFUSE))
    refused = refusing.fetch("v1-gzip-0", 0)
    assert (sent.error, sent.size > 0) == (ErrorCode.NONE, True)
    assert (refused.error, refused.size) == (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, 0)
    assert plain(facts(refusing.records("v2-gzip-0"))) == truth("legacy", "v2-gzip-0")
    with pytest.raises(FetchError) as failed:
        refusing.records("upgraded-0")
    assert failed.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("name", OLD)
@pytest.mark.parametrize("most", [1, 1 << 20])
def test_converted_batches_have_magic_2_and_the_same_records(name, most):
    consumer = Consumer(log_dir("legacy"), rules=CONVERTED)
    assert with_times(consumer.records(name, most=most)) == converted_truth(name)
    offset, end = 0, consumer.log(name).view().log_end_offset
    while offset < end:
        batches = list(MemoryRecords(bytes_of(consumer.fetch(name, offset).pieces)).batches())
        assert {each.magic for each in batches} == {2}
        offset = batches[-1].next_offset


@pytest.mark.parametrize("name", ["v1-none-0", "v0-gzip-0", "upgraded-0"])
def test_converted_batches_can_be_read_from_any_offset(name):
    consumer = Consumer(log_dir("legacy"), rules=CONVERTED)
    whole = converted_truth(name)
    for start in range(0, consumer.log(name).view().log_end_offset, 13):
        got = with_times(consumer.records(name, start))
        assert got == [each for each in whole if each[0][0] >= start]


def test_a_codec_stays_and_messages_without_one_share_a_batch():
    consumer = Consumer(log_dir("legacy"), rules=CONVERTED)
    for name, codec in (("v1-gzip-0", 1), ("v0-lz4-0", 3), ("v1-snappy-0", 2), ("v1-none-0", 0)):
        batches = list(MemoryRecords(bytes_of(consumer.fetch(name, 0).pieces)).batches())
        assert {each.codec_id for each in batches} == {codec}
    assert len(batches) < len(truth("legacy", "v1-none-0")) / 10


def test_a_message_that_magic_2_cannot_have_costs_only_itself(tmp_path):
    """Its timestamp is negative, and its checksum right."""
    messages = [bytearray(encode_message(1, each, 1000, b"k", b"v")) for each in range(4)]
    messages[2][18:26] = (-7).to_bytes(8, "big", signed=True)
    messages[2][12:16] = zlib.crc32(messages[2][16:]).to_bytes(4, "big")
    folder = tmp_path / "data" / "old-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(messages))
    damaged = Consumer(tmp_path / "data", rules=CONVERTED)
    assert [each.offset for each in damaged.records("old-0", 3)] == [3]
    with pytest.raises(FetchError) as failed:
        damaged.records("old-0")
    assert (failed.value.code, failed.value.offset) == (ErrorCode.CORRUPT_MESSAGE, 2)
    skipping = Consumer(tmp_path / "data", rules=CONVERTED._replace(skip_damaged=True))
    assert [each.offset for each in skipping.records("old-0")] == [0, 1, 3]


# Aborted transactions


def test_a_lost_transaction_index_costs_no_aborted_transaction(tmp_path):
    copy = copy_of("current", tmp_path, ["txn-0"])
    indexes = list((copy / "txn-0").glob("*.txnindex"))
    assert indexes
    for each in indexes:
        each.unlink()
    got = plain(facts(Consumer(copy).records("txn-0", committed=True)))
    assert got == truth("current", "txn-0", committed=True)


def test_a_transaction_index_that_names_a_committed_transaction_hides_no_record(tmp_path):
    copy = copy_of("current", tmp_path, ["txn-0"])
    index = next(iter(sorted((copy / "txn-0").glob("*.txnindex"))))
    data = bytearray(index.read_bytes())
    for slot in range(len(data) // 34):
        data[slot * 34 + 10 : slot * 34 + 18] = bytes(8)  # every transaction begins at offset 0
    index.write_bytes(data)
    got = plain(facts(Consumer(copy).records("txn-0", committed=True)))
    assert got == truth("current", "txn-0", committed=True)


def test_a_deleted_folder_makes_the_partition_unknown(tmp_path):
    copy = copy_of("current", tmp_path, ["orders-0", "txn-0"])
    consumer = Consumer(copy)
    assert consumer.log("orders-0")
    shutil.rmtree(copy / "orders-0")
    answer = consumer.fetch("orders-0", 0, 100)
    assert answer.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("same", [True, False])
def test_a_file_that_takes_the_place_of_another_within_a_look_up_is_not_served(
    same, tmp_path, monkeypatch
):
    copy = copy_of("current", tmp_path, ["orders-0"])
    path = copy / "orders-0" / logs("current", "orders-0")[0].name
    consumer = Consumer(copy)
    assert consumer.fetch("orders-0", 0).size
    locate = LogSegment.locate

    def replaced(segment: LogSegment, offset: int):
        found = locate(segment, offset)
        if not same:
            other = path.with_suffix(".swap")
            other.write_bytes(bytes(path.stat().st_size))
            other.replace(path)
        segment.close()
        return found

    monkeypatch.setattr(LogSegment, "locate", replaced)
    answer = consumer.fetch("orders-0", 0)
    assert answer.error == (ErrorCode.NONE if same else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert bool(answer.size) == same
