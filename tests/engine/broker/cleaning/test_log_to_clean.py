"""The part of a log that may be cleaned, at the millisecond where it grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.cleaning.log_to_clean import (
    OffsetsToClean,
    cleanable_offsets,
    compaction_delay,
)
from engine.broker.log.unified_log import UnifiedLog
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from tests.conformance.log_cleaning import CleaningBench

LAG = 1000
NOW = 1_700_000_000_000


def two_segments(tmp_path: Path, **config: int) -> UnifiedLog:
    """One record at NOW in a closed segment, and one in the active segment."""
    log = CleaningBench(tmp_path).compacted(**config)
    for number in range(2):
        log.append_as_leader(records_of(SimpleRecord(b"key", b"value", NOW)), 0)
        if not number:
            log.roll()
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize(("later", "end"), [(-1, 0), (0, 1), (1, 1)])
def test_a_segment_may_be_cleaned_when_the_lag_has_passed(
    tmp_path: Path, later: int, end: int
) -> None:
    log = two_segments(tmp_path, min_compaction_lag_ms=LAG)
    assert cleanable_offsets(log, 0, NOW + LAG + later) == OffsetsToClean(0, end, False)


def test_without_a_lag_a_record_of_the_future_may_be_cleaned(tmp_path: Path) -> None:
    log = two_segments(tmp_path, min_compaction_lag_ms=0)
    assert cleanable_offsets(log, 0, NOW - 1) == OffsetsToClean(0, 1, False)


@pytest.mark.parametrize(("later", "delay"), [(-1, 0), (0, 0), (1, 1), (50, 50)])
def test_the_delay_counts_from_the_largest_lag(tmp_path: Path, later: int, delay: int) -> None:
    log = two_segments(tmp_path, max_compaction_lag_ms=LAG)
    assert compaction_delay(log, 0, NOW + LAG + later) == delay
