"""What Kafka's UnifiedLogTest asks of retention, delete records and the deletion of files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import OffsetOutOfRangeError
from engine.log.log_segments import LogSegments
from engine.record.encoding.building import records_of
from engine.units import MAX_INT64, EpochEntry
from engine.writing.log_config import LogConfig
from engine.writing.segment.writable_segment import WritableSegment
from tests.conformance.unified_log_steps import LARGEST, LogBench, append_many, one, rec

SIZE = one().size
KEYED = one("test", 10, b"test")
MIB = 1024 * 1024


def three_segments(bench: LogBench, **config: Any) -> UnifiedLog:
    """15 records, 5 to a segment, below the high watermark."""
    log = bench.log(segment_size=SIZE * 5, **config)
    append_many(log, 15, one)
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.conformance("UnifiedLogTest.testRetentionIdempotency")
def test_retention_idempotency(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5, retention_ms=900, file_delete_delay_ms=0)
    log.append_as_leader(one("a", bench.now + 100), 0)
    log.roll()
    log.append_as_leader(one("b", bench.now), 0)
    log.roll()
    log.append_as_leader(one("c", bench.now + 100), 0)
    bench.clock.sleep(901)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(1, "a client deleted records")
    assert log.delete_old_segments() == 2, "what the log start frees does not hold up time"
    assert log.delete_old_segments() == 0


@pytest.mark.parametrize("count", [0, 1, 25])
@pytest.mark.conformance("UnifiedLogTest.testThatGarbageCollectingSegmentsDoesntChangeOffset")
def test_that_garbage_collecting_segments_doesnt_change_offset(tmp_path: Path, count: int) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=100, retention_ms=0)
    for number in range(count):
        log.append_as_leader(one(str(number), bench.now - 10), 0)
    assert log.log_end_offset == count
    log.update_high_watermark(count)
    log.delete_old_segments()
    assert log.log_end_offset == count
    assert len(log.segments) == 1
    assert log.delete_old_segments() == 0
    assert log.log_end_offset == count
    assert log.append_as_leader(bench.at_now("hello"), 0).first_offset == count
    log.delete()
    assert not bench.folder.exists()


@pytest.mark.conformance("UnifiedLogTest.testAsyncDelete")
def test_async_delete(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(
        segment_size=SIZE * 5,
        max_index_size=1000,
        index_interval=10000,
        retention_ms=999,
        file_delete_delay_ms=1000,
    )
    append_many(log, 100, lambda: one("test", bench.now - 1000))
    segments = log.segments

    def files() -> list[Path]:
        return [Path(file) for segment in segments for file in segment.files.paths[:2]]

    old = files()
    log.update_high_watermark(log.log_end_offset)
    log.delete_old_segments()
    assert len(log.segments) == 1
    deleted = files()
    assert all(file.name.endswith(".deleted") for file in deleted)
    assert all(file.exists() for file in deleted)
    assert not any(file.exists() for file in old)
    bench.clock.sleep(1001)
    assert not any(file.exists() for file in deleted)


@pytest.mark.conformance("UnifiedLogTest.testDeleteOldSegments")
def test_delete_old_segments(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=SIZE * 5, max_index_size=1000, retention_ms=999)
    old = partial(one, "test", bench.now - 1000)
    append_many(log, 100, old)
    log.leader_epoch_cache.assign(0, 40)
    log.leader_epoch_cache.assign(1, 90)

    count = len(log.segments)
    log.delete_old_segments()
    assert (len(log.segments), log.log_start_offset) == (count, 0), "no high watermark yet"
    for high_watermark in range(25, 31):
        log.update_high_watermark(high_watermark)
        log.delete_old_segments()
        assert log.log_start_offset <= high_watermark
        for segment in log.segments:
            fetched = segment.read(segment.base_offset, LARGEST)
            assert fetched is not None
            offsets = [record.offset for record in fetched.records.records()]
            assert offsets[-1] >= high_watermark

    log.update_high_watermark(log.log_end_offset)
    log.delete_old_segments()
    assert len(log.segments) == 1
    assert log.leader_epoch_cache.epoch_entries == [EpochEntry(1, 100)]

    append_many(log, 100, old)
    log.delete()
    assert len(log.segments) == 0
    assert log.delete_old_segments() == 0
    assert log.leader_epoch_cache.epoch_entries == []


@pytest.mark.conformance("UnifiedLogTest.testLogDeletionAfterClose")
def test_log_deletion_after_close(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=SIZE * 5, max_index_size=1000, retention_ms=999)
    log.append_as_leader(one("test", bench.now - 1000), 0)
    assert len(log.segments) == len(log.leader_epoch_cache.epoch_entries) == 1
    log.close()
    log.delete()
    assert len(log.segments) == len(log.leader_epoch_cache.epoch_entries) == 0
    assert not bench.folder.exists()


@pytest.mark.conformance("UnifiedLogTest.testLogDeletionAfterDeleteRecords")
def test_log_deletion_after_delete_records(tmp_path: Path) -> None:
    log = three_segments(LogBench(tmp_path))
    assert (len(log.segments), log.log_start_offset) == (3, 0)
    for start, left in ((1, 3), (6, 2), (15, 1)):
        log.maybe_increment_log_start_offset(start, "a client deleted records")
        log.delete_old_segments()
        assert (len(log.segments), log.log_start_offset) == (left, start)


@pytest.mark.conformance("UnifiedLogTest.shouldDeleteSizeBasedSegments")
def test_should_delete_size_based_segments(tmp_path: Path) -> None:
    log = three_segments(LogBench(tmp_path), retention_size=SIZE * 10)
    log.delete_old_segments()
    assert len(log.segments) == 2


@pytest.mark.conformance("UnifiedLogTest.shouldNotDeleteSizeBasedSegmentsWhenUnderRetentionSize")
def test_should_not_delete_size_based_segments_when_under_retention_size(tmp_path: Path) -> None:
    log = three_segments(LogBench(tmp_path), retention_size=SIZE * 15)
    log.delete_old_segments()
    assert len(log.segments) == 3


def fifteen_of(bench: LogBench, timestamp: int, **config: Any) -> UnifiedLog:
    log = bench.log(segment_size=KEYED.size * 5, **config)
    append_many(log, 15, lambda: one("test", timestamp, b"test"))
    assert len(log.segments) == 3
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.conformance("UnifiedLogTest.shouldDeleteTimeBasedSegmentsReadyToBeDeleted")
def test_should_delete_time_based_segments_ready_to_be_deleted(tmp_path: Path) -> None:
    log = fifteen_of(LogBench(tmp_path), 10, retention_ms=10000)
    log.delete_old_segments()
    assert len(log.segments) == 1


@pytest.mark.conformance("UnifiedLogTest.shouldNotDeleteTimeBasedSegmentsWhenNoneReadyToBeDeleted")
def test_should_not_delete_time_based_segments_when_none_ready_to_be_deleted(
    tmp_path: Path,
) -> None:
    bench = LogBench(tmp_path)
    log = fifteen_of(bench, bench.now, retention_ms=10000000)
    log.delete_old_segments()
    assert len(log.segments) == 3


@pytest.mark.conformance("UnifiedLogTest.shouldNotDeleteSegmentsWhenPolicyDoesNotIncludeDelete")
def test_should_not_delete_segments_when_policy_does_not_include_delete(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = fifteen_of(bench, 10, retention_ms=10000, compact=True, delete=False)
    log.segments[0].files.set_last_modified(bench.now - 20000)
    log.delete_old_segments()
    assert len(log.segments) == 3


@pytest.mark.conformance(
    "UnifiedLogTest.shouldDeleteSegmentsReadyToBeDeletedWhenCleanupPolicyIsCompactAndDelete"
)
def test_should_delete_segments_ready_to_be_deleted_when_cleanup_policy_is_compact_and_delete(
    tmp_path: Path,
) -> None:
    log = fifteen_of(LogBench(tmp_path), 10, retention_ms=10000, compact=True, delete=True)
    log.delete_old_segments()
    assert len(log.segments) == 1


@pytest.mark.conformance(
    "UnifiedLogTest.shouldDeleteStartOffsetBreachedSegmentsWhenPolicyDoesNotIncludeDelete"
)
def test_should_delete_start_offset_breached_segments_when_policy_does_not_include_delete(
    tmp_path: Path,
) -> None:
    log = fifteen_of(LogBench(tmp_path), 10, retention_ms=10000, compact=True, delete=False)
    log.maybe_increment_log_start_offset(5, "a client deleted records")
    log.delete_old_segments()
    first, *others = log.segments
    assert len(others) == 1
    assert first.base_offset <= log.log_start_offset
    assert all(segment.base_offset > log.log_start_offset for segment in others)


@pytest.mark.conformance("UnifiedLogTest.shouldTruncateLeaderEpochsWhenDeletingSegments")
def test_should_truncate_leader_epochs_when_deleting_segments(tmp_path: Path) -> None:
    log = three_segments(LogBench(tmp_path), retention_size=SIZE * 10)
    for epoch, start in enumerate((0, 5, 10)):
        log.leader_epoch_cache.assign(epoch, start)
    log.delete_old_segments()
    assert log.leader_epoch_cache.epoch_entries == [EpochEntry(1, 5), EpochEntry(2, 10)]


@pytest.mark.conformance("UnifiedLogTest.shouldUpdateOffsetForLeaderEpochsWhenDeletingSegments")
def test_should_update_offset_for_leader_epochs_when_deleting_segments(tmp_path: Path) -> None:
    log = three_segments(LogBench(tmp_path), retention_size=SIZE * 10)
    for epoch, start in enumerate((0, 7, 10)):
        log.leader_epoch_cache.assign(epoch, start)
    log.delete_old_segments()
    entries = [EpochEntry(0, 5), EpochEntry(1, 7), EpochEntry(2, 10)]
    assert log.leader_epoch_cache.epoch_entries == entries


def hundred_expired(bench: LogBench) -> UnifiedLog:
    log = bench.log(segment_size=512, max_index_size=1000, retention_ms=999)
    for number in range(100):
        log.append_as_leader(one(f"test{number}", bench.now - 1000), 0)
    return log


@pytest.mark.conformance("UnifiedLogTest.testSegmentDeletionWithHighWatermarkInitialization")
def test_segment_deletion_with_high_watermark_initialization(tmp_path: Path) -> None:
    log = hundred_expired(LogBench(tmp_path))
    assert log.update_high_watermark(25) == 25
    count = len(log.segments)
    log.delete_old_segments()
    assert len(log.segments) < count
    assert log.log_start_offset <= 25


@pytest.mark.conformance("UnifiedLogTest.testCannotDeleteSegmentsAtOrAboveHighWatermark")
def test_cannot_delete_segments_at_or_above_high_watermark(tmp_path: Path) -> None:
    log = hundred_expired(LogBench(tmp_path))
    assert len(log.segments) > 5
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (0, 0, 100)
    for high_watermark in range(101):
        log.update_high_watermark(high_watermark)
        assert log.high_watermark == high_watermark
        log.delete_old_segments()
        assert log.log_start_offset <= high_watermark
        first, *others = log.segments
        assert log.log_start_offset <= first.base_offset <= high_watermark
        assert all(segment.base_offset > high_watermark for segment in others)
    assert (log.log_start_offset, len(log.segments), log.active_segment.size) == (100, 1, 0)


@pytest.mark.conformance("UnifiedLogTest.testCannotIncrementLogStartOffsetPastHighWatermark")
def test_cannot_increment_log_start_offset_past_high_watermark(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=512, max_index_size=1000, retention_ms=999)
    append_many(log, 100, one)
    log.update_high_watermark(25)
    with pytest.raises(OffsetOutOfRangeError):
        log.maybe_increment_log_start_offset(26, "a client deleted records")
    assert log.log_start_offset == 0


def rolled_after_each(bench: LogBench) -> UnifiedLog:
    """Nine segments of one record, and an empty active one."""
    log = bench.log(segment_size=MIB)
    for _ in range(9):
        log.append_as_leader(bench.at_now("a"), 0)
        log.roll()
    log.maybe_increment_high_watermark(log.local_log.log_end_offset_metadata)
    assert len(log.segments) == 10
    return log


@pytest.mark.conformance("UnifiedLogTest.testDeletableSegmentsFilter")
def test_deletable_segments_filter(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = rolled_after_each(bench)
    deletable = log.deletable_segments(lambda segment, following: segment.base_offset <= 5)
    assert deletable == log.segments[:6]
    deletable = log.deletable_segments(lambda segment, following: True)
    assert deletable == log.non_active_segments_from(0) == log.segments[:9]
    log.append_as_leader(bench.at_now("a"), 0)
    log.maybe_increment_high_watermark(log.local_log.log_end_offset_metadata)
    assert log.deletable_segments(lambda segment, following: True) == log.segments
    assert len(log.segments) == 10


@pytest.mark.conformance("UnifiedLogTest.testDeletableSegmentsIteration")
def test_deletable_segments_iteration(tmp_path: Path) -> None:
    log = rolled_after_each(LogBench(tmp_path))
    pairs: list[tuple[WritableSegment, WritableSegment | None]] = []

    def wanted(segment: WritableSegment, following: WritableSegment | None) -> bool:
        pairs.append((segment, following))
        return True

    deletable = log.deletable_segments(wanted)
    segments = LogSegments(log.segments)
    assert [segment.base_offset for segment, _ in pairs] == list(range(10))
    for offset, (segment, following) in enumerate(pairs):
        assert segments.floor(offset) is segment
        assert segments.higher(offset) is following
    assert deletable == log.non_active_segments_from(0)
    assert len(log.segments) == 10


@pytest.mark.conformance("UnifiedLogTest.testGetFirstBatchTimestampForSegments")
def test_get_first_batch_timestamp_for_segments(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bench.folder.mkdir()
    first, second = (
        WritableSegment.open(bench.folder, base, LogConfig(index_interval=10), bench.clock)
        for base in (1, 2)
    )

    def timestamps() -> list[int]:
        return [segment.age.first_batch_timestamp for segment in (first, second)]

    assert timestamps() == [MAX_INT64, MAX_INT64]
    first.append(1, records_of(rec("one", 1000), base_offset=1))
    second.append(2, records_of(rec("two", 2000), base_offset=2))
    assert timestamps() == [1000, 2000]
    first.close()
    second.close()
