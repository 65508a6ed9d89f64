"""What Kafka's LogSegmentTest asks of preallocated segments, copies, deletion and index entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.clock import SYSTEM_CLOCK
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32, MAX_INT64, OffsetPosition, TimestampOffset
from engine.writing.log_config import LogConfig
from engine.writing.segment.segment_files import log_path
from engine.writing.segment.segment_replacement import append_from_file
from engine.writing.segment.writable_file_records import WritableFileRecords
from engine.writing.segment.writable_segment import WritableSegment
from tests.conformance.writable_segments import contents, create_segment, v1_records

HALF_A_GIB = 512 * 1024 * 1024
CONFIG = LogConfig.from_properties({
    "index.interval.bytes": 10,
    "segment.index.bytes": 1000,
    "segment.jitter.ms": 0,
})  # fmt: skip


def preallocated(folder: Path, *, file_already_exists: bool = False) -> WritableSegment:
    return WritableSegment.open(
        folder,
        40,
        CONFIG,
        SYSTEM_CLOCK,
        file_already_exists=file_already_exists,
        init_file_size=HALF_A_GIB,
        preallocate=True,
    )


def read_from(
    segment: WritableSegment, offset: int
) -> list[tuple[int, int, bytes | None, bytes | None]]:
    fetched = segment.read(offset, 200)
    assert fetched is not None
    return contents(fetched.records)


@pytest.mark.conformance("LogSegmentTest.testCreateWithInitFileSizeAppendMessage")
def test_create_with_init_file_size_append_message(tmp_path: Path) -> None:
    with preallocated(tmp_path) as segment:
        segment.append(51, v1_records(50, "hello", "there"))
        second = v1_records(60, "alpha", "beta")
        segment.append(61, second)
        assert read_from(segment, 55) == contents(second)


@pytest.mark.conformance("LogSegmentTest.testCreateWithInitFileSizeClearShutdown")
def test_create_with_init_file_size_clear_shutdown(tmp_path: Path) -> None:
    with preallocated(tmp_path) as segment:
        segment.append(51, v1_records(50, "hello", "there"))
        second = v1_records(60, "alpha", "beta")
        segment.append(61, second)
        assert read_from(segment, 55) == contents(second)
        size = segment.size
        path = Path(segment.log.path)
        assert path.stat().st_size == HALF_A_GIB
        segment.close()
        assert path.stat().st_size == size
        with preallocated(tmp_path, file_already_exists=True) as reopened:
            assert read_from(reopened, 55) == contents(second)
            assert reopened.size == size
            assert path.stat().st_size == size


@pytest.mark.conformance("LogSegmentTest.shouldTruncateEvenIfOffsetPointsToAGapInTheLog")
def test_should_truncate_even_if_offset_points_to_a_gap_in_the_log(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        for offset, value in ((40, b"first message"), (43, b"message after gap")):
            record = SimpleRecord(value=value, timestamp=offset * 1000)
            segment.append(offset, records_of(record, base_offset=offset))
        segment.truncate_to(41)
        fetched = segment.read(40, 10000)
        assert fetched is not None
        assert [batch.base_offset for batch in fetched.records.batches()] == [40]


@pytest.mark.conformance("LogSegmentTest.testAppendFromFile")
def test_append_from_file(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()

    def sized(offset: int, size: int) -> MemoryRecords:
        return records_of(SimpleRecord(value=bytes(size)), base_offset=offset)

    with WritableFileRecords.open(log_path(folder, 0)) as source:
        source.append(sized(0, 1024))
        source.append(sized(500, 1024 * 1024 + 1))
        before = source.size
        source.append(sized(MAX_INT32 + 5, 1024))
        after = source.size
        with create_segment(tmp_path, 0) as segment:
            assert append_from_file(segment, source, 0) == before
            assert segment.size == before
        with create_segment(tmp_path, MAX_INT32) as overflow:
            assert append_from_file(overflow, source, before) == after - before
            assert overflow.size == after - before
        whole = Path(source.path).read_bytes()
        assert Path(log_path(tmp_path, 0)).read_bytes() == whole[:before]
        assert Path(log_path(tmp_path, MAX_INT32)).read_bytes() == whole[before:]


@pytest.mark.conformance("LogSegmentTest.testDeleteIfExistsWithGetParentIsNull")
def test_delete_if_exists_with_get_parent_is_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A path without a folder, and a transaction index that is not there.
    monkeypatch.chdir(tmp_path)
    with create_segment(Path(), 0) as segment:
        assert Path(segment.txn_index.path).parent == Path()
        assert not Path(segment.txn_index.path).exists()
        segment.files.delete_if_exists()
        assert segment.files.are_deleted
    assert list(tmp_path.iterdir()) == []


def batches_at(*timestamps: tuple[int, int]) -> MemoryRecords:
    """A batch of one record for each pair of an offset and a timestamp."""
    made = [
        records_of(SimpleRecord(b"key1", b"value1", timestamp), base_offset=offset)
        for offset, timestamp in timestamps
    ]
    return MemoryRecords(b"".join(bytes(each.buffer) for each in made))


@pytest.mark.conformance("LogSegmentTest.testGetFirstBatchTimestamp")
def test_get_first_batch_timestamp(tmp_path: Path) -> None:
    with create_segment(tmp_path, 1) as segment:
        assert segment.age.first_batch_timestamp == MAX_INT64
        segment.append(1, records_of(SimpleRecord(value=b"one", timestamp=1000), base_offset=1))
        assert segment.age.first_batch_timestamp == 1000


@pytest.mark.conformance("LogSegmentTest.testIndexForMultipleBatchesInMemoryRecords")
def test_index_for_multiple_batches_in_memory_records(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0, 1) as segment:
        segment.append(1, batches_at((0, 0), (1, 1)))
        segment.append(2, batches_at((2, 2)))
        size = segment.size // 3
        assert list(segment.offset_index) == [OffsetPosition(1, size), OffsetPosition(2, 2 * size)]
        assert list(segment.time_index) == [TimestampOffset(1, 1), TimestampOffset(2, 2)]


@pytest.mark.conformance(
    "LogSegmentTest.testNonMonotonicTimestampForMultipleBatchesInMemoryRecords"
)
def test_non_monotonic_timestamp_for_multiple_batches_in_memory_records(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0, 1) as segment:
        segment.append(2, batches_at((0, 1), (1, 0), (2, 2)))
        size = segment.size // 3
        assert list(segment.offset_index) == [OffsetPosition(1, size), OffsetPosition(2, 2 * size)]
        assert list(segment.time_index) == [TimestampOffset(1, 0), TimestampOffset(2, 2)]
