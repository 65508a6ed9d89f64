"""What Kafka's LogSegmentTest asks of writing, truncating and recovering a segment."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.errors import OffsetOverflowError
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import (
    end_transaction_marker,
    records_of,
)
from engine.record.encoding.simple_record import SimpleRecord
from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry
from engine.units import MAX_INT32, NO_TIMESTAMP, EpochEntry
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from engine.writing.segment.rolling import RollParams
from engine.writing.segment.segment_recovery import recover
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from tests.clocks import MockClock, MockScheduler
from tests.conformance.writable_segments import (
    PARTITION,
    contents,
    create_segment,
    new_producer_state,
    v1_records,
    write_nonsense,
)


@pytest.mark.conformance("LogSegmentTest.testAppendForLogSegmentOffsetOverflowException")
@pytest.mark.parametrize(
    ("base_offset", "largest_offset"),
    [
        (0, -2147483648),
        (0, 2147483648),
        (1, 0),
        (100, 10),
        (2147483648, 0),
        (-2147483648, 0),
        (2147483648, 4294967296),
    ],
)
def test_append_for_log_segment_offset_overflow_exception(
    tmp_path: Path, base_offset: int, largest_offset: int
) -> None:
    with create_segment(tmp_path, base_offset, named=0) as segment:
        with pytest.raises(OffsetOverflowError):
            segment.append(largest_offset, v1_records(0, "hello"))
        assert segment.size == 0


@pytest.mark.conformance("LogSegmentTest.testTruncate")
def test_truncate(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        for offset in range(40, 70):
            first, second = v1_records(offset, "hello"), v1_records(offset + 1, "hello")
            segment.append(offset, first)
            segment.append(offset + 1, second)
            fetched = segment.read(offset, 10000)
            assert fetched is not None
            assert contents(fetched.records) == contents(first) + contents(second)
            segment.truncate_to(offset + 1)
            fetched = segment.read(offset, 10000)
            assert fetched is not None
            assert contents(fetched.records) == contents(first)


@pytest.mark.conformance("LogSegmentTest.testTruncateEmptySegment")
def test_truncate_empty_segment(tmp_path: Path) -> None:
    max_segment_ms = 300_000
    clock = MockClock()
    with create_segment(tmp_path, 0, clock=clock) as segment:
        assert (len(segment.time_index), len(segment.offset_index)) == (0, 0)
        segment.close()
        reopened = create_segment(tmp_path, 0, clock=clock)
        assert segment.time_index.size_in_bytes == 0
        assert segment.offset_index.size_in_bytes == 0

        clock.sleep(500)
        reopened.truncate_to(57)
        assert reopened.age.waited(clock.ms, NO_TIMESTAMP) == 0
        assert not reopened.time_index.is_full
        assert not reopened.offset_index.is_full
        params = RollParams(max_segment_ms, MAX_INT32, NO_TIMESTAMP, 100, 1024, clock.ms)
        assert not reopened.should_roll(params)

        clock.sleep(max_segment_ms + 1)
        assert reopened.age.waited(clock.ms, NO_TIMESTAMP) == max_segment_ms + 1
        params = params._replace(now=clock.ms)
        assert not reopened.should_roll(params)
        assert reopened.should_roll(params._replace(max_offset=MAX_INT32 + 200))
        reopened.close()


@pytest.mark.conformance("LogSegmentTest.testReloadLargestTimestampAndNextOffsetAfterTruncation")
def test_reload_largest_timestamp_and_next_offset_after_truncation(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40, 2 * v1_records(0, "hello").size - 1) as segment:
        for offset in range(40, 70):
            segment.append(offset, v1_records(offset, "hello"))
        assert segment.read_next_offset() == 70
        assert segment.time_index.entries == 14
        segment.truncate_to(41)
        assert segment.time_index.entries == 0
        assert segment.largest_timestamp == 400
        assert segment.read_next_offset() == 41


@pytest.mark.conformance("LogSegmentTest.testTruncateFull")
def test_truncate_full(tmp_path: Path) -> None:
    clock = MockClock()
    with create_segment(tmp_path, 40, clock=clock) as segment:
        records = [SimpleRecord(value=b"hello"), SimpleRecord(value=b"there")]
        segment.append(41, records_of(*records, base_offset=40, magic=1))
        clock.sleep(500)
        assert segment.age.waited(clock.ms, NO_TIMESTAMP) == 500

        segment.truncate_to(0)
        assert segment.age.waited(clock.ms, NO_TIMESTAMP) == 0
        assert not segment.time_index.is_full
        assert not segment.offset_index.is_full
        assert segment.read(0, 1024) is None
        segment.append(41, v1_records(40, "hello", "there"))
        assert segment.read_next_offset() == 42


@pytest.mark.conformance("LogSegmentTest.testChangeFileSuffixes")
def test_change_file_suffixes(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        before = segment.files.paths
        _, offset_index, time_index, _ = map(Path, before)
        assert not offset_index.exists()
        assert not time_index.exists()
        segment.files.change_suffixes("", ".deleted")
        assert segment.files.paths == tuple(path + ".deleted" for path in before)
        records, offset_index, time_index, _ = map(Path, segment.files.paths)
        assert records.exists()
        assert not offset_index.exists()
        assert not time_index.exists()
        assert segment.offset_index.entries == 0
        assert offset_index.exists()
        assert segment.time_index.entries == 0
        assert time_index.exists()
        assert segment.files.has_suffix(".deleted")


@pytest.mark.conformance("LogSegmentTest.testRecoveryFixesCorruptIndex")
def test_recovery_fixes_corrupt_index(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0) as segment:
        for offset in range(100):
            segment.append(offset, v1_records(offset, str(offset)))
        index = Path(segment.files.offset_index.path)
        write_nonsense(index, 5, index.stat().st_size - 5, random.Random(1))
        assert recover(segment, new_producer_state(tmp_path)) == 0
        for offset in range(100):
            fetched = segment.read(offset, 1, segment.size, True)
            assert fetched is not None
            assert next(iter(fetched.records.records())).offset == offset


@pytest.mark.conformance("LogSegmentTest.testRecoverTransactionIndex")
def test_recover_transaction_index(tmp_path: Path) -> None:
    epoch, leader_epoch, sequence, first_producer, second_producer = 0, 15, 100, 5, 10
    two = [SimpleRecord(value=b"a"), SimpleRecord(value=b"b")]
    with create_segment(tmp_path, 100) as segment:
        for offset, producer in ((100, first_producer), (102, second_producer)):
            records = records_of(
                *two,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
                base_offset=offset,
                partition_leader_epoch=leader_epoch,
                is_transactional=True,
            )
            segment.append(offset + 1, records)
        segment.append(105, records_of(*two, base_offset=104, partition_leader_epoch=leader_epoch))
        for offset, producer, kind in (
            (106, second_producer, ControlRecordType.ABORT),
            (107, first_producer, ControlRecordType.COMMIT),
        ):
            marker = end_transaction_marker(
                EndTransactionMarker(kind, 0),
                producer_id=producer,
                producer_epoch=epoch,
                timestamp=NO_TIMESTAMP,
                base_offset=offset,
                partition_leader_epoch=0,
            )
            segment.append(offset, marker)

        producers = new_producer_state(tmp_path)
        recover(segment, producers)
        assert producers.map_end_offset == 108
        assert [tuple(txn)[1:] for txn in segment.txn_index.all_aborted_txns()] == [
            (second_producer, 102, 106, 100)
        ]

        producers = new_producer_state(tmp_path)
        producers.load_producer_entry(
            ProducerStateEntry(
                second_producer,
                epoch,
                0,
                NO_TIMESTAMP,
                75,
                [BatchMetadata(10, 10, 5, NO_TIMESTAMP)],
            )
        )
        recover(segment, producers)
        assert producers.map_end_offset == 108
        assert [tuple(txn)[1:] for txn in segment.txn_index.all_aborted_txns()] == [
            (second_producer, 75, 106, 100)
        ]


@pytest.mark.conformance("LogSegmentTest.testRecoveryRebuildsEpochCache")
def test_recovery_rebuilds_epoch_cache(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0) as segment:
        checkpoint = LeaderEpochCheckpointFile(tmp_path / "epochs")
        cache = LeaderEpochFileCache(PARTITION, checkpoint, MockScheduler(MockClock()))
        for offset, epoch in ((104, 0), (106, 1), (108, 1), (110, 2)):
            records = [SimpleRecord(value=b"a"), SimpleRecord(value=b"b")]
            batch = records_of(*records, base_offset=offset, partition_leader_epoch=epoch)
            segment.append(offset + 1, batch)
        recover(segment, new_producer_state(tmp_path), cache)
        assert cache.epoch_entries == [EpochEntry(0, 104), EpochEntry(1, 106), EpochEntry(2, 110)]


@pytest.mark.conformance("LogSegmentTest.testRecoveryFixesCorruptTimeIndex")
def test_recovery_fixes_corrupt_time_index(tmp_path: Path) -> None:
    with create_segment(tmp_path, 0) as segment:
        for offset in range(100):
            segment.append(offset, v1_records(offset, str(offset)))
        index = Path(segment.files.time_index.path)
        write_nonsense(index, 5, index.stat().st_size - 5, random.Random(2))
        recover(segment, new_producer_state(tmp_path))
        for offset in range(100):
            found = segment.find_offset_by_timestamp(offset * 10, 0)
            assert found is not None
            assert found.offset == offset
            if offset < 99:
                found = segment.find_offset_by_timestamp(offset * 10 + 1, 0)
                assert found is not None
                assert found.offset == offset + 1


@pytest.mark.conformance("LogSegmentTest.testRecoveryWithCorruptMessage")
@pytest.mark.parametrize("seed", range(10))
def test_recovery_with_corrupt_message(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with create_segment(tmp_path, 0) as segment:
        for offset in range(20):
            segment.append(offset, v1_records(offset, str(offset)))
        damaged = rng.randrange(20)
        found = segment.log.search_for_offset(damaged, 0)
        assert found is not None
        path = Path(segment.log.path)
        position = found.position + rng.randrange(15)
        size = path.stat().st_size
        write_nonsense(path, position, size - position, rng)
        assert recover(segment, new_producer_state(tmp_path)) == size - found.position
        assert [batch.last_offset for batch in segment.log.batches()] == list(range(damaged))
        segment.files.delete_if_exists()
        assert segment.files.are_deleted
