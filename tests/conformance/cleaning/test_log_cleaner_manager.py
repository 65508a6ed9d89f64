"""What Kafka's LogCleanerManagerTest asks: what may be cleaned, what is checkpointed, who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.broker.cleaning.cleaner_checkpoints import CleanerCheckpoints
from engine.broker.cleaning.cleaner_state import CleanerState
from engine.broker.cleaning.log_to_clean import OffsetsToClean, cleanable_offsets
from engine.broker.log.unified_log import UnifiedLog
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import (
    end_transaction_marker,
    records_of,
)
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.state.append_origin import AppendOrigin
from tests.clocks import MockClock, MockScheduler

PARTITION = TopicPartition("log", 0)
OTHER = TopicPartition("log2", 0)
FOO = TopicPartition("foo", 0)
OFFSET = 999
HOUR = 60 * 60 * 1000
FIVE_TESTS = 5 * records_of(SimpleRecord(b"test", b"test")).size


class RememberedCheckpoints(CleanerCheckpoints):
    """Checkpoints in memory."""

    def __init__(self, offsets: dict[TopicPartition, int]) -> None:
        super().__init__([], {})
        self.offsets = offsets

    def all(self):
        return self.offsets

    def update(self, log_dir, *, update=None, remove=None):
        assert remove is None
        assert update is not None
        self.offsets[update[0]] = update[1]


class ManagerBench:
    """Two log dirs on a clock that moves on by a second with each look."""

    def __init__(self, tmp_path: Path) -> None:
        self.log_dir, self.log_dir2 = tmp_path / "one", tmp_path / "two"
        for folder in (self.log_dir, self.log_dir2):
            folder.mkdir()
        self.clock = MockClock(1_400_000_000_000, 1000)
        self.scheduler = MockScheduler(self.clock)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    def create_log(
        self, segment_size: int, partition: TopicPartition = PARTITION, *, compact: bool = True
    ) -> UnifiedLog:
        """A log that keeps nothing for long."""
        config = LogConfig(
            segment_size=segment_size,
            retention_ms=1,
            compact=compact,
            delete=not compact,
            min_cleanable_ratio=0.05,
        )
        return self.open(f"{partition.topic}-{partition.partition}", config)

    def make_log(self, **config: int) -> UnifiedLog:
        """A compacted log of small segments."""
        small = {"segment_size": 1024, "max_index_size": 1024, "compact": True, "delete": False}
        return self.open("log-0", LogConfig(**{**small, **config}))

    def open(self, name: str, config: LogConfig) -> UnifiedLog:
        return UnifiedLog.create(
            self.log_dir / name,
            config,
            self.scheduler,
            clock=self.clock,
            max_transaction_timeout_ms=5 * 60 * 1000,
        )

    def state_of(self, log: UnifiedLog) -> CleanerState:
        return CleanerState([self.log_dir, self.log_dir2], {PARTITION: log})

    def remembering(
        self, logs: dict[TopicPartition, UnifiedLog], **checkpoints: int
    ) -> CleanerState:
        known = {TopicPartition(topic, 0): offset for topic, offset in checkpoints.items()}
        state = CleanerState([self.log_dir], logs)
        state.checkpoints = RememberedCheckpoints(known)
        return state

    def increasingly_filthy(
        self, partitions: Iterable[TopicPartition], batches: int = 20
    ) -> dict[TopicPartition, UnifiedLog]:
        """Logs of a batch a record, five a segment, each log with five more than the one before."""
        logs = {}
        for partition in partitions:
            log = logs[partition] = self.create_log(2048, partition)
            for place in range(batches):
                self.append(log, 1)
                if place % 5 == 0:
                    log.roll()
            log.roll()
            batches += 5
        return logs

    def append(self, log: UnifiedLog, count: int) -> None:
        start = log.log_end_offset
        records = [
            SimpleRecord(b"key-%d" % offset, b"value-%d" % offset, self.now)
            for offset in range(start, start + count)
        ]
        log.append_as_leader(records_of(*records), 1)
        log.maybe_increment_high_watermark(log.local_log.log_end_offset_metadata)

    def append_until(self, log: UnifiedLog, segments: int, timestamp: int | None = None) -> None:
        while len(log.segments) < segments:
            text = str(log.log_end_offset).encode()
            at = self.now if timestamp is None else timestamp
            log.append_as_leader(records_of(SimpleRecord(text, text, at)), 0)


@pytest.fixture
def bench(tmp_path) -> ManagerBench:
    return ManagerBench(tmp_path)


def raise_log_start(log: UnifiedLog, to: int) -> None:
    log.maybe_increment_log_start_offset(to, "a client deleted records")


@pytest.mark.conformance("LogCleanerManagerTest.testDirtyOffsetResetIfLargerThanEndOffset")
def test_dirty_offset_reset_if_larger_than_end_offset(bench):
    state = bench.remembering(bench.increasingly_filthy([FOO]), foo=200)
    filthiest = state.grab_filthiest_compacted_log(bench.now)
    assert filthiest.first_dirty_offset == 0


@pytest.mark.conformance("LogCleanerManagerTest.testDirtyOffsetResetIfSmallerThanStartOffset")
def test_dirty_offset_reset_if_smaller_than_start_offset(bench):
    logs = bench.increasingly_filthy([FOO])
    raise_log_start(logs[FOO], 10)
    filthiest = bench.remembering(logs, foo=0).grab_filthiest_compacted_log(bench.now)
    assert filthiest.first_dirty_offset == 10


@pytest.mark.conformance(
    "LogCleanerManagerTest.testLogStartOffsetLargerThanActiveSegmentBaseOffset"
)
def test_log_start_offset_larger_than_active_segment_base_offset(bench):
    log = bench.create_log(2048, FOO)
    for _ in range(3):
        bench.append(log, 3)
    assert len(log.segments) == 1
    raise_log_start(log, 2)
    state = bench.remembering({FOO: log}, foo=0)
    assert state.grab_filthiest_compacted_log(bench.now) is None


@pytest.mark.conformance("LogCleanerManagerTest.testDirtyOffsetLargerThanActiveSegmentBaseOffset")
def test_dirty_offset_larger_than_active_segment_base_offset(bench):
    log = bench.create_log(2048, FOO)
    for _ in range(2):
        bench.append(log, 3)
    assert [segment.base_offset for segment in log.segments] == [0]
    state = bench.remembering({FOO: log}, foo=3)
    assert state.grab_filthiest_compacted_log(bench.now) is None


@pytest.fixture
def checkpointed(bench) -> CleanerState:
    """The state of a log that was cleaned up to OFFSET."""
    state = bench.state_of(bench.create_log(FIVE_TESTS))
    state.checkpoints.update(bench.log_dir, update=(PARTITION, OFFSET))
    assert state.checkpoints.all() == {PARTITION: OFFSET}
    return state


@pytest.mark.conformance("LogCleanerManagerTest.testUpdateCheckpointsShouldAddOffsetToPartition")
def test_update_checkpoints_should_add_offset_to_partition(bench):
    state = bench.state_of(bench.create_log(FIVE_TESTS))
    assert state.checkpoints.all() == {}
    state.checkpoints.update(bench.log_dir, update=(PARTITION, OFFSET))
    assert state.checkpoints.all()[PARTITION] == OFFSET
    assert (bench.log_dir / "cleaner-offset-checkpoint").read_text() == f"0\n1\nlog 0 {OFFSET}\n"


@pytest.mark.conformance("LogCleanerManagerTest.testUpdateCheckpointsShouldRemovePartitionData")
def test_update_checkpoints_should_remove_partition_data(bench, checkpointed):
    checkpointed.checkpoints.update(bench.log_dir, remove=PARTITION)
    assert PARTITION not in checkpointed.checkpoints.all()


@pytest.mark.conformance("LogCleanerManagerTest.testMaybeTruncateCheckpointShouldTruncateData")
def test_maybe_truncate_checkpoint_should_truncate_data(bench, checkpointed):
    checkpointed.checkpoints.maybe_truncate(bench.log_dir, PARTITION, 1000)
    assert checkpointed.checkpoints.all()[PARTITION] == OFFSET
    checkpointed.checkpoints.maybe_truncate(bench.log_dir, PARTITION, 1)
    assert checkpointed.checkpoints.all()[PARTITION] == 1


@pytest.mark.conformance(
    "LogCleanerManagerTest.testAlterCheckpointDirShouldRemoveDataInSrcDirAndAddInNewDir"
)
def test_alter_checkpoint_dir_should_remove_data_in_src_dir_and_add_in_new_dir(bench, checkpointed):
    checkpointed.alter_checkpoint_dir(PARTITION, bench.log_dir, bench.log_dir2)
    assert checkpointed.checkpoints.all()[PARTITION] == OFFSET
    # Without the second log dir it is gone, so it is in no other.
    checkpointed.checkpoints.forget(bench.log_dir2)
    assert PARTITION not in checkpointed.checkpoints.all()


@pytest.mark.conformance("LogCleanerManagerTest.testConcurrentLogCleanupAndLogTruncation")
def test_concurrent_log_cleanup_and_log_truncation(bench):
    state = bench.state_of(bench.create_log(FIVE_TESTS, compact=False))
    paused = state.pause_cleaning_for_non_compacted_partitions()
    assert list(paused) == [PARTITION]
    # The log is truncated meanwhile.
    state.abort_and_pause_cleaning(PARTITION)
    state.resume_cleaning([PARTITION])
    state.resume_cleaning(paused)
    assert state.cleaning_state(PARTITION) is None


@pytest.mark.conformance("LogCleanerManagerTest.testConcurrentLogCleanupAndTopicDeletion")
def test_concurrent_log_cleanup_and_topic_deletion(bench):
    state = bench.state_of(bench.create_log(FIVE_TESTS, compact=False))
    paused = state.pause_cleaning_for_non_compacted_partitions()
    assert list(paused) == [PARTITION]
    # The topic is deleted meanwhile.
    state.abort_cleaning(PARTITION)
    state.resume_cleaning(paused)
    assert state.cleaning_state(PARTITION) is None


@pytest.mark.conformance("LogCleanerManagerTest.testCleanableOffsetsForNone")
def test_cleanable_offsets_for_none(bench):
    log = bench.make_log()
    bench.append_until(log, 8)
    log.update_high_watermark(50)
    found = cleanable_offsets(log, 0, bench.now)
    assert log.last_stable_offset == log.high_watermark == 50
    assert found == OffsetsToClean(0, 50, False)


@pytest.mark.conformance("LogCleanerManagerTest.testCleanableOffsetsActiveSegment")
def test_cleanable_offsets_active_segment(bench):
    log = bench.make_log()
    bench.append_until(log, 8)
    log.update_high_watermark(log.log_end_offset)
    found = cleanable_offsets(log, 0, bench.now)
    assert found == OffsetsToClean(0, log.active_segment.base_offset, False)


@pytest.mark.conformance("LogCleanerManagerTest.testCleanableOffsetsForTime")
def test_cleanable_offsets_for_time(bench):
    log = bench.make_log(min_compaction_lag_ms=HOUR)
    bench.append_until(log, 4, bench.now)
    active_then = log.active_segment
    bench.clock.sleep(HOUR + 1)
    bench.append_until(log, 8, bench.now)
    log.update_high_watermark(log.log_end_offset)
    found = cleanable_offsets(log, 0, bench.now)
    assert found == OffsetsToClean(0, active_then.base_offset, False)


@pytest.mark.conformance("LogCleanerManagerTest.testCleanableOffsetsForShortTime")
def test_cleanable_offsets_for_short_time(bench):
    log = bench.make_log(min_compaction_lag_ms=HOUR)
    bench.append_until(log, 8, bench.now)
    log.update_high_watermark(log.log_end_offset)
    bench.clock.sleep(HOUR + 1)
    found = cleanable_offsets(log, 0, bench.now)
    assert found == OffsetsToClean(0, log.active_segment.base_offset, False)


@pytest.mark.conformance("LogCleanerManagerTest.testCleanableOffsetsNeedsCheckpointReset")
def test_cleanable_offsets_needs_checkpoint_reset(bench):
    log = bench.increasingly_filthy([FOO])[FOO]
    raise_log_start(log, 10)
    assert not cleanable_offsets(log, 15, bench.now).force_update_checkpoint
    raise_log_start(log, 20)
    assert cleanable_offsets(log, 15, bench.now).force_update_checkpoint
    assert cleanable_offsets(log, 25, bench.now).force_update_checkpoint


@pytest.mark.conformance("LogCleanerManagerTest.testUndecidedTransactionalDataNotCleanable")
def test_undecided_transactional_data_not_cleanable(bench):
    log = bench.make_log(min_compaction_lag_ms=HOUR)
    for sequence, keys in ((0, b"12"), (2, b"3")):
        records = [SimpleRecord(bytes([key]), b"a", bench.now) for key in keys]
        log.append_as_leader(
            records_of(
                *records,
                producer_id=15,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=True,
            ),
            0,
        )
    log.roll()
    log.update_high_watermark(3)
    bench.clock.sleep(HOUR + 1)
    # Old enough, but undecided.
    assert cleanable_offsets(log, 0, bench.now)[:2] == (0, 0)
    marker = end_transaction_marker(
        EndTransactionMarker(ControlRecordType.ABORT, 15),
        producer_id=15,
        producer_epoch=0,
        timestamp=bench.now,
    )
    log.append_as_leader(marker, 0, AppendOrigin.COORDINATOR, transaction_version=0)
    log.roll()
    log.update_high_watermark(4)
    assert cleanable_offsets(log, 0, bench.now)[:2] == (0, 3)
    bench.clock.sleep(HOUR + 1)
    assert cleanable_offsets(log, 0, bench.now)[:2] == (0, 4)
