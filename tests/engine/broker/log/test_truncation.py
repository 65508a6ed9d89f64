"""What a truncation cuts off besides batches, and what it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.units import EpochEntry, LogOffsetMetadata
from tests.conformance.unified_log_steps import LogBench, append_plain, of_producer, rec


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path)


def three_producers(bench: LogBench) -> UnifiedLog:
    """A batch each of the producers 0 to 2, and no snapshot."""
    log = bench.open()
    for number in range(3):
        log.append_as_leader(of_producer(number, 0, rec("a", bench.now)), 0)
    assert bench.snapshot_offsets == []
    return log


def producers(log: UnifiedLog) -> list[int]:
    return [number for number in range(3) if log.producer_state.last_entry(number) is not None]


def test_producers_of_records_that_are_cut_off_are_forgotten_also_without_a_snapshot(
    bench: LogBench,
) -> None:
    log = three_producers(bench)
    assert log.truncate_to(2)
    assert producers(log) == [0, 1]
    assert bench.snapshot_offsets == [2]


def test_a_log_that_starts_anew_has_no_producers(bench: LogBench) -> None:
    log = three_producers(bench)
    log.truncate_fully_and_start_at(7)
    assert producers(log) == []
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (7, 7, 7)
    assert log.leader_epoch_cache.epoch_entries == []


def test_a_log_that_starts_anew_may_keep_a_lower_start(bench: LogBench) -> None:
    log = three_producers(bench)
    log.truncate_fully_and_start_at(7, 5)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (5, 7, 7)


def test_snapshots_of_removed_segments_go_with_them(bench: LogBench) -> None:
    log = bench.open()
    for number in range(3):
        log.append_as_leader(of_producer(number, 0, rec("a", bench.now)), 0)
        log.roll()
    log.append_as_leader(of_producer(3, 0, rec("a", bench.now)), 0)
    assert bench.snapshot_offsets == [1, 2, 3]
    log.truncate_to(1)
    assert bench.snapshot_offsets == [1]
    assert bench.names(".snapshot.deleted")
    bench.clock.sleep(log.config.file_delete_delay_ms)
    assert not bench.names(".deleted")


def test_a_cut_at_the_first_offset_of_the_log_keeps_its_segment(bench: LogBench) -> None:
    log = bench.open()
    log.truncate_fully_and_start_at(5)
    bench.clock.sleep(log.config.file_delete_delay_ms)
    append_plain(log, 2)
    segment = log.active_segment
    log.truncate_to(5)
    assert log.active_segment is segment
    assert (segment.size, log.log_end_offset) == (0, 5)
    log.truncate_to(4)
    assert log.active_segment is not segment
    assert (log.active_segment.base_offset, log.log_end_offset) == (4, 4)


def test_an_epoch_that_begins_at_the_log_end_goes_though_nothing_is_cut_off(
    bench: LogBench,
) -> None:
    log = bench.open()
    append_plain(log, 2)
    log.leader_epoch_cache.assign(5, 2)
    assert not log.truncate_to(2)
    assert log.leader_epoch_cache.epoch_entries == [EpochEntry(0, 0)]


def test_a_cut_below_the_high_watermark_is_warned_of(
    bench: LogBench, caplog: pytest.LogCaptureFixture
) -> None:
    log = bench.open()
    for _ in range(4):
        append_plain(log, 1)
    log.update_high_watermark(2)
    for target, warnings in ((3, 0), (2, 0), (1, 1)):
        log.truncate_to(target)
        assert caplog.text.count("below its high watermark") == warnings
        assert log.high_watermark == min(target, 2)


def test_a_high_watermark_at_the_cut_has_the_place_of_the_log_end(bench: LogBench) -> None:
    log = bench.open()
    append_plain(log, 3)
    end_of_first = log.local_log.log_end_offset_metadata
    log.roll()
    append_plain(log, 3)
    log.update_high_watermark(end_of_first)
    log.truncate_to(3)
    assert log.watermarks.high_watermark_metadata() == LogOffsetMetadata(3, 3, 0)


def test_the_old_files_of_a_log_that_starts_anew_stay_for_a_while(bench: LogBench) -> None:
    log = bench.log(segment_size=1000)
    for _ in range(3):
        append_plain(log, 1)
        log.roll()
    log.truncate_fully_and_start_at(7)
    assert bench.names(".log.deleted") == [f"{base:020}.log.deleted" for base in range(4)]
    bench.clock.sleep(log.config.file_delete_delay_ms)
    assert not bench.names(".deleted")
    assert bench.names(".log") == [f"{7:020}.log"]


def test_a_negative_offset_is_refused_before_a_segment_goes(bench: LogBench) -> None:
    log = bench.open()
    for _ in range(2):
        append_plain(log, 1)
        log.roll()
    with pytest.raises(ValueError, match="cannot be truncated to the offset -1"):
        log.truncate_to(-1)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    assert not bench.names(".deleted")
