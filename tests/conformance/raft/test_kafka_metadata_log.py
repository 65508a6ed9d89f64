"""What Kafka's KafkaMetadataLogTest asks."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.broker.raft.metadata_log import MetadataLog, MetadataLogConfig
from engine.broker.raft.raft_snapshot import RaftSnapshotWriter, SnapshotId, mark_for_delete
from engine.errors import CorruptRecordError, InvalidOffsetError, RecordTooLargeError, StateError
from engine.files.file_names import FileKind, FileName, FileState, parse_file_name
from engine.record.batch_frame import CURRENT_MAGIC, HEADER as BATCH_HEADER
from engine.record.encoding.building import records_of
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32
from tests.clocks import MockClock, MockScheduler
from tests.conformance.malformed_records import MALFORMED

KB = 1024
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
USUAL = {
    "segment_size": 100 * KB,
    "segment_ms": 10_000,
    "retention_size": 100 * KB,
    "retention_ms": 60_000,
}


class Quorum:
    """A folder with a metadata log, and a clock that stands still."""

    def __init__(self, log_dir: Path) -> None:
        self.folder = log_dir / "__cluster_metadata-0"
        self.clock = MockClock()
        self.opened: list[MetadataLog] = []

    def open(self, **config: Any) -> MetadataLog:
        """The log; no call may find it open."""
        made = MetadataLog.open(
            self.folder,
            TOPIC_ID,
            MockScheduler(self.clock),
            clock=self.clock,
            config=MetadataLogConfig(**(USUAL | config)),
        )
        self.opened.append(made)
        return made


@pytest.fixture
def quorum(tmp_path):
    made = Quorum(tmp_path)
    yield made
    for log in made.opened:
        log.close()


def numbered(base: int, count: int, epoch: int) -> MemoryRecords:
    values = [SimpleRecord(value=b"%d" % number) for number in range(count)]
    return records_of(*values, base_offset=base, partition_leader_epoch=epoch)


def append(log: MetadataLog, count: int, epoch: int) -> None:
    log.append_as_leader(numbered(log.end_offset.offset, count, epoch), epoch)


def written_snapshot(
    log: MetadataLog, offset: int, epoch: int, *, checked: bool = False
) -> SnapshotId:
    snapshot_id = SnapshotId(offset, epoch)
    create = log.create_new_snapshot if checked else log.snapshots.create
    writer = create(snapshot_id)
    assert writer is not None
    with writer:
        writer.freeze()
    return snapshot_id


def assert_is_all_in(log: MetadataLog, snapshot_id: SnapshotId) -> None:
    """The log begins and ends where the written_snapshot ends."""
    assert log.start_offset == log.end_offset.offset == log.high_watermark == snapshot_id.offset
    assert log.last_fetched_epoch == snapshot_id.epoch


@pytest.mark.conformance("KafkaMetadataLogTest.testInvalidMemoryRecords")
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_invalid_memory_records(quorum, data):
    log = quorum.open()
    before = log.end_offset
    with pytest.raises(CorruptRecordError):
        log.append_as_follower(MemoryRecords(data), MAX_INT32)
    assert log.end_offset == before


def random_records(random: Random) -> MemoryRecords:
    """Random bytes whose size is right and whose magic is one too high."""
    size = BATCH_HEADER.size + random.randrange(128)
    made = bytearray(random.randbytes(size))
    made[8:12] = (size - 12).to_bytes(4)
    made[16] = CURRENT_MAGIC + 1
    return MemoryRecords(made)


@pytest.mark.conformance("KafkaMetadataLogTest.testRandomRecords")
def test_random_records(quorum):
    log = quorum.open()
    before = log.end_offset
    for seed in range(100):
        with pytest.raises(CorruptRecordError):
            log.append_as_follower(random_records(Random(seed)), MAX_INT32)
        assert log.end_offset == before, seed


@pytest.mark.conformance("KafkaMetadataLogTest.testReadMissingSnapshot")
def test_read_missing_snapshot(quorum):
    assert quorum.open().snapshots.read(SnapshotId(10, 0)) is None


def write_empty_snapshot(quorum: Quorum, offset: int, epoch: int) -> SnapshotId:
    snapshot_id = SnapshotId(offset, epoch)
    with RaftSnapshotWriter.create(quorum.folder, snapshot_id) as writer:
        writer.freeze()
    return snapshot_id


def begin_at(quorum: Quorum, offset: int) -> None:
    """Leave a log without records that starts at an offset."""
    log = quorum.open()
    log.log.truncate_fully_and_start_at(offset)
    log.close()


@pytest.mark.conformance("KafkaMetadataLogTest.testStartupWithInvalidSnapshotState")
def test_startup_with_invalid_snapshot_state(quorum):
    begin_at(quorum, 100)
    with pytest.raises(StateError):
        quorum.open()
    write_empty_snapshot(quorum, 50, 1)
    with pytest.raises(StateError):
        quorum.open()
    write_empty_snapshot(quorum, 100, 1)
    begin_at(quorum, 200)
    write_empty_snapshot(quorum, 500, 1)
    assert quorum.open().log.log_start_offset == 500


@pytest.mark.conformance("KafkaMetadataLogTest.testSnapshotDeletionWithInvalidSnapshotState")
def test_snapshot_deletion_with_invalid_snapshot_state(quorum):
    begin_at(quorum, 100)
    deleted = Path(mark_for_delete(quorum.folder, write_empty_snapshot(quorum, 100, 1)))
    assert deleted.exists()
    with pytest.raises(StateError):
        quorum.open()
    assert deleted.exists()


def snapshots_in(folder: Path) -> list[FileName]:
    """What the names of the snapshots in a folder say, also of unfinished and deleted ones."""
    parsed = [parse_file_name(path.name) for path in folder.iterdir()]
    return [each for each in parsed if each and each.kind is FileKind.KRAFT_CHECKPOINT]


@pytest.mark.conformance("KafkaMetadataLogTest.testCleanupPartialSnapshots")
def test_cleanup_partial_snapshots(quorum):
    log = quorum.open()
    append(log, 10, 1)
    snapshot_id = written_snapshot(log, 1, 1)
    log.close()
    for offset, epoch in ((0, 0), (1, 1), (2, 2)):
        name = f"{offset:020}-{epoch:010}-{offset}5.checkpoint.part"
        (quorum.folder / name).touch()
    assert len(snapshots_in(quorum.folder)) == 4
    second = quorum.open()
    assert second.snapshots.latest == snapshot_id
    assert log.start_offset == 0
    assert log.last_fetched_epoch == 1
    assert log.end_offset.offset == 10
    assert second.high_watermark == 0
    (left,) = snapshots_in(quorum.folder)
    assert (left.base_offset, left.state) == (1, FileState.LIVE)


@pytest.mark.conformance("KafkaMetadataLogTest.testCleanupOlderSnapshots")
def test_cleanup_older_snapshots(quorum):
    log = quorum.open()
    append(log, 1, 0)
    written_snapshot(log, 1, 0)
    append(log, 1, 1)
    written_snapshot(log, 2, 1)
    append(log, 8, 1)
    written_snapshot(log, 10, 1)
    append(log, 10, 1)
    greater = written_snapshot(log, 30, 1)
    log.close()
    second = quorum.open()
    assert second.snapshots.latest == greater
    assert second.start_offset == 30
    assert second.last_fetched_epoch == 1
    quorum.clock.sleep(second.config.delete_delay_ms)
    assert [each.base_offset for each in snapshots_in(quorum.folder)] == [30]


@pytest.mark.conformance("KafkaMetadataLogTest.testUnexpectedAppendOffset")
def test_unexpected_append_offset(quorum):
    log = quorum.open()
    records = numbered(log.end_offset.offset, 1, 3)
    log.append_as_leader(records, 3)
    with pytest.raises(InvalidOffsetError):
        log.append_as_leader(records, 3)
    with pytest.raises(InvalidOffsetError):
        log.append_as_follower(records, 3)
    assert log.end_offset.offset == 1


@pytest.mark.conformance("KafkaMetadataLogTest.testEmptyAppendNotAllowed")
def test_empty_append_not_allowed(quorum):
    log = quorum.open()
    with pytest.raises(ValueError, match="no records"):
        log.append_as_follower(MemoryRecords(b""), 1)
    with pytest.raises(ValueError, match="no records"):
        log.append_as_leader(MemoryRecords(b""), 1)


@pytest.mark.conformance("KafkaMetadataLogTest.testInvalidLeaderEpoch")
def test_invalid_leader_epoch(quorum):
    log = quorum.open()
    end, epoch = log.end_offset.offset, log.last_fetched_epoch + 1
    valid, invalid = numbered(end, 10, epoch), numbered(end + 10, 10, epoch + 1)
    both = MemoryRecords(bytes(valid.buffer) + bytes(invalid.buffer))
    assert log.append_as_follower(both, epoch) == (end, end + 9)
    assert log.end_offset.offset == end + 10
    assert log.last_fetched_epoch == epoch


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshot")
def test_create_snapshot(quorum):
    log = quorum.open()
    append(log, 10, 1)
    log.update_high_watermark(10)
    writer = log.create_new_snapshot(SnapshotId(10, 1))
    with writer:
        assert log.snapshots.read(SnapshotId(10, 1)) is None
        writer.freeze()
    assert log.snapshots.read(SnapshotId(10, 1)).size == 0
    assert (quorum.folder / "00000000000000000010-0000000001.checkpoint").exists()


@pytest.mark.conformance("KafkaMetadataLogTest.testTruncateFullyToLatestSnapshot")
def test_truncate_fully_to_latest_snapshot(quorum):
    log = quorum.open()
    append(log, 10, 0)
    same_epoch = written_snapshot(log, 20, 0)
    assert log.truncate_to_latest_snapshot()
    assert_is_all_in(log, same_epoch)
    append(log, 10, 0)
    greater_epoch = written_snapshot(log, 30, 1)
    assert log.truncate_to_latest_snapshot()
    assert_is_all_in(log, greater_epoch)


@pytest.mark.conformance("KafkaMetadataLogTest.testDoesntTruncateFully")
def test_doesnt_truncate_fully(quorum):
    log = quorum.open()
    append(log, 10, 1)
    written_snapshot(log, 10, 0)
    assert not log.truncate_to_latest_snapshot()
    append(log, 10, 1)
    written_snapshot(log, 10, 1)
    assert not log.truncate_to_latest_snapshot()
    assert (log.start_offset, log.end_offset.offset) == (0, 20)


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateReplicatedLogTruncatesFully")
def test_create_replicated_log_truncates_fully(quorum):
    log = quorum.open()
    append(log, 10, 1)
    newest = written_snapshot(log, 11, 2)
    log.close()
    second = quorum.open()
    assert second.snapshots.latest == newest
    assert_is_all_in(second, newest)


def full_batch(epoch: int, record_size: int, batch_size: int) -> MemoryRecords:
    """As many records as fit."""
    builder = RecordsBuilder(partition_leader_epoch=epoch, write_limit=batch_size)
    while builder.has_room_for(0, None, bytes(record_size)):
        builder.append(0, None, bytes(record_size))
    return builder.build()


@pytest.mark.conformance("KafkaMetadataLogTest.testMaxBatchSize")
def test_max_batch_size(quorum):
    log = quorum.open(max_batch_size=16384)
    too_large = full_batch(5, 64, 16384 + 64)
    assert too_large.size > 16384
    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(too_large, 5)
    first, _ = log.append_as_leader(full_batch(5, 64, 16384), 5)
    assert first == 0


@pytest.mark.conformance("KafkaMetadataLogTest.testTruncateBelowHighWatermark")
def test_truncate_below_high_watermark(quorum):
    log = quorum.open()
    append(log, 10, 5)
    assert log.end_offset.offset == 10
    log.update_high_watermark(10)
    assert log.high_watermark == 10
    with pytest.raises(ValueError, match="high watermark"):
        log.truncate_to(5)
    assert (log.high_watermark, log.end_offset.offset) == (10, 10)


@pytest.mark.conformance("KafkaMetadataLogTest.testAdvanceLogStartOffsetAfterCleaning")
def test_advance_log_start_offset_after_cleaning(quorum):
    log = quorum.open(segment_size=512, retention_size=256, max_batch_size=512)
    for _ in range(101):
        append(log, 47, 1)
    assert not log.retention.maybe_clean()
    log.update_high_watermark(4000)
    assert not log.retention.maybe_clean()
    written_snapshot(log, 1000, 1)
    newest = written_snapshot(log, 2000, 1)
    before = log.start_offset
    assert log.retention.maybe_clean()
    assert before < log.start_offset == newest.offset


@pytest.mark.conformance("KafkaMetadataLogTest.testSegmentsLessThanLatestSnapshot")
def test_segments_less_than_latest_snapshot(quorum):
    log = quorum.open(segment_size=10 * KB, retention_size=10 * KB, max_batch_size=200)
    for _ in range(2001):
        append(log, 10, 1)
    log.update_high_watermark(log.end_offset.offset)
    second, third = (segment.base_offset for segment in log.log.segments[1:3])
    written_snapshot(log, second, 1)
    newest = written_snapshot(log, third, 1)
    quorum.clock.sleep(2 * 7 * 24 * 60 * 60 * 1000)
    assert log.retention.maybe_clean()
    assert len(log.snapshots) == 1
    assert log.start_offset > 0
    assert log.snapshots.latest == newest
    assert newest.offset >= log.start_offset
