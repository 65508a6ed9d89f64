"""What Kafka's UnifiedLogTest asks of truncation, leader epochs and the high watermark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.record.encoding.building import records_of
from engine.record.memory_records import MemoryRecords
from engine.units import EpochEntry, LogOffsetMetadata
from engine.writing.log_config import LogConfig
from tests.conformance.unified_log_steps import (
    LogBench,
    append_as_follower,
    append_many,
    assert_is_placed,
    of_producer,
    one,
    rec,
    recs,
)

MIB = 1024 * 1024


def reopened_with_open_transaction(bench: LogBench) -> UnifiedLog:
    """Three plain records and an open transaction of two, whose place is not known after reopening."""
    config = LogConfig(segment_size=MIB)
    log = bench.open(config)
    log.append_as_leader(records_of(*recs("012")), 0)
    log.append_as_leader(of_producer(17, 0, *recs("34"), epoch=10, is_transactional=True), 0)
    assert log.watermarks.first_unstable_offset == 3
    log.close()
    reopened = bench.open(config)
    assert reopened.producer_state.first_unstable_offset == LogOffsetMetadata(3)
    return reopened


def check_truncation_below_unstable(
    bench: LogBench, truncate: Callable[[UnifiedLog], object]
) -> None:
    log = reopened_with_open_transaction(bench)
    truncate(log)
    assert log.watermarks.first_unstable_offset is None
    assert dict(log.producer_state.active_producers) == {}


@pytest.mark.conformance("UnifiedLogTest.testTruncateBelowFirstUnstableOffset")
def test_truncate_below_first_unstable_offset(tmp_path: Path) -> None:
    check_truncation_below_unstable(LogBench(tmp_path), lambda log: log.truncate_to(0))


@pytest.mark.conformance("UnifiedLogTest.testTruncateFullyAndStartBelowFirstUnstableOffset")
def test_truncate_fully_and_start_below_first_unstable_offset(tmp_path: Path) -> None:
    check_truncation_below_unstable(
        LogBench(tmp_path), lambda log: log.truncate_fully_and_start_at(0)
    )


@pytest.mark.conformance("UnifiedLogTest.testTruncateFullyAndStart")
def test_truncate_fully_and_start(tmp_path: Path) -> None:
    log = reopened_with_open_transaction(LogBench(tmp_path))
    log.truncate_fully_and_start_at(2, 1)
    assert log.watermarks.first_unstable_offset is None
    assert dict(log.producer_state.active_producers) == {}
    assert (log.log_start_offset, log.log_end_offset) == (1, 2)


@pytest.mark.conformance("UnifiedLogTest.testHighWatermarkMaintenance")
def test_high_watermark_maintenance(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=MIB)

    def records(offset: int) -> MemoryRecords:
        return records_of(*recs("abc", bench.now), base_offset=offset, partition_leader_epoch=0)

    def check(offset: int) -> None:
        assert log.high_watermark == offset
        assert_is_placed(log, log.watermarks.snapshot().high_watermark)

    check(0)
    log.append_as_leader(records(0), 0)
    check(0)
    log.maybe_increment_high_watermark(LogOffsetMetadata(1))
    check(1)
    log.update_high_watermark(5)
    check(3)
    log.append_as_follower(records(3), 0)
    log.update_high_watermark(6)
    check(6)
    log.truncate_to(3)
    check(3)
    log.append_as_leader(records(0), 0)
    check(3)
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)
    log.truncate_fully_and_start_at(4)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    check(4)


@pytest.mark.conformance("UnifiedLogTest.testTruncateToEndOffsetClearsEpochCache")
def test_truncate_to_end_offset_clears_epoch_cache(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open()
    append_as_follower(log, records_of(*recs("ab"), base_offset=27), 19)
    assert log.leader_epoch_cache.latest_entry == EpochEntry(19, 27)
    assert log.log_end_offset == 29
    for epoch, beyond in ((20, 0), (24, 1)):
        log.leader_epoch_cache.assign(epoch, log.log_end_offset)
        assert log.leader_epoch_cache.latest_entry == EpochEntry(epoch, 29)
        log.truncate_to(log.log_end_offset + beyond)
        assert log.leader_epoch_cache.latest_entry == EpochEntry(19, 27)
        assert log.log_end_offset == 29


@pytest.mark.conformance("UnifiedLogTest.testTruncateTo")
def test_truncate_to(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=10 * bench.at_now().size)
    assert len(log.segments) == 1
    append_many(log, 10, bench.at_now)
    assert (len(log.segments), log.log_end_offset) == (1, 10)
    size = log.size

    for target in (10, 11):
        log.truncate_to(target)
        assert (log.log_end_offset, log.size) == (10, size)
    log.truncate_to(5)
    assert log.log_end_offset == 5
    assert log.size < size
    log.truncate_to(0)
    assert (log.log_end_offset, log.size) == (0, 0)

    append_many(log, 10, bench.at_now)
    assert (log.log_end_offset, log.size) == (10, size)
    log.truncate_fully_and_start_at(1)
    assert (log.log_end_offset, log.size) == (1, 0)
    append_many(log, 10, bench.at_now)
    assert (log.log_end_offset, log.size) == (11, size)
    log.truncate_to(0)
    assert (log.log_end_offset, log.size) == (0, 0), "below the first offset that there is"


@pytest.mark.conformance("UnifiedLogTest.testIndexResizingAtTruncation")
def test_index_resizing_at_truncation(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    size = bench.at_now().size
    log = bench.log(segment_size=10 * size, index_interval=size - 1)

    def append_ten() -> None:
        for number in range(1, 11):
            log.append_as_leader(one("test", bench.now + number), 0)

    append_ten()
    assert len(log.segments) == 1
    bench.clock.sleep(10)
    append_ten()
    assert len(log.segments) == 2
    first = log.segments[0]
    assert first.offset_index.max_entries == first.time_index.max_entries == 9

    log.truncate_to(0)
    assert len(log.segments) == 1
    first = log.segments[0]
    assert first.offset_index.max_entries == log.config.max_index_size // 8
    assert first.time_index.max_entries == log.config.max_index_size // 12
    bench.clock.sleep(10)
    append_ten()
    assert len(log.segments) == 1


@pytest.mark.conformance(
    "UnifiedLogTest.followerShouldSaveEpochInformationFromReplicatedMessagesToTheEpochCache"
)
def test_follower_should_save_epoch_information_from_replicated_messages_to_the_epoch_cache(
    tmp_path: Path,
) -> None:
    log = LogBench(tmp_path).open()
    for offset in range(50):
        records = records_of(rec(str(offset)), base_offset=offset, partition_leader_epoch=42)
        log.append_as_follower(records, offset)
    assert log.leader_epoch_cache.latest_epoch == 42


@pytest.mark.conformance("UnifiedLogTest.shouldTruncateLeaderEpochCheckpointFileWhenTruncatingLog")
def test_should_truncate_leader_epoch_checkpoint_file_when_truncating_log(tmp_path: Path) -> None:
    def records(offset: int, epoch: int) -> MemoryRecords:
        return records_of(rec("value"), base_offset=offset, partition_leader_epoch=epoch)

    log = LogBench(tmp_path).log(segment_size=10 * records(0, 0).size)
    for epoch, offsets in enumerate((range(10), range(10, 16), range(16, 20))):
        for offset in offsets:
            log.append_as_follower(records(offset, epoch), epoch)
    assert (len(log.segments), log.log_end_offset) == (2, 20)
    for target, left in ((20, 3), (11, 2), (10, 1), (0, 0)):
        log.truncate_to(target)
        assert len(log.leader_epoch_cache.epoch_entries) == left


@pytest.mark.conformance(
    "UnifiedLogTest.testLeaderEpochCacheClearedAfterDowngradeInAppendedMessages"
)
def test_leader_epoch_cache_cleared_after_downgrade_in_appended_messages(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=1000, index_interval=1, max_message_size=65536)
    log.append_as_leader(one("foo"), 5)
    assert log.leader_epoch_cache.latest_epoch == 5
    log.append_as_follower(records_of(rec("foo"), base_offset=1, magic=1), 5)
    assert log.leader_epoch_cache.latest_epoch is None


@pytest.mark.conformance("UnifiedLogTest.testLeaderEpochCacheCreatedAfterMessageFormatUpgrade")
def test_leader_epoch_cache_created_after_message_format_upgrade(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=1000, index_interval=1, max_message_size=65536)
    log.append_as_leader(records_of(rec("bar"), magic=1), 5, to_magic=1)
    assert log.leader_epoch_cache.latest_epoch is None
    log.append_as_leader(one("foo"), 5)
    assert log.leader_epoch_cache.latest_epoch == 5


@pytest.mark.conformance("UnifiedLogTest.testOffsetSnapshot")
def test_offset_snapshot(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=5 * MIB)
    append_as_follower(log, records_of(*recs("abc")), 5)
    log.update_high_watermark(3)
    for _ in range(2):
        snapshot = log.watermarks.snapshot()
        assert snapshot.high_watermark.offset == 3
        assert_is_placed(log, snapshot.high_watermark)


@pytest.mark.conformance("UnifiedLogTest.testMaybeUpdateHighWatermarkAsFollower")
def test_maybe_update_high_watermark_as_follower(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open()
    for number in range(100):
        log.append_as_leader(one(f"test{number}"), 0)
    answers = [log.watermarks.maybe_update_high_watermark(to) for to in (99, 99, 100, 100, 101)]
    assert answers == [99, None, 100, None, None]
