"""What Kafka's UnifiedLogTest asks of reading a log, and of names."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from engine.broker.log.log_reader import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from engine.broker.log.unified_log import UnifiedLog
from engine.errors import CorruptRecordError, OffsetOutOfRangeError
from engine.files.file_names import FileKind, FileName, parse_file_name, producer_snapshot_name
from engine.log.segment.fetch import EMPTY_RECORDS, FetchDataInfo, FetchIsolation
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.record.record import Record
from engine.units import MAX_INT32, NO_TIMESTAMP, FoundTimestamp
from tests.conformance.malformed_records import MALFORMED, REFUSED
from tests.conformance.unified_log_steps import (
    ABORT,
    COMMIT,
    CompressionType,
    LogBench,
    append_plain,
    assert_is_placed,
    create_empty_logs,
    end_txn,
    fast_switches,
    one,
    producer,
    rec,
    recs,
)

MIB = 1024 * 1024
TEN_BYTES = "0123456789"


def offsets(fetched: FetchDataInfo) -> list[int]:
    return [record.offset for record in fetched.records.records()]


def first_record(fetched: FetchDataInfo) -> Record:
    return next(iter(fetched.records.records()))


def simple(record: Record) -> SimpleRecord:
    return SimpleRecord(record.key, record.value, record.timestamp, tuple(record.headers))


# Up to a bound


@pytest.mark.conformance("UnifiedLogTest.testHighWatermarkMetadataUpdatedAfterSegmentRoll")
def test_high_watermark_metadata_updated_after_segment_roll(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=MIB)
    records = records_of(*(rec("value", bench.now, key) for key in (b"a", b"b", b"c")))

    def fetch(offset: int) -> tuple[int, list[int]]:
        fetched = log.read(offset, 2048, FetchIsolation.HIGH_WATERMARK, min_one_message=False)
        return fetched.records.size, offsets(fetched)

    log.append_as_leader(records, 0)
    assert fetch(0) == (0, [])
    log.maybe_increment_high_watermark(log.local_log.log_end_offset_metadata)
    assert fetch(0) == (records.size, [0, 1, 2])
    log.roll()
    assert fetch(0) == (records.size, [0, 1, 2])
    log.append_as_leader(records, 0)
    assert fetch(3) == (0, [])


def assert_bounded(
    log: UnifiedLog,
    isolation: FetchIsolation,
    bound: int,
    bases: Sequence[int],
    *,
    including_end: bool = True,
) -> None:
    """Each offset below the bound gives records below it, and none at it or above gives any.

    What is returned begins at the base offset of the batch, one of `bases`, and its place is right.
    """
    for offset in range(log.log_start_offset, log.log_end_offset + including_end):
        fetched = log.read(offset, MAX_INT32, isolation, min_one_message=True)
        assert not fetched.first_entry_incomplete
        if offset < bound:
            assert fetched.records.size > 0
            assert max(offsets(fetched)) < bound
        else:
            assert fetched.records.size == 0
        assert fetched.fetch_offset_metadata.offset == bases[bisect_right(bases, offset) - 1]
        assert_is_placed(log, fetched.fetch_offset_metadata)


def log_of_two_batches(tmp_path: Path) -> UnifiedLog:
    log = LogBench(tmp_path).log(segment_size=MIB)
    log.append_as_leader(records_of(*recs("012")), 0)
    log.append_as_leader(records_of(*recs("34")), 0)
    return log


@pytest.mark.conformance("UnifiedLogTest.testFetchUpToLogEndOffset")
def test_fetch_up_to_log_end_offset(tmp_path: Path) -> None:
    log = log_of_two_batches(tmp_path)
    assert log.log_end_offset == 5
    assert_bounded(log, FetchIsolation.LOG_END, 5, [0, 3, 5], including_end=False)


@pytest.mark.conformance("UnifiedLogTest.testFetchUpToHighWatermark")
def test_fetch_up_to_high_watermark(tmp_path: Path) -> None:
    log = log_of_two_batches(tmp_path)
    assert log.high_watermark == 0
    assert_bounded(log, FetchIsolation.HIGH_WATERMARK, 0, [0, 3, 5])
    for high_watermark in (3, 5):
        log.update_high_watermark(high_watermark)
        assert_bounded(log, FetchIsolation.HIGH_WATERMARK, high_watermark, [0, 3, 5])


@pytest.mark.conformance("UnifiedLogTest.testFetchUpToLastStableOffset")
def test_fetch_up_to_last_stable_offset(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=MIB)
    first, second = producer(log, 1, 0, bench.now), producer(log, 2, 0, bench.now)
    first(5)
    append_plain(log, 3)
    second(2)
    first(4)
    append_plain(log, 2)
    first(10)

    def assert_stable(last_stable: int) -> None:
        assert log.last_stable_offset == last_stable
        bases = [0, 5, 8, 10, 14, 16, 26, 27, 28]
        assert_bounded(log, FetchIsolation.TXN_COMMITTED, last_stable, bases)

    assert_stable(0)
    log.update_high_watermark(log.log_end_offset)
    assert_stable(0)

    end_txn(log, 1, 0, COMMIT, bench.now)
    assert log.last_stable_offset == 0
    log.update_high_watermark(log.log_end_offset)
    assert_stable(8)

    end_txn(log, 2, 0, ABORT, bench.now)
    assert log.last_stable_offset == 8
    log.update_high_watermark(log.log_end_offset)
    assert_stable(log.log_end_offset)


@pytest.mark.conformance("UnifiedLogTest.testReadCommittedWithConcurrentHighWatermarkUpdates")
def test_read_committed_with_concurrent_high_watermark_updates(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=5 * MIB)
    append = producer(log, 15, 0, bench.now)
    is_over = threading.Event()

    def follow_the_end() -> None:
        while not is_over.is_set():
            log.update_high_watermark(log.log_end_offset)

    def committed(start: int) -> int:
        isolation = FetchIsolation.TXN_COMMITTED
        return log.read(start, MAX_INT32, isolation, min_one_message=False).records.size

    updates = threading.Thread(target=follow_the_end)
    sizes = []
    with fast_switches():
        updates.start()
        try:
            while log.log_end_offset < 50:
                start = log.log_end_offset
                append(1)
                sizes.append(committed(start))
                while log.high_watermark <= start:
                    pass  # so that the other thread has its turn in each transaction
                sizes.append(committed(start))
                end_txn(log, 15, 0, ABORT, bench.now)
        finally:
            is_over.set()
            updates.join()
    assert sizes == [0] * 50


# From any offset


@pytest.mark.conformance("UnifiedLogTest.testAppendAndReadWithSequentialOffsets")
def test_append_and_read_with_sequential_offsets(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=71)
    values = [str(number) for number in range(0, 100, 2)]
    for value in values:
        log.append_as_leader(one(value), 0)
    for offset, value in enumerate(values):
        batch = next(iter(log.read(offset, 1).records.batches()))
        assert batch.last_offset == offset
        record = next(iter(batch.records()))
        assert (record.key, record.value) == (None, value.encode())
    assert list(log.read(len(values), 100).records.batches()) == []


IDS = [*range(50), *range(50, 200, 7)]


def log_with_gaps(tmp_path: Path) -> UnifiedLog:
    """A follower's log of 72 bytes a segment: a record for each of `IDS`, at that offset."""
    log = LogBench(tmp_path).log(segment_size=72)
    for number in IDS:
        record = records_of(rec(str(number)), base_offset=number, partition_leader_epoch=0)
        log.append_as_follower(record, MAX_INT32)
    return log


