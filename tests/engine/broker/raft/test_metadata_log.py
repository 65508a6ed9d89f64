"""Snapshots and the log that starts where they end: what is refused, what is kept and what goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.raft.metadata_log import MetadataLog
from engine.broker.raft.raft_snapshot import SnapshotId
from engine.errors import CorruptRecordError, StateError
from engine.log.segment.fetch import FetchIsolation
from engine.record.control_records import ControlRecordType
from engine.record.encoding import building
from engine.record.memory_records import MemoryRecords
from tests.conformance.raft.test_kafka_metadata_log import (
    Quorum,
    append,
    numbered,
    written_snapshot,
)


@pytest.fixture
def quorum(tmp_path: Path):
    made = Quorum(tmp_path)
    yield made
    for log in made.opened:
        log.close()


def with_header(log: MetadataLog, offset: int, epoch: int, timestamp: int) -> SnapshotId:
    """A snapshot that says how new its last record is."""
    snapshot_id = SnapshotId(offset, epoch)
    fields = {"lastContainedLogTimestamp": timestamp}
    writer = log.snapshots.create(snapshot_id)
    assert writer is not None
    with writer:
        writer.append(
            building.quorum_batch(
                ControlRecordType.SNAPSHOT_HEADER,
                fields,
                base_offset=0,
                timestamp=timestamp,
                leader_epoch=epoch,
            )
        )
        writer.freeze()
    return snapshot_id


def test_a_snapshot_is_made_once_and_not_below_the_start(quorum):
    log = quorum.open()
    append(log, 10, 1)
    append(log, 10, 1)
    log.update_high_watermark(20)
    kept = written_snapshot(log, 10, 1, checked=True)
    assert log.create_new_snapshot(kept) is None
    newest = written_snapshot(log, 20, 1, checked=True)
    assert log.retention.delete_before(newest)
    assert log.create_new_snapshot(SnapshotId(10, 1)) is None
    assert log.snapshots.earliest == log.snapshots.latest == newest


def test_deleted_snapshots_are_marked_and_removed_later(quorum):
    log = quorum.open()
    append(log, 10, 1)
    append(log, 10, 1)
    log.update_high_watermark(20)
    old, newest = written_snapshot(log, 10, 1), written_snapshot(log, 20, 1)
    assert log.snapshots.read(old) is not None
    assert not log.retention.delete_before(SnapshotId(15, 1))
    assert log.retention.delete_before(newest)
    live, marked = "00000000000000000020-0000000001.checkpoint", "00000000000000000010-0000000001"
    assert {path.name for path in quorum.folder.glob("*checkpoint*")} >= {
        live,
        f"{marked}.checkpoint.deleted",
    }
    quorum.clock.sleep(60_000)
    assert not list(quorum.folder.glob(f"{marked}*"))
    assert (quorum.folder / live).exists()


def test_old_snapshots_go_and_the_newest_stays(quorum):
    log = quorum.open(retention_size=-1)
    for _ in range(3):
        append(log, 10, 1)
    log.update_high_watermark(30)
    now = quorum.clock.now_ms()
    with_header(log, 10, 1, now - 70_000)
    with_header(log, 20, 1, now - 61_000)
    newest = with_header(log, 30, 1, now - 60_500)
    assert log.retention.maybe_clean()
    assert (len(log.snapshots), log.snapshots.latest, log.start_offset) == (1, newest, 30)
    assert not log.retention.maybe_clean()


def test_a_young_snapshot_keeps_those_after_it(quorum):
    log = quorum.open(retention_size=-1)
    for _ in range(3):
        append(log, 10, 1)
    log.update_high_watermark(30)
    now = quorum.clock.now_ms()
    with_header(log, 10, 1, now)
    with_header(log, 20, 1, now - 70_000)
    with_header(log, 30, 1, now)
    assert not log.retention.maybe_clean()
    assert len(log.snapshots) == 3


def test_a_snapshot_without_a_header_has_no_age(quorum):
    log = quorum.open(retention_size=-1)
    append(log, 10, 1)
    written_snapshot(log, 5, 1)
    written_snapshot(log, 10, 1)
    with pytest.raises(StateError, match="no header"):
        log.retention.maybe_clean()


def test_opening_removes_what_is_not_whole_marked_or_below_the_start(quorum):
    log = quorum.open()
    append(log, 10, 1)
    append(log, 10, 1)
    log.update_high_watermark(20)
    newest = written_snapshot(log, 10, 1)
    assert log.retention.delete_before(newest) is False
    assert log.start_offset == 10
    log.log.roll()
    log.close()
    for left in (
        "00000000000000000020-0000000001-7.checkpoint.part",
        "00000000000000000005-0000000001.checkpoint.deleted",
    ):
        (quorum.folder / left).touch()
    again = quorum.open()
    found = {path.name for path in quorum.folder.glob("*checkpoint*")} - {"leader-epoch-checkpoint"}
    assert found == {"00000000000000000010-0000000001.checkpoint"}
    assert again.snapshots.latest == newest
    assert again.end_offset.offset == 20


def test_a_log_that_starts_above_zero_needs_a_snapshot(quorum):
    log = quorum.open()
    written_snapshot(log, 100, 1)
    assert log.truncate_to_latest_snapshot()
    log.close()
    (quorum.folder / "00000000000000000100-0000000001.checkpoint").unlink()
    with pytest.raises(StateError, match="no snapshot"):
        quorum.open()


def test_half_a_batch_is_not_appended(quorum):
    log = quorum.open()
    half = MemoryRecords(numbered(0, 3, 1).buffer[:50])
    with pytest.raises(CorruptRecordError):
        log.append_as_leader(half, 1)
    assert log.end_offset.offset == 0


def test_committed_readers_stop_at_the_high_watermark(quorum):
    log = quorum.open()
    append(log, 3, 1)
    append(log, 3, 1)
    log.update_high_watermark(3)
    seen = {}
    for isolation in (FetchIsolation.HIGH_WATERMARK, FetchIsolation.LOG_END):
        fetched = log.read(0, 1 << 20, isolation)
        seen[isolation.name] = [record.offset for record in fetched.records.records()]
    assert seen == {"HIGH_WATERMARK": [0, 1, 2], "LOG_END": [0, 1, 2, 3, 4, 5]}
