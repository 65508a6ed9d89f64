"""What Kafka's UnifiedLogTest asks of transactions: first unstable offset, transaction index, markers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import (
    InvalidProducerEpochError,
    LogDirFailureError,
    TransactionCoordinatorFencedError,
)
from engine.index.transaction_index import AbortedTxn
from engine.log.segment.fetch import FetchIsolation, is_offset_only
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.writing.log_config import LogConfig
from tests.conformance.unified_log_steps import (
    ABORT,
    COMMIT,
    LogBench,
    aborted_transactions,
    append_as_follower,
    append_plain,
    assert_is_placed,
    batches_at,
    end_txn,
    joined,
    of_producer,
    producer,
    rec,
    recs,
)

FIVE_MIB = 5 * 1024 * 1024


def transactional(producer_id: int, sequence: int, texts: str) -> MemoryRecords:
    return of_producer(producer_id, sequence, *recs(texts), epoch=5, is_transactional=True)


@pytest.mark.conformance("UnifiedLogTest.testFirstUnstableOffsetNoTransactionalData")
def test_first_unstable_offset_no_transactional_data(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=FIVE_MIB)
    log.append_as_leader(records_of(*recs("abc")), 0)
    assert log.watermarks.first_unstable_offset is None


@pytest.mark.conformance("UnifiedLogTest.testFirstUnstableOffsetWithTransactionalData")
def test_first_unstable_offset_with_transactional_data(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=FIVE_MIB)
    first = log.append_as_leader(transactional(137, 0, "abc"), 0).first_offset
    assert log.watermarks.first_unstable_offset == first
    log.append_as_leader(transactional(137, 3, "d"), 0)
    assert log.watermarks.first_unstable_offset == first
    committed = end_txn(log, 137, 5, COMMIT, bench.now)
    assert log.watermarks.first_unstable_offset == first, "the marker is not replicated yet"
    log.update_high_watermark(committed.last_offset + 1)
    assert log.watermarks.first_unstable_offset is None


EXPECTED_ABORTED = [AbortedTxn(0, 1, 0, 29, 8), AbortedTxn(0, 2, 8, 74, 36)]


def check_first_unstable_offsets(log: UnifiedLog) -> None:
    """As the high watermark passes the markers; the places are known without a look-up."""
    for high_watermark, expected in ((30, 8), (75, 36)):
        log.update_high_watermark(high_watermark)
        found = log.producer_state.first_unstable_offset
        assert found is not None
        assert found.offset == expected
        assert not is_offset_only(found)
        assert_is_placed(log, found)
    log.update_high_watermark(log.log_end_offset)
    assert log.watermarks.first_unstable_offset is None


@pytest.mark.conformance("UnifiedLogTest.testTransactionIndexUpdated")
def test_transaction_index_updated(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=FIVE_MIB)
    first, second, third, fourth = (producer(log, number, 0, bench.now) for number in range(1, 5))
    first(5)
    append_plain(log, 3)
    second(2)
    first(4)
    third(3)
    append_plain(log, 2)
    first(10)
    end_txn(log, 1, 0, ABORT, bench.now)
    second(6)
    fourth(3)
    append_plain(log, 10)
    third(9)
    end_txn(log, 3, 0, COMMIT, bench.now)
    fourth(8)
    second(7)
    end_txn(log, 2, 0, ABORT, bench.now)
    append_plain(log, 10)
    fourth(4)
    end_txn(log, 4, 0, COMMIT, bench.now)
    assert log.log_end_offset == 90
    assert aborted_transactions(log) == EXPECTED_ABORTED
    check_first_unstable_offsets(log)


class Leader:
    """Makes the batches that a leader would send: offsets and sequences go on by themselves."""

    def __init__(self, timestamp: int, leader_epoch: int = 0) -> None:
        self.parts: list[MemoryRecords] = []
        self._timestamp = timestamp
        self._leader_epoch = leader_epoch
        self._sequences: dict[int, int] = {}
        self._end = 0

    @property
    def records(self) -> MemoryRecords:
        return joined(*self.parts)

    def _add(self, count: int, make: Callable[..., MemoryRecords]) -> None:
        records = make(base_offset=self._end, partition_leader_epoch=self._leader_epoch)
        self.parts.append(records)
        self._end += count

    def plain(self, count: int) -> None:
        records = [rec(str(number)) for number in range(count)]
        self._add(count, lambda **options: records_of(*records, **options))

    def transactional(self, producer_id: int, count: int) -> None:
        sequence = self._sequences.get(producer_id, 0)
        records = [rec(str(number)) for number in range(sequence, sequence + count)]
        self._sequences[producer_id] = sequence + count
        self._add(
            count,
            lambda **options: of_producer(
                producer_id, sequence, *records, is_transactional=True, **options
            ),
        )

    def marker(self, producer_id: int, kind: ControlRecordType) -> None:
        self._add(
            1,
            lambda **options: end_transaction_marker(
                EndTransactionMarker(kind, 0),
                producer_id=producer_id,
                producer_epoch=0,
                timestamp=self._timestamp,
                **options,
            ),
        )


@pytest.mark.conformance("UnifiedLogTest.testTransactionIndexUpdatedThroughReplication")
def test_transaction_index_updated_through_replication(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=FIVE_MIB)
    leader = Leader(bench.now)
    leader.transactional(1, 5)
    leader.plain(3)
    leader.transactional(2, 2)
    leader.transactional(1, 4)
    leader.transactional(3, 3)
    leader.plain(2)
    leader.transactional(1, 10)
    leader.marker(1, ABORT)
    leader.transactional(2, 6)
    leader.transactional(4, 3)
    leader.plain(10)
    leader.transactional(3, 9)
    leader.marker(3, COMMIT)
    leader.transactional(4, 8)
    leader.transactional(2, 7)
    leader.marker(2, ABORT)
    leader.plain(10)
    leader.transactional(4, 4)
    leader.marker(4, COMMIT)
    append_as_follower(log, leader.records, 0)
    assert log.log_end_offset == 90
    assert aborted_transactions(log) == EXPECTED_ABORTED
    check_first_unstable_offsets(log)


@pytest.mark.conformance("UnifiedLogTest.testZombieCoordinatorFenced")
def test_zombie_coordinator_fenced(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=FIVE_MIB)
    append = producer(log, 1, 0, bench.now)
    append(10)
    end_txn(log, 1, 0, ABORT, bench.now, coordinator_epoch=1)
    append(5)
    end_txn(log, 1, 0, COMMIT, bench.now, coordinator_epoch=2)
    end = log.log_end_offset
    with pytest.raises(TransactionCoordinatorFencedError):
        end_txn(log, 1, 0, ABORT, bench.now, coordinator_epoch=1)
    assert log.log_end_offset == end


@pytest.mark.conformance("UnifiedLogTest.testZombieCoordinatorFencedEmptyTransaction")
def test_zombie_coordinator_fenced_empty_transaction(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=FIVE_MIB)
    # Kafka's steps stamp the data with leader epoch 1 and append it at epoch 0, which leaves it out:
    # the log is empty when the first marker comes.
    leader = Leader(bench.now, leader_epoch=1)
    leader.transactional(1, 10)
    leader.marker(1, COMMIT)
    log.append_as_follower(leader.records, 0)
    for _ in range(2):
        end_txn(log, 1, 0, ABORT, bench.now, coordinator_epoch=2, leader_epoch=1)
    with pytest.raises(TransactionCoordinatorFencedError):
        end_txn(log, 1, 0, ABORT, bench.now, coordinator_epoch=1, leader_epoch=1)


@pytest.mark.conformance("UnifiedLogTest.testEndTxnWithFencedProducerEpoch")
def test_end_txn_with_fenced_producer_epoch(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=FIVE_MIB)
    end_txn(log, 1, 5, ABORT, bench.now, coordinator_epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        end_txn(log, 1, 4, ABORT, bench.now, coordinator_epoch=1)
    assert log.log_end_offset == 1


def open_transaction_over_two_segments(bench: LogBench) -> UnifiedLog:
    log = bench.log(segment_size=FIVE_MIB)
    append = producer(log, 1, 0, bench.now)
    append(5)
    append_plain(log, 3)
    assert log.log_end_offset == 8
    log.roll()
    assert len(log.segments) == 2
    append(5)
    assert log.watermarks.first_unstable_offset == 0
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.conformance("UnifiedLogTest.testLastStableOffsetDoesNotExceedLogStartOffsetMidSegment")
def test_last_stable_offset_does_not_exceed_log_start_offset_mid_segment(tmp_path: Path) -> None:
    log = open_transaction_over_two_segments(LogBench(tmp_path))
    log.maybe_increment_log_start_offset(5, "a client deleted records")
    assert log.watermarks.first_unstable_offset == 5


@pytest.mark.conformance(
    "UnifiedLogTest.testLastStableOffsetDoesNotExceedLogStartOffsetAfterSegmentDeletion"
)
def test_last_stable_offset_does_not_exceed_log_start_offset_after_segment_deletion(
    tmp_path: Path,
) -> None:
    log = open_transaction_over_two_segments(LogBench(tmp_path))
    log.maybe_increment_log_start_offset(8, "a client deleted records")
    log.update_high_watermark(log.log_end_offset)
    log.delete_old_segments()
    assert len(log.segments) == 1
    assert log.watermarks.first_unstable_offset == 8


def break_transaction_index(log: UnifiedLog) -> None:
    """Let it lie where a folder is, so that it cannot be opened."""
    log.active_segment.txn_index.rename_to(log.folder)


@pytest.mark.conformance("UnifiedLogTest.testAppendToTransactionIndexFailure")
def test_append_to_transaction_index_failure(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    config = LogConfig(segment_size=FIVE_MIB)
    log = bench.open(config)
    producer(log, 1, 0, bench.now)(10)
    break_transaction_index(log)
    for _ in range(2):
        with pytest.raises(LogDirFailureError):
            end_txn(log, 1, 0, ABORT, bench.now, coordinator_epoch=1)
        assert (log.log_end_offset, log.last_stable_offset) == (11, 0)
    log.update_high_watermark(12)
    assert log.last_stable_offset == 0
    with pytest.raises(LogDirFailureError):
        log.close()

    reopened = bench.open(config, last_shutdown_clean=False)
    assert reopened.log_end_offset == 11
    assert len(reopened.active_segment.txn_index.all_aborted_txns()) == 1
    reopened.update_high_watermark(12)
    assert reopened.watermarks.first_unstable_offset is None


@pytest.mark.conformance("UnifiedLogTest.testAppendToOrReadFromLogInFailedLogDir")
def test_append_to_or_read_from_log_in_failed_log_dir(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    null = records_of(SimpleRecord())
    log.append_as_leader(null, 0)
    assert next(log.read(0, 4096).records.records()).offset == 0
    producer(log, 1, 0, bench.now)(10)
    break_transaction_index(log)
    with pytest.raises(LogDirFailureError):
        end_txn(log, 1, 0, ABORT, bench.now, coordinator_epoch=1)
    with pytest.raises(LogDirFailureError):
        log.append_as_leader(null, 0)
    with pytest.raises(LogDirFailureError):
        batches_at(log, 0, 4096)


@pytest.mark.conformance("UnifiedLogTest.testLastStableOffsetWithMixedProducerData")
def test_last_stable_offset_with_mixed_producer_data(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=FIVE_MIB)
    first = log.append_as_leader(transactional(137, 0, "abc"), 0).first_offset
    assert log.watermarks.first_unstable_offset == first
    log.append_as_leader(records_of(*recs("ghi")), 0)
    second = log.append_as_leader(transactional(983, 0, "def"), 0).first_offset
    assert log.watermarks.first_unstable_offset == first
    aborted = end_txn(log, 137, 5, ABORT, bench.now)
    log.update_high_watermark(aborted.last_offset + 1)
    assert log.watermarks.first_unstable_offset == second
    committed = end_txn(log, 983, 5, COMMIT, bench.now)
    log.update_high_watermark(committed.last_offset + 1)
    assert log.watermarks.first_unstable_offset is None


@pytest.mark.conformance("UnifiedLogTest.testAbortedTransactionSpanningMultipleSegments")
def test_aborted_transaction_spanning_multiple_segments(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    records = transactional(137, 0, "abc")
    log = bench.log(segment_size=records.size)
    first = log.append_as_leader(records, 0).first_offset
    assert log.watermarks.first_unstable_offset == first
    log.append_as_leader(transactional(137, 3, "def"), 0)
    assert log.watermarks.first_unstable_offset == first
    assert log.local_log.log_end_offset_metadata.segment_base_offset == 3
    aborted = end_txn(log, 137, 5, ABORT, bench.now)
    log.update_high_watermark(aborted.last_offset + 1)
    assert log.watermarks.first_unstable_offset is None

    fetched = log.read(0, 2048, FetchIsolation.TXN_COMMITTED)
    assert fetched.aborted_transactions is not None
    found = [(txn.producer_id, txn.first_offset) for txn in fetched.aborted_transactions]
    assert found == [(137, 0)]
