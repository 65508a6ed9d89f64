"""What Kafka's UnifiedLogTest asks of sequences, epochs and duplicates of producers."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.cleaning.record_filter import BatchRetention
from engine.broker.log.unified_log import UnifiedLog
from engine.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from engine.record.attributes import TimestampType
from engine.record.encoding.building import records_of
from engine.record.memory_records import MemoryRecords
from tests.conformance.unified_log_steps import (
    COMMIT,
    LARGEST,
    Compaction,
    LogBench,
    compacted,
    end_txn,
    joined,
    of_producer,
    one,
    producer,
    rec,
    with_epoch,
)

MIB = 1024 * 1024


def last_sequences(log: UnifiedLog) -> dict[int, int]:
    return {
        producer_id: entry.last_sequence
        for producer_id, entry in log.producer_state.active_producers.items()
    }


@pytest.mark.conformance("UnifiedLogTest.testActiveProducers")
def test_active_producers(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=MIB)

    def state(producer_id: int) -> tuple[int, int, int | None, int]:
        entry = log.producer_state.active_producers[producer_id]
        return (
            entry.producer_epoch,
            entry.last_sequence,
            entry.current_txn_first_offset,
            entry.coordinator_epoch,
        )

    producer(log, 1, 5, bench.now)(5)
    assert state(1) == (5, 4, 0, -1)
    end_txn(log, 1, 5, COMMIT, bench.now, coordinator_epoch=15)
    assert state(1) == (5, 4, None, 15)
    producer(log, 2, 5, bench.now, is_transactional=False)(3)
    assert state(2) == (5, 2, None, -1)


@pytest.mark.conformance("UnifiedLogTest.testNonSequentialAppend")
def test_non_sequential_append(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    record = rec("value", bench.now, b"key")
    log.append_as_leader(of_producer(1, 0, record), 0)
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(of_producer(1, 2, record), 0)
    assert log.log_end_offset == 1


@pytest.mark.conformance("UnifiedLogTest.testProducerIdMapOffsetUpdatedForNonIdempotentData")
def test_producer_id_map_offset_updated_for_non_idempotent_data(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5)
    log.append_as_leader(bench.at_now("value", b"key"), 0)
    log.producer_state.take_snapshot()
    assert log.producer_state.latest_snapshot_offset == 1


def with_gaps(bench: LogBench) -> MemoryRecords:
    """Four records from offset 23 on, of which compaction has taken those with a key."""
    records = of_producer(
        1,
        0,
        rec("a", bench.now),
        rec("b", bench.now, b"key"),
        rec("c", bench.now),
        rec("d", bench.now, b"key"),
        base_offset=23,
        partition_leader_epoch=0,
    )
    return compacted(
        records, Compaction(BatchRetention.DELETE_EMPTY, lambda record: record.key is None)
    )


@pytest.mark.conformance("UnifiedLogTest.testRebuildProducerIdMapWithCompactedData")
def test_rebuild_producer_id_map_with_compacted_data(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5)
    log.append_as_follower(with_gaps(bench), 0)
    more = records_of(rec("e", bench.now), rec("f", bench.now), base_offset=27)
    log.append_as_follower(with_epoch(more, 0), 0)
    log.truncate_to(27)
    assert last_sequences(log) == {1: 3}


@pytest.mark.conformance("UnifiedLogTest.testRebuildProducerStateWithEmptyCompactedBatch")
def test_rebuild_producer_state_with_empty_compacted_batch(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5)
    records = of_producer(
        1,
        0,
        rec("a", bench.now, b"key"),
        rec("b", bench.now, b"key"),
        base_offset=23,
        partition_leader_epoch=0,
    )
    nothing = Compaction(BatchRetention.RETAIN_EMPTY, lambda record: False, is_txn=True)
    empty = compacted(records, nothing)
    assert [batch.record_count for batch in empty.batches()] == [0]
    log.append_as_follower(empty, 0)
    more = records_of(rec("e", bench.now), rec("f", bench.now), base_offset=25)
    log.append_as_follower(with_epoch(more, 0), 0)
    log.truncate_to(25)
    assert last_sequences(log) == {1: 1}


@pytest.mark.conformance("UnifiedLogTest.testUpdateProducerIdMapWithCompactedData")
def test_update_producer_id_map_with_compacted_data(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5)
    log.append_as_follower(with_gaps(bench), 0)
    assert last_sequences(log) == {1: 3}


@pytest.mark.conformance("UnifiedLogTest.testPeriodicProducerIdExpiration")
def test_periodic_producer_id_expiration(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open(producer_id_expiration_ms=200, producer_id_expiration_check_interval_ms=100)
    log.append_as_leader(of_producer(23, 0, rec("foo", bench.now)), 0)
    assert set(last_sequences(log)) == {23}
    bench.clock.sleep(100)
    assert set(last_sequences(log)) == {23}
    bench.clock.sleep(100)
    assert set(last_sequences(log)) == set()


@pytest.mark.conformance("UnifiedLogTest.testDuplicateAppends")
def test_duplicate_appends(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()

    def batch(sequence: int, count: int) -> MemoryRecords:
        record = rec(f"value-{sequence}", bench.now, b"key-%d" % sequence)
        return of_producer(1, sequence, *[record] * count)

    for sequence in range(6):
        log.append_as_leader(batch(sequence, 1), 0)
    tail = log.append_as_leader(batch(6, 3), 0)
    assert tail.last_offset - tail.first_offset + 1 == 3

    again = log.append_as_leader(batch(6, 3), 0)
    assert (again.first_offset, again.last_offset) == (tail.first_offset, tail.last_offset)
    assert log.log_end_offset == 9
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(batch(7, 2), 0)
    assert log.append_as_leader(batch(2, 1), 0).first_offset == 2, "the fourth from the tail"
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(batch(1, 1), 0)
    assert log.log_end_offset == 9

    original = log.append_as_leader(batch(9, 1), 0)
    again = log.append_as_leader(batch(9, 1), 0)
    assert (again.first_offset, again.last_offset) == (original.first_offset, original.last_offset)
    assert log.log_end_offset == 10


def from_append_time(bench: LogBench, producers: list[tuple[int, int]]) -> MemoryRecords:
    """A batch of one record for each producer id and sequence."""
    return joined(
        *(
            records_of(
                rec("value", key=b"key"),
                base_offset=offset,
                timestamp_type=TimestampType.LOG_APPEND_TIME,
                log_append_time=bench.now,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                partition_leader_epoch=0,
            )
            for offset, (producer_id, sequence) in enumerate(producers)
        )
    )


@pytest.mark.conformance("UnifiedLogTest.testMultipleProducerIdsPerMemoryRecord")
def test_multiple_producer_ids_per_memory_record(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    records = from_append_time(bench, [(1, 0), (2, 0), (3, 0), (4, 0)])
    log.append_as_follower(records, 0)
    log.flush()
    found = [
        (batch.producer_id, batch.base_offset, batch.base_sequence)
        for batch in log.read(0, LARGEST).records.batches()
    ]
    assert found == [(1, 0, 0), (2, 1, 0), (3, 2, 0), (4, 3, 0)]


@pytest.mark.conformance("UnifiedLogTest.testDuplicateAppendToFollower")
def test_duplicate_append_to_follower(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=5 * MIB)
    for offset in (0, 2):
        batch = of_producer(1, 0, rec("a"), rec("b"), base_offset=offset, partition_leader_epoch=0)
        log.append_as_follower(batch, 0)
    assert log.log_end_offset == 4, "a follower takes what its leader took"


@pytest.mark.conformance("UnifiedLogTest.testMultipleProducersWithDuplicatesInSingleAppend")
def test_multiple_producers_with_duplicates_in_single_append(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=5 * MIB)
    assert log.log_end_offset == 0
    log.append_as_follower(from_append_time(bench, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 1)]), 0)
    assert log.log_end_offset == 5


@pytest.mark.conformance("UnifiedLogTest.testOldProducerEpoch")
def test_old_producer_epoch(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    record = rec("value", bench.now, b"key")
    log.append_as_leader(of_producer(1, 0, record, epoch=1), 0)
    with pytest.raises(InvalidProducerEpochError):
        log.append_as_leader(of_producer(1, 0, record, epoch=0), 0)
    assert log.log_end_offset == 1


@pytest.mark.conformance("UnifiedLogTest.testProducerIdExpirationOnSegmentDeletion")
def test_producer_id_expiration_on_segment_deletion(tmp_path: Path) -> None:
    first = of_producer(1, 0, rec("foo"))
    log = LogBench(tmp_path).log(segment_size=first.size, retention_size=first.size * 2)
    log.append_as_leader(first, 0)
    log.producer_state.take_snapshot()
    log.append_as_leader(of_producer(2, 0, rec("bar")), 0)
    log.append_as_leader(of_producer(2, 1, rec("baz")), 0)
    log.producer_state.take_snapshot()
    assert len(log.segments) == 3
    assert set(last_sequences(log)) == {1, 2}

    log.update_high_watermark(log.log_end_offset)
    log.delete_old_segments()
    assert len(log.segments) == 2
    assert set(last_sequences(log)) == {1, 2}, "producers outlive their records"


@pytest.mark.conformance("UnifiedLogTest.testProducerIdMapTruncateTo")
def test_producer_id_map_truncate_to(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=2048 * 5)
    log.append_as_leader(one("a"), 0)
    log.append_as_leader(one("b"), 0)
    log.producer_state.take_snapshot()
    log.append_as_leader(one("c"), 0)
    log.producer_state.take_snapshot()
    for target, snapshot in ((2, 2), (1, 1), (0, None)):
        log.truncate_to(target)
        assert log.producer_state.latest_snapshot_offset == snapshot
        assert log.producer_state.map_end_offset == target


@pytest.mark.conformance("UnifiedLogTest.testProducerIdMapTruncateToWithNoSnapshots")
def test_producer_id_map_truncate_to_with_no_snapshots(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.log(segment_size=2048 * 5)
    log.append_as_leader(of_producer(1, 0, rec("a")), 0)
    log.append_as_leader(of_producer(1, 1, rec("b")), 0)
    for name in bench.names(".snapshot"):
        (bench.folder / name).unlink()
    log.truncate_to(1)
    assert last_sequences(log) == {1: 0}


@pytest.mark.conformance("UnifiedLogTest.testProducerIdMapTruncateFullyAndStartAt")
def test_producer_id_map_truncate_fully_and_start_at(tmp_path: Path) -> None:
    size = one("foo").size
    log = LogBench(tmp_path).log(segment_size=size, retention_size=2 * size)
    log.append_as_leader(one("foo"), 0)
    log.producer_state.take_snapshot()
    log.append_as_leader(one("bar"), 0)
    log.append_as_leader(one("baz"), 0)
    log.producer_state.take_snapshot()
    state = log.producer_state
    assert len(log.segments) == 3
    assert (state.map_end_offset, state.latest_snapshot_offset) == (3, 3)
    log.truncate_fully_and_start_at(29)
    assert len(log.segments) == 1
    assert (state.map_end_offset, state.latest_snapshot_offset) == (29, None)
