"""What Kafka's UnifiedLogTest asks of reading a log, and of names."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.checkpoint.leader_epoch_checkpoint import render
from engine.errors import OffsetOutOfRangeError
from engine.files.file_names import FileKind, FileName, parse_file_name, producer_snapshot_name
from engine.log.log_view import LogView
from engine.log.segment.fetch import FetchDataInfo, FetchIsolation
from engine.log.segment.scan import BatchRun
from engine.record.file_records import FileRecords
from engine.units import EpochEntry, FoundTimestamp
from tests.builders import CompressionType, Rec, batch
from tests.conformance.malformed_records import MALFORMED
from tests.engine.log.folders import LogWriter

LARGEST = 2**31 - 1
NOW = 1_700_000_000_000


def offsets(fetched: FetchDataInfo) -> list[int]:
    return [record.offset for record in fetched.records.records()]


def base_of(view: LogView, offset: int) -> int:
    """The base offset of an offset's batch; at the log end, the log end."""
    found = view.batch(offset)
    return offset if found is None else found[1].base_offset


def assert_bounded(view: LogView, isolation: FetchIsolation, bound: int) -> None:
    """Every offset below the bound gives records below it, and none at it or above gives any."""
    for offset in range(view.log_start_offset, view.log_end_offset + 1):
        fetched = view.read(offset, LARGEST, isolation, min_one_message=True)
        assert fetched.fetch_offset_metadata.offset == base_of(view, offset)
        assert not fetched.first_entry_incomplete
        if offset < bound:
            assert offsets(fetched)
            assert max(offsets(fetched)) < bound
        else:
            assert fetched.records.size == 0


def follower(tmp_path: Path) -> tuple[LogWriter, list[int]]:
    """A segment for each record, with sequential offsets first and gaps of seven later."""
    writer = LogWriter(tmp_path)
    ids = [*range(50), *range(50, 200, 7)]
    for number in ids:
        if writer.batches:
            writer.roll(number, index_interval=None)
        writer.append(batch([Rec(b"%d" % number)], number))
    return writer, ids


@pytest.mark.conformance("UnifiedLogTest.testHighWatermarkMetadataUpdatedAfterSegmentRoll")
def test_high_watermark_metadata_updated_after_segment_roll(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)

    def fetch(offset: int) -> tuple[int, list[int]]:
        fetched = writer.next_view().read(offset, 2048, FetchIsolation.HIGH_WATERMARK)
        return fetched.records.size, offsets(fetched)

    writer.append_records(Rec(b"value", b"a"), Rec(b"value", b"b"), Rec(b"value", b"c"))
    size = len(writer.batches[0])
    assert fetch(0) == (0, [])
    writer.high_watermark(3)
    time.sleep(0.25)  # a checkpoint is looked at every 0.2 s
    assert fetch(0) == (size, [0, 1, 2])
    writer.roll()
    assert fetch(0) == (size, [0, 1, 2])
    writer.append_records(Rec(b"value", b"a"), Rec(b"value", b"b"), Rec(b"value", b"c"))
    assert fetch(3) == (0, [])


@pytest.mark.conformance("UnifiedLogTest.testFetchUpToLogEndOffset")
def test_fetch_up_to_log_end_offset(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"0", b"1", b"2")
    writer.append_records(b"3", b"4")
    assert_bounded(writer.view(), FetchIsolation.LOG_END, 5)


@pytest.mark.conformance("UnifiedLogTest.testFetchUpToHighWatermark")
@pytest.mark.parametrize("high_watermark", [None, 3, 5])
def test_fetch_up_to_high_watermark(tmp_path: Path, high_watermark: int | None) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"0", b"1", b"2")
    writer.append_records(b"3", b"4")
    if high_watermark is not None:
        writer.high_watermark(high_watermark)
    view = writer.view()
    assert view.high_watermark == (high_watermark or 0)
    assert_bounded(view, FetchIsolation.HIGH_WATERMARK, view.high_watermark)


