"""What Kafka's LogCleanerTest asks of transactions, their markers, and the batches that are kept empty."""

from __future__ import annotations

import pytest

from engine.broker.cleaning.cleaned_transactions import CleanedTransactionMetadata
from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.log.unified_log import UnifiedLog
from engine.index.transaction_index import AbortedTxn
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import MAX_INT64
from engine.writing.state.append_origin import AppendOrigin
from tests.conformance.log_cleaning import (
    ABORT,
    COMMIT,
    LARGE_TIMESTAMP,
    CleaningBench,
    FakeOffsetMap,
    base_offsets,
    clean,
    clean_twice,
    end,
    keys_in,
    last_offsets,
    last_sequences,
    offsets_in,
    producer_of,
    record,
)


@pytest.fixture
def bench(tmp_path) -> CleaningBench:
    return CleaningBench(tmp_path)


def all_aborted(log: UnifiedLog) -> list[AbortedTxn]:
    return log.collect_aborted_transactions(0, log.log_end_offset)


@pytest.mark.conformance("LogCleanerTest.testMultiPassSegmentCleaningWithAbortedTransactions")
def test_multi_pass_segment_cleaning_with_aborted_transactions(bench):
    retention = 50_000
    cleaner = bench.cleaner()
    log = bench.compacted(delete_retention_ms=retention)
    first, second = (producer_of(bench, log, number) for number in (1, 2))

    def finish(producer_id: int, kind) -> None:
        end(bench, log, producer_id, kind, origin=AppendOrigin.REPLICATION)

    first(1, 2)  # offsets 0 and 1
    second(2, 3)
    first(3, 4)  # 4 and 5
    finish(1, COMMIT)
    finish(2, COMMIT)
    first(2, 3)  # 8 and 9
    finish(1, ABORT)
    second(4, 5)  # 11 and 12
    first(5, 6)
    finish(1, COMMIT)  # 15
    finish(2, ABORT)
    second(6, 7)  # 17 and 18
    finish(2, COMMIT)
    log.roll()
    assert log.log_end_offset == 20
    aborted = [AbortedTxn(0, 1, 8, 10, 11), AbortedTxn(0, 2, 11, 16, 17)]

    def check(bases: list[int], offsets: list[int], expected: list[AbortedTxn]) -> None:
        assert base_offsets(log) == bases
        assert offsets_in(log) == offsets
        producers = log.producer_state.active_producers.values()
        assert all(entry.current_txn_first_offset is None for entry in producers)
        assert all_aborted(log) == expected

    assert all_aborted(log) == aborted
    dirty = 0

    def clean_all() -> int:
        offset_map, stats = FakeOffsetMap(4), CleanerStats()
        base = log.active_segment.base_offset
        segments = log.segments_between(0, base)
        cleaner.build_offset_map(log, dirty, base, offset_map, stats)
        transactions = CleanedTransactionMetadata()
        cleaner.clean_segments(log, segments, offset_map, bench.now, stats, transactions, MAX_INT64)
        return offset_map.latest_offset + 1

    # The data of the aborted transactions goes, the markers stay for the retention.
    dirty = clean_all()
    assert dirty == 4
    bases = [0, 2, 4, 6, 7, 10, 13, 15, 16, 17, 19]
    check(bases, [0, 2, 3, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19], aborted)
    # Nothing is left for the index to tell.
    dirty = clean_all()
    assert dirty == 14
    check(bases, [0, 2, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19], [])
    # The markers go.
    bench.clock.sleep(retention)
    dirty = clean_all()
    assert dirty == 20
    check([0, 2, 4, 6, 7, 13, 15, 17, 19], [0, 2, 4, 5, 6, 7, 13, 15, 17, 18, 19], [])


@pytest.mark.conformance("LogCleanerTest.testBasicTransactionAwareCleaning")
def test_basic_transaction_aware_cleaning(bench):
    log = bench.compacted(segment_size=2048)
    first, second = (producer_of(bench, log, number) for number in (1, 2))
    first(1, 2)
    second(2, 3)
    first(3, 4)
    end(bench, log, 1, ABORT)
    end(bench, log, 2, COMMIT)
    first(2)
    end(bench, log, 1, COMMIT)
    aborted = all_aborted(log)
    assert len(aborted) == 1
    log.roll()
    clean(bench.cleaner(), log, 0)
    assert keys_in(log) == [3, 2]
    assert offsets_in(log) == [3, 6, 7, 8, 9]
    assert all_aborted(log) == aborted


