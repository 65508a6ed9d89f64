"""What Kafka's KafkaMetadataLogTest asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.broker.raft.metadata_log import MetadataLog, MetadataLogConfig
from engine.broker.raft.raft_snapshot import SnapshotId
from engine.errors import InvalidOffsetError, RecordTooLargeError
from engine.files.file_names import kraft_checkpoint_name
from engine.log.folder_listing import KRaftSnapshot
from engine.log.log_view import LogView
from engine.log.segment.scan import BatchRun
from engine.record.memory_records import MemoryRecords
from engine.writing.records.building import records_of
from engine.writing.records.records_builder import RecordsBuilder
from engine.writing.records.simple_record import SimpleRecord
from tests.clocks import MockClock, MockScheduler
from tests.conformance.malformed_records import MALFORMED
from tests.engine.log.folders import LogWriter

NAME = "__cluster_metadata-0"


def kinds(view: LogView) -> set[str]:
    return {problem["kind"] for problem in view.problems}


def snapshot(writer: LogWriter, end_offset: int, epoch: int, suffix: str = "") -> str:
    name = kraft_checkpoint_name(end_offset, epoch) + suffix
    (writer.folder / name).touch()
    return name


@pytest.mark.conformance("KafkaMetadataLogTest.testInvalidMemoryRecords")
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_invalid_memory_records(tmp_path: Path, data: bytes) -> None:
    writer = LogWriter(tmp_path, NAME)
    writer.append_records(b"before")
    with writer.records_file.open("ab") as file:
        file.write(data)
    view = writer.view()
    assert view.log_end_offset == 1
    assert sum(len(item.table) for _, item in view.runs() if isinstance(item, BatchRun)) == 1


@pytest.mark.conformance("KafkaMetadataLogTest.testRandomRecords")
@given(st.binary(min_size=1, max_size=128))
def test_random_records(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    writer = LogWriter(tmp_path_factory.mktemp("log"), NAME)
    writer.append_records(b"before")
    with writer.records_file.open("ab") as file:
        file.write(data)
    assert writer.view().log_end_offset == 1


@pytest.mark.conformance("KafkaMetadataLogTest.testReadMissingSnapshot")
def test_read_missing_snapshot(tmp_path: Path) -> None:
    view = LogWriter(tmp_path, NAME).view()
    assert view.kraft_snapshots == ()
    with pytest.raises(FileNotFoundError):
        view.read_side_file(kraft_checkpoint_name(10, 0))


@pytest.mark.conformance("KafkaMetadataLogTest.testStartupWithInvalidSnapshotState")
def test_startup_with_invalid_snapshot_state(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME, base_offset=100)
    assert kinds(writer.view()) == {"kraft_snapshot"}
    snapshot(writer, 50, 1)
    assert kinds(writer.view()) == {"kraft_snapshot"}
    snapshot(writer, 100, 1)
    assert kinds(writer.view()) == set()
    writer.records_file.unlink()
    writer.roll(200, index_interval=None)
    snapshot(writer, 500, 1)
    view = writer.view()
    assert kinds(view) == set()
    assert (view.log_start_offset, view.log_end_offset) == (500, 500)


@pytest.mark.conformance("KafkaMetadataLogTest.testSnapshotDeletionWithInvalidSnapshotState")
def test_snapshot_deletion_with_invalid_snapshot_state(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME, base_offset=100)
    name = snapshot(writer, 100, 1, ".deleted")
    view = writer.view()
    assert kinds(view) == {"kraft_snapshot"}
    assert [leftover.name for leftover in view.leftovers] == [name]
    assert (writer.folder / name).exists()


@pytest.mark.conformance("KafkaMetadataLogTest.testCleanupPartialSnapshots")
def test_cleanup_partial_snapshots(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME)
    for _ in range(10):
        writer.append_records(b"foo", leader_epoch=1)
    snapshot(writer, 1, 1)
    partial = {
        f"{offset:020}-{epoch:010}-{offset}xyz.checkpoint.part"
        for offset, epoch in ((0, 0), (1, 1), (2, 2))
    }
    for name in partial:
        (writer.folder / name).touch()
    view = writer.view()
    assert view.kraft_snapshots == (KRaftSnapshot(1, 1),)
    assert (view.log_start_offset, view.log_end_offset, view.high_watermark) == (0, 10, 0)
    assert view.leader_epochs.latest is not None
    assert view.leader_epochs.latest.epoch == 1
    assert {leftover.name for leftover in view.leftovers} == partial


@pytest.mark.conformance("KafkaMetadataLogTest.testCleanupOlderSnapshots")
def test_cleanup_older_snapshots(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, NAME)
    older = [snapshot(writer, *each) for each in ((1, 0), (2, 1), (10, 1))]
    writer.append_records(b"foo", leader_epoch=0)
    for _ in range(19):
        writer.append_records(b"foo", leader_epoch=1)
    snapshot(writer, 30, 1)
    view = writer.view()
    assert view.kraft_snapshots == (KRaftSnapshot(30, 1),)
    assert (view.log_start_offset, view.log_end_offset) == (30, 30)
    assert [leftover.name for leftover in view.leftovers] == older


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