@pytest.mark.conformance("UnifiedLogTest.testFetchUpToLastStableOffset")
def test_fetch_up_to_last_stable_offset(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append_transactional(1, 5)
    writer.append_records(b"0", b"1", b"2")
    writer.append_transactional(2, 2)
    writer.append_transactional(1, 4)
    writer.append_records(b"3", b"4")
    writer.append_transactional(1, 10)
    isolation = FetchIsolation.TXN_COMMITTED
    assert_bounded(writer.view(), isolation, 0)
    writer.high_watermark(26)
    assert_bounded(writer.view(), isolation, 0)
    writer.append_end(1, commit=True)
    assert_bounded(writer.view(), isolation, 0)  # the marker is above the high watermark
    writer.high_watermark(27)
    assert writer.view().last_stable_offset == 8
    assert_bounded(writer.view(), isolation, 8)
    writer.append_end(2, commit=False)
    assert_bounded(writer.view(), isolation, 8)
    writer.high_watermark(28)
    view = writer.view()
    assert view.last_stable_offset == view.log_end_offset == 28
    assert_bounded(view, isolation, 28)


@pytest.mark.conformance("UnifiedLogTest.testAppendAndReadWithSequentialOffsets")
def test_append_and_read_with_sequential_offsets(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    values = [b"%d" % number for number in range(0, 100, 2)]
    for value in values:
        if writer.next_offset:
            writer.roll()
        writer.append_records(value)
    view = writer.view()
    for offset, value in enumerate(values):
        fetched = view.read(offset, 1, min_one_message=True)
        found = next(iter(fetched.records.batches()))
        assert found.last_offset == offset
        (record,) = found.records()
        assert (record.key, record.value) == (None, value)
    assert list(view.read(len(values), 100, min_one_message=True).records.batches()) == []


@pytest.mark.conformance("UnifiedLogTest.testAppendAndReadWithNonSequentialOffsets")
def test_append_and_read_with_non_sequential_offsets(tmp_path: Path) -> None:
    writer, ids = follower(tmp_path)
    view = writer.view()
    for offset in range(50, max(ids)):
        record = next(iter(view.read(offset, 100, min_one_message=True).records.records()))
        expected = next(number for number in ids if number >= offset)
        assert (record.offset, record.value) == (expected, b"%d" % expected)


@pytest.mark.conformance("UnifiedLogTest.testReadAtLogGap")
def test_read_at_log_gap(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"42")
    writer.roll(4)
    writer.append_records(b"42")
    fetched = writer.view().read(1, 200, min_one_message=True)
    assert next(iter(fetched.records.batches())).last_offset == 4


@pytest.mark.conformance("UnifiedLogTest.testReadWithMinMessage")
def test_read_with_min_message(tmp_path: Path) -> None:
    writer, ids = follower(tmp_path)
    view = writer.view()
    for offset in range(50, max(ids)):
        expected = next(number for number in ids if number >= offset)
        for size in (1, 100_000, 100):
            record = next(iter(view.read(offset, size, min_one_message=True).records.records()))
            assert (record.offset, record.value) == (expected, b"%d" % expected)


@pytest.mark.conformance("UnifiedLogTest.testReadWithTooSmallMaxLength")
def test_read_with_too_small_max_length(tmp_path: Path) -> None:
    writer, ids = follower(tmp_path)
    view = writer.view()
    for offset in range(50, max(ids)):
        assert view.read(offset, 0).records.size == 0
        fetched = view.read(offset, 1)
        assert fetched.first_entry_incomplete
        assert isinstance(fetched.records, FileRecords)
        assert fetched.records.size == 1


@pytest.mark.conformance("UnifiedLogTest.testReadOutOfRange")
def test_read_out_of_range(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, base_offset=1024)
    writer.append_records(b"42")
    view = writer.view()
    assert view.read(1025, 1000).records.size == 0
    for offset in (0, 1026):
        with pytest.raises(OffsetOutOfRangeError):
            view.read(offset, 1000)


@pytest.mark.conformance("UnifiedLogTest.testLogRolls")
def test_log_rolls(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for number in range(100):
        if number and number % 2 == 0:
            writer.roll()
        writer.append_records(Rec(b"%d" % number, timestamp=NOW + number))
    view = writer.view()
    offset = 0
    for number in range(100):
        found = next(iter(view.read(offset, 1024 * 1024).records.batches()))
        assert found.last_offset == offset
        record = next(iter(found.records()))
        assert (record.key, record.value) == (None, b"%d" % number)
        assert record.timestamp == NOW + number
        offset = found.last_offset + 1
    assert list(view.read(100, 1024 * 1024).records.records()) == []


@pytest.mark.conformance("UnifiedLogTest.testCompressedMessages")
def test_compressed_messages(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"hello", b"there", codec=CompressionType.GZIP)
    writer.roll()
    writer.append_records(b"alpha", b"beta", codec=CompressionType.GZIP)
    view = writer.view()
    firsts = [offsets(view.read(offset, 4096))[0] for offset in range(4)]
    assert firsts == [0, 0, 2, 2]


@pytest.mark.conformance("UnifiedLogTest.testInvalidMemoryRecords")
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_invalid_memory_records(tmp_path: Path, data: bytes) -> None:
    writer = LogWriter(tmp_path)
    writer.records_file.write_bytes(data)
    view = writer.view()
    assert view.log_end_offset == 0
    assert not any(isinstance(item, BatchRun) for _, item in view.runs(0, 1))


@pytest.mark.conformance("UnifiedLogTest.testRandomRecords")
@given(st.binary(min_size=1, max_size=128))
def test_random_records(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    writer = LogWriter(tmp_path_factory.mktemp("log"))
    writer.records_file.write_bytes(data)
    view = writer.view()
    assert view.log_end_offset == 0
    assert not any(isinstance(item, BatchRun) for _, item in view.runs(0, 1))


@pytest.mark.conformance("UnifiedLogTest.testFetchOffsetByTimestampIncludesLeaderEpoch")
def test_fetch_offset_by_timestamp_includes_leader_epoch(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    assert writer.view().offset_for_time(0) is None
    epochs = writer.folder / "leader-epoch-checkpoint"
    epochs.write_bytes(render([EpochEntry(0, 0), EpochEntry(1, 1)]))
    writer.append_records(Rec(b"0123456789", timestamp=NOW), leader_epoch=0)
    writer.append_records(Rec(b"0123456789", timestamp=NOW + 1), leader_epoch=1)
    writer.write_indexes(1)
    view = writer.view()
    assert view.offset_for_time(NOW) == FoundTimestamp(NOW, 0, 0)
    assert view.offset_for_time(NOW + 1) == FoundTimestamp(NOW + 1, 1, 1)
    assert (view.log_start_offset, view.leader_epochs.epoch_for(0)) == (0, 0)
    assert (view.log_end_offset, view.leader_epochs.latest) == (2, EpochEntry(1, 1))
    # A new leader's epoch may begin at the log end, before it has written anything.
    epochs.write_bytes(render([EpochEntry(0, 0), EpochEntry(1, 1), EpochEntry(2, 2)]))
    assert writer.view().leader_epochs.latest == EpochEntry(2, 2)


@pytest.mark.conformance(
    "UnifiedLogTest.testFetchOffsetByTimestampWithMaxTimestampIncludesTimestamp"
)
def test_fetch_offset_by_timestamp_with_max_timestamp_includes_timestamp(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    assert writer.view().max_timestamp is None
    for timestamp in (NOW, NOW + 1, NOW):
        writer.append_records(Rec(b"0123456789", timestamp=timestamp))
    writer.write_indexes(1)
    assert writer.view().max_timestamp == FoundTimestamp(NOW + 1, 1, 0)


@pytest.mark.conformance("UnifiedLogTest.testAppendMessageWithNullPayload")
def test_append_message_with_null_payload(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(Rec(None))
    (record,) = writer.view().read(0, 4096).records.records()
    assert (record.offset, record.value) == (0, None)


@pytest.mark.conformance("UnifiedLogTest.testReadCommittedWithConcurrentHighWatermarkUpdates")
def test_read_committed_with_concurrent_high_watermark_updates(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    stop = threading.Event()

    def follow_the_end() -> None:
        while not stop.is_set():
            writer.high_watermark(writer.next_offset)

    updates = threading.Thread(target=follow_the_end)
    updates.start()
    seen = []
    try:
        while writer.next_offset < 50:
            start = writer.append_transactional(15, 1)
            view = writer.view()
            seen.append(view.read(start, LARGEST, FetchIsolation.TXN_COMMITTED).records.size)
            writer.append_end(15, commit=False)
    finally:
        stop.set()
        updates.join()
    assert seen == [0] * 25


@pytest.mark.conformance(
    "UnifiedLogTest.testFetchOffsetByTimestampShouldReadOnlyLocalLogWhenLogIsEmpty"
)
def test_fetch_offset_by_timestamp_should_read_only_local_log_when_log_is_empty(
    tmp_path: Path,
) -> None:
    assert LogWriter(tmp_path).view().offset_for_time(NOW) is None


@pytest.mark.conformance("UnifiedLogTestJava.testOffsetFromProducerSnapshotFile")
def test_offset_from_producer_snapshot_file() -> None:
    name = producer_snapshot_name(23423423)
    assert parse_file_name(name) == FileName(FileKind.PRODUCER_SNAPSHOT, 23423423)
