"""What Kafka's LogLoaderTest asks of segments whose offsets are too far apart, and of crashes while one is split."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.record.encoding.building import records_of
from engine.units import MAX_INT32, MAX_INT64
from engine.writing.log_config import LogConfig
from engine.writing.segment.segment_files import log_path, offset_index_path, time_index_path
from engine.writing.segment.writable_file_records import WritableFileRecords
from engine.writing.segment.writable_segment import WritableSegment
from tests.conformance.unified_log_steps import LogBench, overflows, rec

CONFIG = LogConfig(index_interval=1, file_delete_delay_ms=1000)


def write_sample_batches(base: int, records: WritableFileRecords, folder: Path) -> int:
    """Four records over nearly all that a segment can hold; the offset after that."""
    for offset, count in ((base, 1), (base + 1, 2), (base + MAX_INT32 - 1, 1)):
        made = [rec(str(offset + n), key=str(offset + n).encode()) for n in range(count)]
        records.append(records_of(*made, base_offset=offset, partition_leader_epoch=0))
    for path in (offset_index_path(folder, base), time_index_path(folder, base)):
        Path(path).touch(exist_ok=False)
    return base + MAX_INT32


def keys_in(log: UnifiedLog) -> list[int]:
    return [
        int(record.key or b"-1")
        for segment in log.segments
        for batch in segment.log.batches()
        if not batch.is_control
        for record in batch.records()
    ]


class Split:
    """A log of three segments, of which the second was split into two."""

    def __init__(self, tmp_path: Path) -> None:
        self.bench = LogBench(tmp_path)
        folder = self.bench.folder
        folder.mkdir()
        base = 0
        for times in (1, 2, 1):
            with WritableFileRecords.open(log_path(folder, base)) as records:
                for _ in range(times):
                    base = write_sample_batches(base, records, folder)
        self.log = self.bench.open(CONFIG, recovery_point=MAX_INT64)
        (self.overflowed,) = overflows(self.log)
        self.keys = keys_in(self.log)
        assert len(self.keys) == 16
        self.segments = len(self.log.segments)

    def split(self) -> list[WritableSegment]:
        return self.log.split_overflowed_segment(self.overflowed)

    def take_back_deletions(self) -> None:
        for name in self.bench.names(".deleted"):
            path = self.bench.folder / name
            path.rename(path.with_name(name.removesuffix(".deleted")))

    def assert_recovers(self) -> UnifiedLog:
        """All keys are there after recovery, nothing overflows, and nothing is left over."""
        log = self.bench.open(CONFIG, last_shutdown_clean=False)
        self.bench.clock.sleep(CONFIG.file_delete_delay_ms + 1)
        for ending in (".deleted", ".cleaned", ".swap"):
            assert not self.bench.names(ending)
        assert keys_in(log) == self.keys
        assert not overflows(log)
        assert len(log.segments) == self.segments + 1
        return log


@pytest.mark.conformance("LogLoaderTest.testRecoveryOfSegmentWithOffsetOverflow")
def test_recovery_of_segment_with_offset_overflow(tmp_path: Path) -> None:
    made = Split(tmp_path)
    recovered = made.assert_recovers()
    for segment in recovered.segments:
        with pytest.raises(ValueError, match="not too far apart"):
            made.log.split_overflowed_segment(segment)
    assert keys_in(recovered) == made.keys
    recovered.close()


@pytest.mark.conformance("LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase1")
def test_recovery_after_crash_during_split_phase1(tmp_path: Path) -> None:
    made = Split(tmp_path)
    for segment in reversed(made.split()):
        segment.files.change_suffixes("", ".cleaned")
        segment.truncate_to(0)
    made.take_back_deletions()
    made.assert_recovers().close()


@pytest.mark.conformance("LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase2")
def test_recovery_after_crash_during_split_phase2(tmp_path: Path) -> None:
    made = Split(tmp_path)
    new = made.split()
    for segment in reversed(new):
        segment.files.change_suffixes("", ".swap" if segment is new[-1] else ".cleaned")
        segment.truncate_to(0)
    made.take_back_deletions()
    made.assert_recovers().close()


@pytest.mark.conformance("LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase3")
def test_recovery_after_crash_during_split_phase3(tmp_path: Path) -> None:
    made = Split(tmp_path)
    for segment in reversed(made.split()):
        segment.files.change_suffixes("", ".swap")
    made.take_back_deletions()
    made.overflowed.truncate_to(0)
    made.assert_recovers().close()


@pytest.mark.conformance("LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase4")
def test_recovery_after_crash_during_split_phase4(tmp_path: Path) -> None:
    made = Split(tmp_path)
    for segment in reversed(made.split()):
        segment.files.change_suffixes("", ".swap")
    for name in made.bench.names(".deleted"):
        (made.bench.folder / name).unlink()
    made.overflowed.truncate_to(0)
    made.assert_recovers().close()


@pytest.mark.conformance("LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase5")
def test_recovery_after_crash_during_split_phase5(tmp_path: Path) -> None:
    made = Split(tmp_path)
    made.split()[-1].files.change_suffixes("", ".swap")
    made.overflowed.truncate_to(0)
    made.assert_recovers().close()
