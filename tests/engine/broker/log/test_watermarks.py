"""When a high watermark moves: up, or to a newer segment at the same offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import StateError
from engine.units import LogOffsetMetadata
from tests.conformance.unified_log_steps import ABORT, LogBench, append_plain, end_txn, producer


@pytest.fixture
def log(tmp_path: Path) -> UnifiedLog:
    """Offsets 0 to 2 in one segment, 3 to 5 in the next; the high watermark is 3, at the end of the first."""
    log = LogBench(tmp_path).log()
    append_plain(log, 3)
    end_of_first = log.local_log.log_end_offset_metadata
    assert end_of_first == LogOffsetMetadata(3, 0, log.size)
    log.roll()
    append_plain(log, 3)
    log.update_high_watermark(end_of_first)
    assert log.watermarks.high_watermark_metadata() == end_of_first
    return log


def increment(log: UnifiedLog, to: LogOffsetMetadata) -> LogOffsetMetadata | None:
    """Raise the high watermark; it is the new one only where an old one is returned."""
    before = log.watermarks.high_watermark_metadata()
    old = log.maybe_increment_high_watermark(to)
    assert old in (None, before)
    assert log.watermarks.high_watermark_metadata() == (before if old is None else to)
    return old


def test_the_same_offset_on_a_newer_segment_moves_it(log: UnifiedLog) -> None:
    assert increment(log, LogOffsetMetadata(3, 3, 0)) == LogOffsetMetadata(
        3, 0, log.segments[0].size
    )


def test_the_same_offset_on_the_same_segment_does_not_move_it(log: UnifiedLog) -> None:
    assert increment(log, log.watermarks.high_watermark_metadata()) is None
    increment(log, LogOffsetMetadata(3, 3, 0))
    assert increment(log, LogOffsetMetadata(3, 0, log.segments[0].size)) is None


@pytest.mark.parametrize("lower", [0, 2])
def test_it_does_not_go_back(log: UnifiedLog, lower: int) -> None:
    assert increment(log, LogOffsetMetadata(lower, 3, 0)) is None


@pytest.mark.parametrize("higher", [4, 6])
def test_it_goes_up_to_the_log_end(log: UnifiedLog, higher: int) -> None:
    assert increment(log, log.watermarks.offset_metadata(higher)) is not None
    with pytest.raises(ValueError, match="above the log end"):
        log.maybe_increment_high_watermark(LogOffsetMetadata(7))


def test_a_high_watermark_set_to_the_log_end_has_the_place_of_the_log_end(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    append_plain(log, 3)
    end_of_first = log.local_log.log_end_offset_metadata
    log.roll()
    log.update_high_watermark(end_of_first)
    assert log.watermarks.high_watermark_metadata() == LogOffsetMetadata(3, 3, 0)


def test_a_high_watermark_set_to_the_log_start_keeps_its_place(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    append_plain(log, 3)
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(2, "a test")
    place = LogOffsetMetadata(2, 0, 0)  # in the middle of a batch
    log.update_high_watermark(place)
    assert log.watermarks.high_watermark_metadata() == place


def test_a_high_watermark_below_the_segments_has_no_place(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    log.truncate_fully_and_start_at(10, 5)
    assert log.update_high_watermark(7) == 7
    assert log.watermarks.high_watermark_metadata() == LogOffsetMetadata(7)


def test_a_log_does_not_start_below_its_first_segment(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    log.truncate_fully_and_start_at(10, 5)
    local_log, state = log.local_log, log.producer_state
    local_log.recovery_point = 0
    again = UnifiedLog(local_log, log.leader_epoch_cache, state, 5)
    assert (again.log_start_offset, again.high_watermark, again.recovery_point) == (10, 10, 10)


def test_a_log_start_above_the_recovery_point_raises_it(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    append_plain(log, 3)
    log.update_high_watermark(3)
    assert log.recovery_point == 0
    log.maybe_increment_log_start_offset(2, "a test")
    assert log.recovery_point == 2
    log.flush()
    log.maybe_increment_log_start_offset(3, "a test")
    assert log.recovery_point == 3


def test_the_high_watermark_is_told_when_it_changes(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    append_plain(log, 3)
    assert log.watermarks.maybe_update_high_watermark(2) == 2
    assert log.watermarks.maybe_update_high_watermark(2) is None
    assert log.watermarks.maybe_update_high_watermark(9) == 3


def test_a_high_watermark_that_goes_back_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = LogBench(tmp_path).log()
    append_plain(log, 3)
    for offset, warnings in ((2, 0), (2, 0), (1, 1)):
        log.update_high_watermark(offset)
        assert caplog.text.count("goes back") == warnings


def test_the_first_append_after_a_truncation_forgets_a_transaction_that_was_cut_off(
    tmp_path: Path,
) -> None:
    """Kafka looks at the transactions after each append, not after a truncation."""
    bench = LogBench(tmp_path)
    log = bench.log()
    append_plain(log, 2)
    producer(log, 1, 0, bench.now)(2)
    assert log.watermarks.first_unstable_offset == 2
    log.truncate_to(2)
    append_plain(log, 1)
    assert log.watermarks.first_unstable_offset is None


def test_the_first_append_after_a_truncation_shows_a_transaction_that_was_read_again(
    tmp_path: Path,
) -> None:
    bench = LogBench(tmp_path)
    with bench.log() as log:
        producer(log, 1, 0, bench.now)(2)
        end_txn(log, 1, 0, ABORT, bench.now)
        append_plain(log, 1)
    with bench.log() as log:
        assert log.watermarks.first_unstable_offset is None
        log.truncate_to(3)
        append_plain(log, 1)
        assert log.watermarks.first_unstable_offset == 0


def test_a_transaction_that_begins_at_the_high_watermark_ends_no_reader_before_it(
    tmp_path: Path,
) -> None:
    bench = LogBench(tmp_path)
    log = bench.log()
    append_plain(log, 3)
    end_of_first = log.local_log.log_end_offset_metadata
    log.roll()
    producer(log, 1, 0, bench.now)(1)
    log.update_high_watermark(end_of_first)
    assert log.watermarks.first_unstable_offset == 3
    assert log.watermarks.last_stable_metadata() == end_of_first


def test_a_closed_log_neither_takes_nor_tells_a_high_watermark(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    append_plain(log, 3)
    log.close_handlers()
    with pytest.raises(StateError, match="closed"):
        log.watermarks.high_watermark_metadata()
    with pytest.raises(StateError, match="closed"):
        log.update_high_watermark(2)