@pytest.mark.conformance("LogCleanerTest.testCleanWithTransactionsSpanningSegments")
def test_clean_with_transactions_spanning_segments(bench):
    cleaner = bench.cleaner()
    log = bench.compacted()
    first, second, third = (producer_of(bench, log, number) for number in (1, 2, 3))
    first(1, 2)
    third(2, 3)
    second(3, 4)
    log.roll()
    second(5, 6)
    third(6, 7)
    first(7, 8)
    end(bench, log, 2, ABORT)
    third(8, 9)
    end(bench, log, 3, COMMIT)
    first(9, 10)
    end(bench, log, 1, ABORT)
    # Only the first segment is cleaned.
    dirty = clean(cleaner, log, 0)
    assert keys_in(log) == [2, 3, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10]
    log.roll()
    second(11)
    first(12)
    clean(cleaner, log, dirty)
    assert keys_in(log) == [2, 3, 6, 7, 8, 9, 11, 12]


@pytest.mark.conformance("LogCleanerTest.testCommitMarkerRemoval")
def test_commit_marker_removal(bench):
    cleaner = bench.cleaner()
    log = bench.compacted(segment_size=256)
    append = producer_of(bench, log, 1)
    append(1)
    append(2, 3)
    end(bench, log, 1, COMMIT)
    append(2)
    end(bench, log, 1, COMMIT)
    log.roll()
    dirty = clean(cleaner, log, 0, LARGE_TIMESTAMP)
    assert keys_in(log) == [1, 3, 2]
    assert offsets_in(log) == [0, 2, 3, 4, 5]
    append(1, 3)
    end(bench, log, 1, COMMIT)
    log.roll()
    # The marker of offset 3 stays: there were records of its transaction still.
    for _ in range(2):
        dirty = clean(cleaner, log, dirty, LARGE_TIMESTAMP)
        assert keys_in(log) == [2, 1, 3]
        assert offsets_in(log) == [3, 4, 5, 6, 7, 8]
    clean(cleaner, log, dirty, MAX_INT64)
    assert keys_in(log) == [2, 1, 3]
    assert offsets_in(log) == [4, 5, 6, 7, 8]


@pytest.mark.conformance("LogCleanerTest.testDeletedBatchesWithNoMessagesRead")
def test_deleted_batches_with_no_messages_read(bench):
    cleaner = bench.cleaner(max_message_size=100)
    log = bench.compacted(max_message_size=100, segment_size=1000)
    append = producer_of(bench, log, 1)
    append(1)
    end(bench, log, 1, ABORT)
    append(2)
    append(2)
    end(bench, log, 1, COMMIT)
    log.roll()
    clean(cleaner, log, 0, LARGE_TIMESTAMP)
    assert keys_in(log) == [2]
    assert offsets_in(log) == [1, 3, 4]
    clean_twice(cleaner, log, 0, LARGE_TIMESTAMP)
    assert keys_in(log) == [2]
    assert offsets_in(log) == [3, 4]