def assert_each_offset_gives_the_next_record(log: UnifiedLog, *sizes: int) -> None:
    for offset in range(50, max(IDS)):
        expected = next(number for number in IDS if number >= offset)
        for size in sizes:
            record = first_record(log.read(offset, size, min_one_message=True))
            assert record.offset == expected
            assert simple(record) == rec(str(expected))


@pytest.mark.conformance("UnifiedLogTest.testAppendAndReadWithNonSequentialOffsets")
def test_append_and_read_with_non_sequential_offsets(tmp_path: Path) -> None:
    assert_each_offset_gives_the_next_record(log_with_gaps(tmp_path), 100)


@pytest.mark.conformance("UnifiedLogTest.testReadAtLogGap")
def test_read_at_log_gap(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=300)
    while len(log.segments) == 1:
        log.append_as_leader(one("42"), 0)
    log.segments[0].truncate_to(1)
    found = next(iter(log.read(1, 200).records.batches()))
    assert found.last_offset == log.log_end_offset - 1


@pytest.mark.conformance("UnifiedLogTest.testReadWithMinMessage")
def test_read_with_min_message(tmp_path: Path) -> None:
    assert_each_offset_gives_the_next_record(log_with_gaps(tmp_path), 1, 100_000, 100)


@pytest.mark.conformance("UnifiedLogTest.testReadWithTooSmallMaxLength")
def test_read_with_too_small_max_length(tmp_path: Path) -> None:
    log = log_with_gaps(tmp_path)
    for offset in range(50, max(IDS)):
        assert log.read(offset, 0, min_one_message=False).records is EMPTY_RECORDS
        fetched = log.read(offset, 1, min_one_message=False)
        assert fetched.first_entry_incomplete
        assert isinstance(fetched.records, FileRecords)
        assert fetched.records.size == 1


@pytest.mark.conformance("UnifiedLogTest.testReadOutOfRange")
def test_read_out_of_range(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    create_empty_logs(bench.folder, 1024)
    log = bench.log(segment_size=1024)
    log.append_as_leader(one("42"), 0)
    assert log.read(1025, 1000).records.size == 0
    for offset in (0, 1026):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, 1000)


