"""What Kafka's LogLoaderTest asks of producers, transactions and leader epochs when a log is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY, Mock, PropertyMock, call

import pytest

from engine.broker.log.local_log import LocalLog
from engine.broker.log.unified_log import UnifiedLog
from engine.files.file_names import producer_snapshot_name
from engine.index.transaction_index import AbortedTxn
from engine.log.log_segments import LogSegments
from engine.record.encoding.building import records_of
from engine.units import MAX_INT32, EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LogEpochCheckpoint
from engine.writing.log.loading_steps import OUR_LOADING_RULES
from engine.writing.log.log_loader import LogLoader
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)
from tests.conformance.unified_log_steps import (
    ABORT,
    COMMIT,
    LogBench,
    aborted_transactions,
    append_plain,
    end_txn,
    of_producer,
    one,
    producer,
    rec,
)

PARTITION = TopicPartition("topic", 0)
MINUTE = 60_000


class WatchedSegments(LogSegments[WritableSegment]):
    """Notes which segments are read, and which are recovered."""

    __slots__ = ("read", "recovered")

    def __init__(self) -> None:
        super().__init__()
        self.read: set[int] = set()
        self.recovered: set[int] = set()

    def add(self, segment: WritableSegment) -> WritableSegment | None:
        def watched(read: Callable[..., Any]) -> Callable[..., Any]:
            def noting(*args: Any, **options: Any) -> Any:
                self.read.add(segment.base_offset)
                return read(*args, **options)

            return noting

        segment.read = watched(segment.read)
        segment.read_next_offset = watched(segment.read_next_offset)
        return super().add(segment)


def load(
    bench: LogBench,
    config: LogConfig,
    segments: LogSegments[WritableSegment],
    *,
    recovery_point: int = 0,
    was_clean: bool = False,
    producers: ProducerStateManager | None = None,
) -> UnifiedLog:
    """Load a log with parts of one's own."""
    bench.folder.mkdir(exist_ok=True)
    folder = WritableLogFolder(bench.folder, PARTITION, config, bench.scheduler, bench.clock)
    epochs = LeaderEpochFileCache(PARTITION, LogEpochCheckpoint(folder), bench.scheduler)
    if producers is None:
        producers = ProducerStateManager(PARTITION, bench.folder, 5 * MINUTE, clock=bench.clock)
    loader = LogLoader(
        *(folder, was_clean, segments),
        *(0, recovery_point, epochs, producers, OUR_LOADING_RULES),
    )
    offsets = loader.load()
    if isinstance(segments, WatchedSegments):
        segments.recovered = loader.recovered
    local = LocalLog(folder, segments, offsets.recovery_point, offsets.next_offset_metadata)
    return UnifiedLog(
        *(local, epochs, producers, offsets.log_start_offset),
        producer_id_expiration_check_interval_ms=10 * MINUTE,
    )


@pytest.mark.conformance("LogLoaderTest.testProducerSnapshotsRecoveryAfterUncleanShutdown")
def test_producer_snapshots_recovery_after_unclean_shutdown(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=640)
    log = bench.open(config)
    assert log.producer_state.snapshots.oldest is None
    for number in range(101):
        log.append_as_leader(one(str(number), bench.now), 0)
    assert len(log.segments) >= 5
    bases = [segment.base_offset for segment in log.segments]
    recovered_from, after = bases[-4], bases[-3]
    before = {base for base in bases if base < recovered_from}
    recovered = set(bases) - before
    recovery_point = recovered_from + 1
    assert recovery_point < after
    snapshots = {*bases[-4:], log.log_end_offset}
    log.close()

    # The recovery point is behind the snapshots that are left: all segments have to be read.
    log.producer_state.snapshots.delete_before(bases[-2])
    watched = WatchedSegments()
    log = load(bench, config, watched, recovery_point=recovered_from)
    assert watched.read == before | {bases[-1]}
    assert watched.recovered == recovered
    assert set(bench.snapshot_offsets) == snapshots
    log.close()

    # There is a snapshot where the recovery begins: nothing before it has to be read.
    log.producer_state.snapshots.delete_before(recovered_from)
    watched = WatchedSegments()
    log = load(bench, config, watched, recovery_point=recovery_point)
    assert watched.read == {bases[-1]}
    assert watched.recovered == recovered
    assert set(bench.snapshot_offsets) == snapshots
    log.close()


