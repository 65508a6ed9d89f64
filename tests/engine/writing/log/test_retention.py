"""What retention deletes at the millisecond and the byte where it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.writing.log.unified_log import UnifiedLog
from tests.conformance.unified_log_steps import LogBench, one

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
