"""What Kafka's UnifiedLogTest asks of producer snapshots: when they are taken and when they go."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from engine.broker.cleaning.cleaner import Cleaner
from engine.broker.cleaning.log_to_clean import LogToClean
from engine.broker.cleaning.throttler import Throttler
from engine.index.offset_map import HashedOffsetMap
from engine.writing.log_config import LogConfig
from tests.conformance.unified_log_steps import ABORT, LogBench, end_txn, of_producer, one, rec

MIB = 1024 * 1024
MINUTE = 60_000


@pytest.mark.conformance("UnifiedLogTest.testInitializationOfProducerSnapshotsUpgradePath")
def test_initialization_of_producer_snapshots_upgrade_path(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=64 * 10)

    def without_snapshots() -> None:
        for name in bench.names(".snapshot"):
            (bench.folder / name).unlink()

    log = bench.open(config)
    assert log.producer_state.snapshots.oldest is None
    for number in range(101):
        log.append_as_leader(one(str(number), bench.now), 0)
    assert len(log.segments) >= 2
    end = log.log_end_offset
    log.close()
    without_snapshots()

    log = bench.open(config, recovery_point=end)
    bases = [segment.base_offset for segment in log.segments]
    assert bench.snapshot_offsets == [*bases[-2:], end], "after a clean shutdown"
    log.close()
    without_snapshots()

    log = bench.open(config, recovery_point=end, last_shutdown_clean=False)
    assert bench.snapshot_offsets == [*bases[-2:], end], "nothing to recover"
    log.close()
    without_snapshots()

    log = bench.open(config, recovery_point=0, last_shutdown_clean=False)
    assert bench.snapshot_offsets == [*bases[1:], end], "one for each recovered segment"
    log.close()


@pytest.mark.parametrize("create_empty_active_segment", [True, False])
@pytest.mark.conformance("UnifiedLogTest.testRetentionDeletesProducerStateSnapshots")
def test_retention_deletes_producer_state_snapshots(
    tmp_path: Path, create_empty_active_segment: bool
) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(
        segment_size=2048 * 5, retention_size=0, retention_ms=MINUTE, file_delete_delay_ms=0
    )
    log.append_as_leader(of_producer(1, 0, rec("a")), 0)
    log.roll()
    log.append_as_leader(of_producer(1, 1, rec("b")), 0)
    log.roll()
    log.append_as_leader(of_producer(1, 2, rec("c")), 0)
    if create_empty_active_segment:
        log.roll()
    log.update_high_watermark(log.log_end_offset)
    assert len(bench.snapshot_offsets) == (3 if create_empty_active_segment else 2)
    bench.clock.sleep(MINUTE + 1)
    log.delete_old_segments()
    bench.clock.sleep(1)
    assert len(bench.snapshot_offsets) == 1
    assert log.log_start_offset == 3


@pytest.mark.conformance("UnifiedLogTest.testLogStartOffsetMovementDeletesSnapshots")
def test_log_start_offset_movement_deletes_snapshots(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5, file_delete_delay_ms=0)
    log.append_as_leader(of_producer(1, 0, rec("a")), 0)
    log.roll()
    log.append_as_leader(of_producer(1, 1, rec("b")), 0)
    log.roll()
    log.append_as_leader(of_producer(1, 2, rec("c")), 0)
    log.update_high_watermark(log.log_end_offset)
    assert bench.snapshot_offsets == [1, 2]
    log.maybe_increment_log_start_offset(log.log_end_offset - 1, "a client deleted records")
    log.delete_old_segments()
    bench.clock.sleep(1)
    assert bench.snapshot_offsets == [2]


@pytest.mark.conformance("UnifiedLogTest.testCompactionDeletesProducerStateSnapshots")
def test_compaction_deletes_producer_state_snapshots(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5, compact=True, delete=False, file_delete_delay_ms=0)
    cleaner = Cleaner(
        HashedOffsetMap(MIB),
        bench.clock,
        io_buffer_size=64 * 1024,
        load_factor=0.75,
        throttler=Throttler(math.inf, bench.clock),
        check_done=lambda partition: None,
    )
    for sequence, text in enumerate("abc"):
        if sequence:
            log.roll()
        log.append_as_leader(of_producer(1, sequence, rec(text, key=b"a")), 0)
    log.update_high_watermark(log.log_end_offset)
    assert bench.snapshot_offsets == [segment.base_offset for segment in log.segments][1:] == [1, 2]

    cleaner.clean(LogToClean.of(log, 0, log.log_end_offset))
    log.delete_old_segments()
    bench.clock.sleep(1)
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) < 3
    assert bench.snapshot_offsets == bases[1:]


@pytest.mark.conformance(
    "UnifiedLogTest.testLoadingLogDeletesProducerStateSnapshotsPastLogEndOffset"
)
def test_loading_log_deletes_producer_state_snapshots_past_log_end_offset(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    bench.folder.mkdir()
    (bench.folder / f"{42:020d}.snapshot").touch()
    bench.log(segment_size=2048 * 5, file_delete_delay_ms=0)
    assert bench.snapshot_offsets == []


@pytest.mark.conformance(
    "UnifiedLogTest.testTakeSnapshotOnRollAndDeleteSnapshotOnRecoveryPointCheckpoint"
)
def test_take_snapshot_on_roll_and_delete_snapshot_on_recovery_point_checkpoint(
    tmp_path: Path,
) -> None:
    log = LogBench(tmp_path).log(segment_size=2048 * 5)
    state = log.producer_state
    for number, text in enumerate("abc", start=1):
        log.append_as_leader(one(text), 0)
        log.roll(number)
        assert state.latest_snapshot_offset == number
        assert state.snapshots.oldest == 1, "a roll flushes, and all snapshots stay"
    log.append_as_leader(one("baz"), 0)
    log.flush_up_to(4)
    assert state.latest_snapshot_offset == 3


@pytest.mark.conformance("UnifiedLogTest.testProducerSnapshotAfterSegmentRollOnAppend")
def test_producer_snapshot_after_segment_roll_on_append(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=1024)
    for sequence in (0, 1):
        log.append_as_leader(of_producer(1, sequence, rec("\0" * 512, bench.now)), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert log.producer_state.latest_snapshot_offset == 1

    log.truncate_to(1)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert list(log.active_segment.log.batches()) == []
    assert log.producer_state.latest_snapshot_offset == 1
    entry = log.producer_state.last_entry(1)
    assert entry is not None
    assert (entry.first_data_offset, entry.last_data_offset) == (0, 0)


@pytest.mark.conformance("UnifiedLogTest.testRebuildTransactionalState")
def test_rebuild_transactional_state(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=5 * MIB)
    log = bench.open(config)
    records = of_producer(
        137, 0, rec("foo"), rec("bar"), rec("baz"), epoch=5, is_transactional=True
    )
    log.append_as_leader(records, 0)
    aborted = end_txn(log, 137, 5, ABORT, bench.now)
    log.update_high_watermark(aborted.last_offset + 1)
    assert log.watermarks.first_unstable_offset is None
    log.close()

    reopened = bench.open(config, last_shutdown_clean=False)
    reopened.update_high_watermark(aborted.last_offset + 1)
    assert reopened.watermarks.first_unstable_offset is None


@pytest.mark.conformance("UnifiedLogTest.testDeleteSnapshotsOnIncrementLogStartOffset")
def test_delete_snapshots_on_increment_log_start_offset(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5)
    log.append_as_leader(of_producer(1, 0, rec("a", bench.now)), 0)
    log.roll()
    log.append_as_leader(of_producer(2, 0, rec("b", bench.now)), 0)
    log.roll()
    assert len(log.producer_state.active_producers) == 2
    assert len(bench.snapshot_offsets) == 2

    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(2, "a client deleted records")
    log.delete_old_segments()
    bench.clock.sleep(log.config.file_delete_delay_ms + 1000)
    assert len(log.producer_state.active_producers) == 2
    assert len(bench.snapshot_offsets) == 1
    assert log.producer_state.active_producers[2].last_sequence == 0
