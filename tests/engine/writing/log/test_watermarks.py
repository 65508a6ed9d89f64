"""When a high watermark moves: up, or to a newer segment at the same offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.units import LogOffsetMetadata
from engine.writing.log.unified_log import UnifiedLog
from tests.conformance.unified_log_steps import LogBench, append_plain


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