@pytest.mark.conformance("LogCleanerTest.testCommitMarkerRetentionWithEmptyBatch")
def test_commit_marker_retention_with_empty_batch(bench):
    cleaner = bench.cleaner()
    log = bench.compacted(segment_size=256)
    first, second = (producer_of(bench, log, number) for number in (1, 2))
    first(2, 3)  # offsets 0 and 1
    log.roll()
    second(2, 3)
    end(bench, log, 2, COMMIT)  # 4
    log.roll()
    log.append_as_leader(record(2, 2), 0)
    log.append_as_leader(record(3, 3), 0)
    end(bench, log, 1, COMMIT)  # 7
    log.roll()

    def check(keys: list[int], offsets: list[int], last: list[int]) -> None:
        assert keys_in(log) == keys
        assert offsets_in(log) == offsets
        assert last_offsets(log) == last

    # Both producers' batches stay empty for their last sequences, cleaned once or twice.
    dirty = 0
    for _ in range(2):
        dirty = clean(cleaner, log, dirty, LARGE_TIMESTAMP)
        check([2, 3], [4, 5, 6, 7], [1, 3, 4, 5, 6, 7])
    second(1)
    end(bench, log, 2, COMMIT)  # 9
    log.roll()
    # The second producer's empty batch goes; its marker has no horizon yet.
    dirty = clean(cleaner, log, dirty, LARGE_TIMESTAMP)
    check([2, 3, 1], [4, 5, 6, 7, 8, 9], [1, 4, 5, 6, 7, 8, 9])
    clean_twice(cleaner, log, dirty, LARGE_TIMESTAMP)
    check([2, 3, 1], [5, 6, 7, 8, 9], [1, 5, 6, 7, 8, 9])


@pytest.mark.conformance("LogCleanerTest.testCleanEmptyControlBatch")
def test_clean_empty_control_batch(bench):
    cleaner = bench.cleaner()
    log = bench.compacted(segment_size=256)
    end(bench, log, 1, COMMIT)
    log.append_as_leader(record(2, 2), 0)
    log.append_as_leader(record(3, 3), 0)
    log.roll()
    # The marker gets a horizon and goes; its batch stays for the producer's epoch.
    dirty = clean_twice(cleaner, log, 0, LARGE_TIMESTAMP)
    assert keys_in(log) == [2, 3]
    assert offsets_in(log) == [1, 2]
    assert last_offsets(log) == [0, 1, 2]
    clean(cleaner, log, dirty, MAX_INT64)
    assert keys_in(log) == [2, 3]
    assert offsets_in(log) == [1, 2]
    assert last_offsets(log) == [0, 1, 2]


@pytest.mark.conformance("LogCleanerTest.testCommittedTransactionSpanningSegments")
def test_committed_transaction_spanning_segments(bench):
    log = bench.compacted(segment_size=128)
    producer_of(bench, log, 1)(1)
    log.roll()
    end(bench, log, 1, COMMIT)
    log.roll()
    clean_twice(bench.cleaner(), log, 0, LARGE_TIMESTAMP)
    assert offsets_in(log) == [0, 1]
    assert last_offsets(log) == [0, 1]


@pytest.mark.conformance("LogCleanerTest.testAbortedTransactionSpanningSegments")
def test_aborted_transaction_spanning_segments(bench):
    cleaner = bench.cleaner()
    log = bench.compacted(segment_size=128)
    producer_of(bench, log, 1)(1)
    log.roll()
    end(bench, log, 1, ABORT)
    log.roll()
    # The batch stays empty as the last of its producer, the marker because of the batch.
    for now in (LARGE_TIMESTAMP, MAX_INT64):
        clean(cleaner, log, 0, now)
        assert offsets_in(log) == [1]
        assert last_offsets(log) == [0, 1]


@pytest.mark.conformance("LogCleanerTest.testAbortMarkerRemoval")
def test_abort_marker_removal(bench):
    cleaner = bench.cleaner()
    log = bench.compacted(segment_size=256)
    append = producer_of(bench, log, 1)
    append(1)
    append(2, 3)
    end(bench, log, 1, ABORT)
    append(3)
    end(bench, log, 1, COMMIT)
    log.roll()
    dirty = clean(cleaner, log, 0, LARGE_TIMESTAMP)
    assert keys_in(log) == [3]
    assert offsets_in(log) == [3, 4, 5]
    clean_twice(cleaner, log, dirty, LARGE_TIMESTAMP)
    assert keys_in(log) == [3]
    assert offsets_in(log) == [4, 5]


