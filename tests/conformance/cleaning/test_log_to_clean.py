"""What Kafka's LogCleanerTest asks of measuring a log and of the statistics of a cleaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.log.unified_log import UnifiedLog
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from tests.conformance.log_cleaning import CleaningBench, record


def of_six_segments(tmp_path: Path) -> UnifiedLog:
    """A log with one record in each segment."""
    log = CleaningBench(tmp_path).compacted(segment_size=100)
    for _ in range(6):
        log.append_as_leader(records_of(SimpleRecord(b"1", bytes(25))), 0)
    assert len(log.segments) == 6
    return log


@pytest.mark.conformance("LogCleanerTest.testLogToClean")
def test_log_to_clean(tmp_path: Path) -> None:
    log = of_six_segments(tmp_path)
    base = log.active_segment.base_offset
    assert LogToClean.of(log, base, base).total_bytes == log.size - log.active_segment.size
    log.close()


@pytest.mark.conformance("LogCleanerTest.testLogToCleanWithUncleanableSection")
def test_log_to_clean_with_uncleanable_section(tmp_path: Path) -> None:
    log = of_six_segments(tmp_path)
    segments = log.segments
    to_clean = LogToClean.of(log, segments[2].base_offset, segments[4].base_offset)
    clean = sum(segment.size for segment in segments[:2])
    cleanable = sum(segment.size for segment in segments[2:4])
    assert to_clean.clean_bytes == clean
    assert to_clean.cleanable_bytes == cleanable
    assert to_clean.total_bytes == clean + cleanable
    assert to_clean.cleanable_ratio == pytest.approx(cleanable / (clean + cleanable), abs=1e-6)
    log.close()


@pytest.mark.conformance("LogCleanerTest.testLogCleanerStats")
def test_log_cleaner_stats(tmp_path: Path) -> None:
    bench = CleaningBench(tmp_path)
    cleaner = bench.cleaner(4)  # three records fit
    log = bench.compacted(segment_size=1024)
    for number in (0, 1, 0, 1, 0):
        log.append_as_leader(record(number, number), 0)
    log.roll()
    size = log.size
    end, stats = cleaner.clean(LogToClean.of(log, 2, log.active_segment.base_offset))
    assert end == 5
    assert stats.messages_read == 5
    assert stats.bytes_read == size
    assert stats.messages_written == 2
    assert stats.bytes_written == log.size
    assert stats.invalid_messages_read == 0
    assert stats.end_time >= stats.start_time
    log.close()
