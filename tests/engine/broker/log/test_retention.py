"""What retention deletes at the millisecond and the byte where it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import StateError
from engine.record.encoding.building import records_of
from tests.conformance.unified_log_steps import LogBench, one, rec

LIMIT_MS = 1000


def two_segments(bench: LogBench, **config: int) -> UnifiedLog:
    """One record of now in each of two segments, below the high watermark."""
    log = bench.log(**config)
    log.append_as_leader(bench.at_now(), 0)
    log.roll()
    log.append_as_leader(bench.at_now(), 0)
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize(("later", "deleted"), [(-1, 0), (0, 0), (1, 2)])
def test_a_segment_goes_a_millisecond_after_retention_ms(
    tmp_path: Path, later: int, deleted: int
) -> None:
    bench = LogBench(tmp_path)
    log = two_segments(bench, retention_ms=LIMIT_MS)
    bench.clock.sleep(LIMIT_MS + later)
    assert log.delete_old_segments() == deleted


@pytest.mark.parametrize(("limit", "deleted"), [(-1, 0), (0, 2)])
def test_a_limit_of_0_ms_is_a_limit(tmp_path: Path, limit: int, deleted: int) -> None:
    bench = LogBench(tmp_path)
    log = two_segments(bench, retention_ms=limit)
    bench.clock.sleep(1)
    assert log.delete_old_segments() == deleted


@pytest.mark.parametrize(("less", "deleted"), [(-1, 0), (0, 1), (1, 1)])
def test_a_segment_goes_when_the_others_reach_retention_bytes(
    tmp_path: Path, less: int, deleted: int
) -> None:
    # Without the oldest segment the log is as large as the limit, or larger.
    log = two_segments(LogBench(tmp_path), retention_size=one().size - less, retention_ms=-1)
    assert log.delete_old_segments() == deleted


@pytest.mark.parametrize(("limit", "deleted"), [(-1, 0), (0, 2)])
def test_a_limit_of_0_bytes_is_a_limit(tmp_path: Path, limit: int, deleted: int) -> None:
    log = two_segments(LogBench(tmp_path), retention_size=limit, retention_ms=-1)
    assert log.delete_old_segments() == deleted


def test_an_empty_segment_goes_also_when_the_log_is_as_large_as_retention_bytes(
    tmp_path: Path,
) -> None:
    log = LogBench(tmp_path).log(retention_size=one().size, retention_ms=-1)
    log.roll(5)
    log.append_as_follower(records_of(rec("test"), base_offset=5, partition_leader_epoch=0), 0)
    log.update_high_watermark(log.log_end_offset)
    assert [(segment.base_offset, segment.size > 0) for segment in log.segments] == [
        (0, False),
        (5, True),
    ]
    assert log.size == one().size
    assert log.delete_old_segments() == 1
    assert log.log_start_offset == 5


@pytest.mark.parametrize(("ahead", "warnings"), [(0, 0), (1, 1)])
def test_a_timestamp_in_the_future_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ahead: int, warnings: int
) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(retention_ms=LIMIT_MS)
    log.append_as_leader(one(timestamp=bench.now + ahead), 0)
    log.update_high_watermark(1)
    assert log.delete_old_segments() == 0
    assert caplog.text.count("has a timestamp in the future") == warnings


def test_the_start_of_a_closed_log_does_not_move(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = two_segments(bench)
    log.close_handlers()
    with pytest.raises(StateError, match="closed"):
        log.maybe_increment_log_start_offset(1, "a test")
    assert log.log_start_offset == 0


def test_a_log_that_starts_at_its_end_needs_no_snapshot_of_producers(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    log.append_as_leader(bench.at_now(), 0)
    log.update_high_watermark(1)
    log.maybe_increment_log_start_offset(1, "a test")
    log.close()
    assert bench.snapshot_offsets == []