class MockedProducers:
    """A producer state manager that does nothing, and its properties."""

    def __init__(self) -> None:
        kind = type("Producers", (Mock,), {})
        self.properties = {
            name: PropertyMock(return_value=value)
            for name, value in (
                ("is_empty", True),
                ("map_end_offset", 0),
                ("latest_snapshot_offset", None),
                ("first_unstable_offset", None),
            )
        }
        for name, each in self.properties.items():
            setattr(kind, name, each)
        self.manager: Any = kind(spec=ProducerStateManager)
        self.manager.config = ProducerStateManagerConfig(300_000)
        self.manager.max_transaction_timeout_ms = MINUTE

    def forget_calls(self) -> None:
        self.manager.reset_mock()


@pytest.mark.conformance("LogLoaderTest.testSkipLoadingIfEmptyProducerStateBeforeTruncation")
def test_skip_loading_if_empty_producer_state_before_truncation(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    mocked = MockedProducers()
    manager = mocked.manager
    log = load(bench, LogConfig(), LogSegments(), producers=manager)
    assert manager.update_map_end_offset.mock_calls == [call(0)]
    manager.remove_stray_snapshots.assert_called_once()
    manager.take_snapshot.assert_called_once()
    manager.truncate_and_reload.assert_called_once_with(0, 0, ANY)

    mocked.forget_calls()
    log.append_as_leader(one("a"), 0)
    log.append_as_leader(one("b"), 0)
    assert manager.update_map_end_offset.mock_calls == [call(1), call(2)]

    mocked.forget_calls()
    log.truncate_to(1)
    manager.truncate_and_reload.assert_called_once_with(0, 1, ANY)
    assert call(1) in manager.update_map_end_offset.mock_calls
    assert manager.take_snapshot.call_count == 2
    log.close_handlers()


@pytest.mark.conformance("LogLoaderTest.testRecoverAfterNonMonotonicCoordinatorEpochWrite")
def test_recover_after_non_monotonic_coordinator_epoch_write(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=1024 * 1024 * 5)
    log = bench.open(config)
    first = bench.now
    end_txn(log, 1, 0, ABORT, first, coordinator_epoch=5)
    entry = log.producer_state.last_entry(1)
    assert entry is not None
    assert entry.last_timestamp == first

    bench.clock.sleep(ProducerStateManagerConfig().producer_id_expiration_ms)
    assert log.producer_state.last_entry(1) is None

    second = bench.now
    end_txn(log, 1, 0, ABORT, second, coordinator_epoch=4)
    log.close()
    log = bench.open(config, recovery_point=0, last_shutdown_clean=False)
    entry = log.producer_state.last_entry(1)
    assert entry is not None
    assert entry.last_timestamp == second
    log.close()


@pytest.mark.conformance(
    "LogLoaderTest.testSkipTruncateAndReloadIfNewMessageFormatAndCleanShutdown"
)
def test_skip_truncate_and_reload_if_new_message_format_and_clean_shutdown(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    mocked = MockedProducers()
    manager = mocked.manager
    log = load(bench, LogConfig(), LogSegments(), was_clean=True, producers=manager)
    manager.remove_stray_snapshots.assert_called_once()
    assert manager.update_map_end_offset.mock_calls == [call(0), call(0)]
    assert manager.take_snapshot.call_count == 2
    mocked.properties["is_empty"].assert_called_once()
    mocked.properties["first_unstable_offset"].assert_called_once()
    manager.truncate_and_reload.assert_not_called()
    log.close_handlers()


def sequences(log: UnifiedLog) -> dict[int, int]:
    return {
        number: entry.last_sequence for number, entry in log.producer_state.active_producers.items()
    }


def of_one(producer_id: int, sequence: int, bench: LogBench) -> Any:
    return of_producer(producer_id, sequence, rec("a", bench.now))


@pytest.mark.conformance("LogLoaderTest.testLoadProducersAfterDeleteRecordsMidSegment")
def test_load_producers_after_delete_records_mid_segment(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=2048 * 5)
    log = bench.open(config)
    log.append_as_leader(of_one(1, 0, bench), 0)
    log.append_as_leader(of_one(2, 0, bench), 0)
    assert len(sequences(log)) == 2
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(1, "client record deletion")
    assert sequences(log) == {1: 0, 2: 0}
    log.close()

    reloaded = bench.open(config, log_start_offset=1, last_shutdown_clean=False)
    assert sequences(reloaded) == {1: 0, 2: 0}, "the snapshot is still there"
    reloaded.close()


@pytest.mark.conformance("LogLoaderTest.testLoadingLogKeepsLargestStrayProducerStateSnapshot")
def test_loading_log_keeps_largest_stray_producer_state_snapshot(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(
        segment_size=2048 * 5, retention_size=0, retention_ms=MINUTE, file_delete_delay_ms=0
    )
    log = bench.open(config)
    for sequence in range(4):
        log.append_as_leader(of_producer(1, sequence, rec("abcd"[sequence])), 0)
        if sequence < 2:
            log.roll()
    log.close()
    assert len(log.segments) == 3
    assert bench.snapshot_offsets == [1, 2, 4]
    (bench.folder / producer_snapshot_name(3)).touch()
    assert bench.snapshot_offsets == [1, 2, 3, 4]

    bench.open(config, last_shutdown_clean=False).close()
    assert bench.snapshot_offsets == [1, 2, 4]


@pytest.mark.conformance("LogLoaderTest.testLoadProducersAfterDeleteRecordsOnSegment")
def test_load_producers_after_delete_records_on_segment(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=2048 * 5)
    log = bench.open(config)
    log.append_as_leader(of_one(1, 0, bench), 0)
    log.roll()
    log.append_as_leader(of_one(2, 0, bench), 0)
    assert len(log.segments) == 2
    assert len(sequences(log)) == 2
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(1, "client record deletion")
    log.delete_old_segments()
    assert len(log.segments) == 1
    assert sequences(log) == {1: 0, 2: 0}
    log.close()

    reloaded = bench.open(config, log_start_offset=1, last_shutdown_clean=False)
    assert sequences(reloaded) == {2: 0}
    reloaded.close()


@pytest.mark.conformance("LogLoaderTest.testLogRecoversForLeaderEpoch")
def test_log_recovers_for_leader_epoch(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    for offset, epoch in enumerate((1, 2, 2, 3)):
        batch = records_of(rec("random"), base_offset=offset, partition_leader_epoch=epoch)
        log.append_as_follower(batch, MAX_INT32)
    entries = [EpochEntry(1, 0), EpochEntry(2, 1), EpochEntry(3, 3)]
    assert log.leader_epoch_cache.epoch_entries == entries
    log.leader_epoch_cache.truncate_from_end_async_flush(2)
    assert log.leader_epoch_cache.epoch_entries != entries
    log.close()

    recovered = bench.open(last_shutdown_clean=False)
    assert recovered.leader_epoch_cache.epoch_entries == entries
    recovered.close()


def log_with_transactions(bench: LogBench) -> UnifiedLog:
    """Four producers, of whose transactions two are aborted, among records of no producer."""
    log = bench.open(LogConfig(segment_size=128 * 5))
    of_1, of_2, of_3, of_4 = (producer(log, number, 0, bench.now) for number in (1, 2, 3, 4))
    of_1(5)
    append_plain(log, 3)
    of_2(2)
    of_1(4)
    of_3(3)
    append_plain(log, 2)
    of_1(10)
    end_txn(log, 1, 0, ABORT, bench.now)
    of_2(6)
    of_4(3)
    append_plain(log, 10)
    of_3(9)
    end_txn(log, 3, 0, COMMIT, bench.now)
    of_4(8)
    of_2(7)
    end_txn(log, 2, 0, ABORT, bench.now)
    append_plain(log, 10)
    of_4(4)
    end_txn(log, 4, 0, COMMIT, bench.now)
    assert log.log_end_offset == 90
    return log


ABORTED = [AbortedTxn(0, 1, 0, 29, 8), AbortedTxn(0, 2, 8, 74, 36)]
RELOADED = LogConfig(segment_size=1024 * 5)


def assert_same_transactions(bench: LogBench, recovery_point: int) -> None:
    log = bench.open(RELOADED, recovery_point=recovery_point, last_shutdown_clean=False)
    assert aborted_transactions(log) == ABORTED
    log.close()


@pytest.mark.conformance("LogLoaderTest.testFullTransactionIndexRecovery")
def test_full_transaction_index_recovery(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = log_with_transactions(bench)
    assert aborted_transactions(log) == ABORTED
    for segment in log.segments:
        segment.offset_index.delete_if_exists()
        segment.txn_index.delete_if_exists()
    log.close()
    assert_same_transactions(bench, 0)


def delete_last_indexes(log: UnifiedLog) -> int:
    """Close a log without the last segment's indexes; that segment's base offset."""
    last = log.segments[-1]
    last.offset_index.delete_if_exists()
    last.txn_index.delete_if_exists()
    log.close()
    return last.base_offset


@pytest.mark.conformance("LogLoaderTest.testRecoverOnlyLastSegment")
def test_recover_only_last_segment(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    recovery_point = delete_last_indexes(log_with_transactions(bench))
    assert_same_transactions(bench, recovery_point)


@pytest.mark.conformance("LogLoaderTest.testRecoverLastSegmentWithNoSnapshots")
def test_recover_last_segment_with_no_snapshots(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = log_with_transactions(bench)
    for name in bench.names(".snapshot"):
        (bench.folder / name).unlink()
    assert_same_transactions(bench, delete_last_indexes(log))


@pytest.mark.conformance(
    "LogLoaderTest.testCorruptedLogRecoveryDoesNotDeleteProducerStateSnapshotsPostRecovery"
)
def test_corrupted_log_recovery_does_not_delete_producer_state_snapshots_post_recovery(
    tmp_path: Path,
) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig()
    log = bench.open(config)
    for number in range(9):
        log.append_as_leader(one(str(number), bench.now), 0)
        log.roll()
    assert len(log.segments) == 10
    assert (log.log_start_offset, log.active_segment.base_offset, log.log_end_offset) == (0, 9, 9)
    assert bench.snapshot_offsets == list(range(1, 10))

    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(4, "client record deletion")
    assert (log.log_start_offset, log.log_end_offset) == (4, 9)
    damaged = log.segments[1]
    assert damaged.base_offset == 1
    Path(damaged.log.path).write_text("corruptRecord")
    log.close()

    # The damaged segment is cut and those after it go; what is left is below the log start and goes too.
    log = bench.open(config, log_start_offset=4, last_shutdown_clean=False)
    assert len(log.segments) == 1
    assert (log.log_start_offset, log.active_segment.base_offset, log.log_end_offset) == (4, 4, 4)
    assert [offset for offset in bench.snapshot_offsets if offset < 5] == []
    known = log.producer_state.snapshots.get
    assert [offset for offset in range(1, 5) if known(offset) is not None] == []

    for number in range(5):
        log.append_as_leader(one(str(number), bench.now), 0)
        log.roll()
    assert (log.active_segment.base_offset, log.log_end_offset) == (9, 9)
    assert bench.snapshot_offsets == list(range(5, 10))

    # Now what the recovery deleted is removed, and not what bears the same names since.
    bench.clock.sleep(config.file_delete_delay_ms)
    assert (log.log_start_offset, log.log_end_offset) == (4, 9)
    assert bench.snapshot_offsets == list(range(5, 10))
    assert [offset for offset in range(5, 10) if known(offset) is None] == []
    assert not bench.names(".deleted")
    log.close()