@pytest.mark.conformance("LogCleanerTest.testEmptyBatchRemovalWithSequenceReuse")
def test_empty_batch_removal_with_sequence_reuse(bench):
    cleaner = bench.cleaner()
    log = bench.compacted(segment_size=2048)
    for number in (1, 2):
        producer_of(bench, log, 1, origin=AppendOrigin.REPLICATION)(number)
        end(bench, log, 1, COMMIT)
    log.append_as_leader(record(1, 1), 0)
    log.append_as_leader(record(2, 1), 0)
    log.roll()
    clean(cleaner, log, 0, LARGE_TIMESTAMP)
    assert offsets_in(log) == [1, 3, 4, 5]
    assert last_offsets(log) == [1, 2, 3, 4, 5]
    clean_twice(cleaner, log, 0, LARGE_TIMESTAMP)
    assert offsets_in(log) == [3, 4, 5]
    assert last_offsets(log) == [2, 3, 4, 5]


@pytest.mark.conformance("LogCleanerTest.testAbortMarkerRetentionWithEmptyBatch")
def test_abort_marker_retention_with_empty_batch(bench):
    cleaner = bench.cleaner()
    log = bench.compacted(segment_size=256)
    append = producer_of(bench, log, 1)
    append(2, 3)
    end(bench, log, 1, ABORT)
    log.roll()

    def aborted() -> list[tuple[int, int, int]]:
        found = log.collect_aborted_transactions(0, 100)
        return [(txn.producer_id, txn.first_offset, txn.last_offset) for txn in found]

    assert aborted() == [(1, 0, 2)]
    dirty = clean(cleaner, log, 0, LARGE_TIMESTAMP)
    for _ in range(2):
        assert aborted() == [(1, 0, 2)]
        assert keys_in(log) == []
        assert offsets_in(log) == [2]
        assert last_offsets(log) == [1, 2]
        dirty = clean_twice(cleaner, log, dirty, LARGE_TIMESTAMP)
    # A new sequence lets the empty batch go, though the marker stays once more: the batch was read.
    append(1)
    log.roll()
    dirty = clean(cleaner, log, dirty, LARGE_TIMESTAMP)
    assert aborted() == [(1, 0, 2)]
    assert keys_in(log) == [1]
    assert offsets_in(log) == [2, 3]
    assert last_offsets(log) == [2, 3]
    clean_twice(cleaner, log, dirty, LARGE_TIMESTAMP)
    assert keys_in(log) == [1]
    assert offsets_in(log) == [3]
    assert last_offsets(log) == [3]
    assert aborted() == []


@pytest.mark.conformance("LogCleanerTest.testLogCleanerRetainsLastSequenceEvenIfTransactionAborted")
def test_log_cleaner_retains_last_sequence_even_if_transaction_aborted(bench):
    cleaner = bench.cleaner(10)
    log = bench.compacted()
    append = producer_of(bench, log, 1)
    append(1)
    append(2, 3)
    end(bench, log, 1, ABORT)
    log.roll()
    clean(cleaner, log, 0)
    assert last_offsets(log) == [2, 3]
    assert last_sequences(log) == {1: 2}
    assert keys_in(log) == []
    assert offsets_in(log) == [3]
    append(1, 5)
    log.roll()
    clean(cleaner, log, 0)
    assert last_offsets(log) == [3, 5]
    assert last_sequences(log) == {1: 4}
    assert keys_in(log) == [1, 5]
    assert offsets_in(log) == [3, 4, 5]


@pytest.mark.conformance("LogCleanerTest.testCleaningWithKeysConflictingWithTxnMarkerKeys")
def test_cleaning_with_keys_conflicting_with_txn_marker_keys(bench):
    log = bench.compacted()
    epoch = 5
    producer_of(bench, log, 1, leader_epoch=epoch)(1)
    end(bench, log, 1, COMMIT, leader_epoch=epoch)
    like_a_marker = SimpleRecord(COMMIT.record_key(), b"foo", bench.now)
    records = records_of(
        like_a_marker, producer_id=2, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    log.append_as_leader(records, epoch, AppendOrigin.CLIENT)
    end(bench, log, 2, COMMIT, leader_epoch=epoch)
    log.roll()
    assert offsets_in(log) == [0, 1, 2, 3]
    clean(bench.cleaner(10), log, 0)
    assert last_offsets(log) == [0, 1, 2, 3]
    assert offsets_in(log) == [0, 1, 2, 3]