@pytest.mark.conformance("UnifiedLogTest.testLogRolls")
def test_log_rolls(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=100)
    for number in range(100):
        log.append_as_leader(bench.at_now(str(number)), 0)
    log.flush(force_active_segment=False)

    offset = 0
    for number in range(100):
        head = next(iter(log.read(offset, MIB).records.batches()))
        assert head.last_offset == offset
        assert simple(next(iter(head.records()))) == rec(str(number), bench.now)
        offset = head.last_offset + 1
    assert list(log.read(100, MIB).records.records()) == []
    assert log.recovery_point >= log.active_segment.base_offset > 0


@pytest.mark.conformance("UnifiedLogTest.testCompressedMessages")
def test_compressed_messages(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=110)
    for pair in (("hello", "there"), ("alpha", "beta")):
        records = records_of(*map(rec, pair), compression=CompressionType.GZIP)
        log.append_as_leader(records, 0)
    assert [first_record(log.read(offset, 4096)).offset for offset in range(4)] == [0, 0, 2, 2]


@pytest.mark.conformance("UnifiedLogTest.testAppendMessageWithNullPayload")
def test_append_message_with_null_payload(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    log.append_as_leader(records_of(SimpleRecord()), 0)
    head = first_record(log.read(0, 4096))
    assert (head.offset, head.value) == (0, None)


# What is no batch


@pytest.mark.conformance("UnifiedLogTest.testInvalidMemoryRecords")
@pytest.mark.parametrize("name", MALFORMED)
def test_invalid_memory_records(tmp_path: Path, name: str) -> None:
    log = LogBench(tmp_path).log()
    records = MemoryRecords(MALFORMED[name])
    if name in REFUSED:
        with pytest.raises(CorruptRecordError):
            log.append_as_follower(records, MAX_INT32)
    else:
        log.append_as_follower(records, MAX_INT32)
    assert log.log_end_offset == log.active_segment.size == 0


@pytest.mark.conformance("UnifiedLogTest.testRandomRecords")
@settings(max_examples=100)
@given(st.binary(min_size=1, max_size=128))
def test_random_records(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    log = LogBench(tmp_path_factory.mktemp("log")).log()
    try:
        info = log.append_as_follower(MemoryRecords(data), MAX_INT32)
    except CorruptRecordError:
        pass
    else:
        assert info.first_offset == -1
    assert log.log_end_offset == log.active_segment.size == 0
    log.close()


# By time


@pytest.mark.conformance("UnifiedLogTest.testFetchOffsetByTimestampIncludesLeaderEpoch")
def test_fetch_offset_by_timestamp_includes_leader_epoch(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=200, index_interval=1)
    look_up = log.fetch_offset_by_timestamp
    assert look_up(0) is None

    first, second = bench.now, bench.now + 1
    log.append_as_leader(one(TEN_BYTES, first), 0)
    log.append_as_leader(one(TEN_BYTES, second), 1)
    assert look_up(first) == FoundTimestamp(first, 0, 0)
    assert look_up(second) == FoundTimestamp(second, 1, 1)
    assert look_up(EARLIEST_TIMESTAMP) == FoundTimestamp(NO_TIMESTAMP, 0, 0)
    assert look_up(EARLIEST_LOCAL_TIMESTAMP) == FoundTimestamp(NO_TIMESTAMP, 0, 0)
    assert look_up(LATEST_TIMESTAMP) == FoundTimestamp(NO_TIMESTAMP, 2, 1)
    # A new leader's epoch begins at the log end, before anything is appended.
    log.leader_epoch_cache.assign(2, 2)
    assert look_up(LATEST_TIMESTAMP) == FoundTimestamp(NO_TIMESTAMP, 2, 2)


@pytest.mark.conformance(
    "UnifiedLogTest.testFetchOffsetByTimestampWithMaxTimestampIncludesTimestamp"
)
def test_fetch_offset_by_timestamp_with_max_timestamp_includes_timestamp(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=200, index_interval=1)
    assert log.fetch_offset_by_timestamp(0) is None
    for timestamp in (bench.now, bench.now + 1, bench.now):
        log.append_as_leader(one(TEN_BYTES, timestamp), 0)
    assert log.fetch_offset_by_timestamp(MAX_TIMESTAMP) == FoundTimestamp(bench.now + 1, 1, 0)


@pytest.mark.conformance(
    "UnifiedLogTest.testFetchOffsetByTimestampShouldReadOnlyLocalLogWhenLogIsEmpty"
)
def test_fetch_offset_by_timestamp_should_read_only_local_log_when_log_is_empty(
    tmp_path: Path,
) -> None:
    bench = LogBench(tmp_path)
    assert bench.log().fetch_offset_by_timestamp(bench.now) is None


# Names


@pytest.mark.conformance("UnifiedLogTestJava.testOffsetFromProducerSnapshotFile")
def test_offset_from_producer_snapshot_file() -> None:
    name = producer_snapshot_name(23423423)
    assert parse_file_name(name) == FileName(FileKind.PRODUCER_SNAPSHOT, 23423423)
