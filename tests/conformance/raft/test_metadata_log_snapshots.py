"""What Kafka's KafkaMetadataLogTest asks of creating and deleting snapshots, and of a follower's offset and epoch.

Newer versions of Kafka call the class KafkaRaftLogTest; the steps are those of that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.broker.raft.metadata_log import MetadataLog, Validity
from engine.broker.raft.raft_snapshot import SnapshotId
from tests.conformance.raft.test_kafka_metadata_log import (
    TOPIC_ID,
    USUAL,
    Quorum,
    append,
    numbered,
    snapshots_in,
    written_snapshot,
)

REASON = "segments were deleted"


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    made = Quorum(tmp_path)
    yield made
    for log in made.opened:
        log.close()


@pytest.fixture
def log(quorum: Quorum) -> MetadataLog:
    return quorum.open()


def append_committed(log: MetadataLog, count: int, epoch: int) -> None:
    append(log, count, epoch)
    log.update_high_watermark(log.end_offset.offset)


# Creating


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshotFromEndOffset")
def test_create_snapshot_from_end_offset(log: MetadataLog) -> None:
    append(log, 10, 1)
    append_committed(log, 10, 3)
    for snapshot_id in (SnapshotId(10, 1), SnapshotId(20, 3)):
        writer = log.create_new_snapshot(snapshot_id)
        assert writer is not None
        writer.close()


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshotInMiddleOfBatch")
def test_create_snapshot_in_middle_of_batch(log: MetadataLog) -> None:
    append_committed(log, 10, 1)
    with pytest.raises(ValueError, match="inside the batch"):
        log.create_new_snapshot(SnapshotId(9, 1))


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshotLaterThanHighWatermark")
def test_create_snapshot_later_than_high_watermark(log: MetadataLog) -> None:
    append_committed(log, 10, 1)
    with pytest.raises(ValueError, match="above the high watermark"):
        log.create_new_snapshot(SnapshotId(11, 1))


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshotMuchLaterEpoch")
def test_create_snapshot_much_later_epoch(log: MetadataLog) -> None:
    append_committed(log, 10, 1)
    with pytest.raises(ValueError, match="not one of this log"):
        log.create_new_snapshot(SnapshotId(10, 2))


@pytest.mark.conformance("KafkaMetadataLogTest.testHighWatermarkOffsetMetadata")
def test_high_watermark_offset_metadata(log: MetadataLog) -> None:
    append_committed(log, 10, 1)
    found = log.log.watermarks.high_watermark_metadata()
    assert (found.offset, found.segment_base_offset) == (10, 0)
    assert found.position > 0


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshotBeforeLogStartOffset")
def test_create_snapshot_before_log_start_offset(log: MetadataLog) -> None:
    for _ in range(10):
        append_committed(log, 1, 1)
    written_snapshot(log, 6, 1, checked=True)
    log.log.maybe_increment_log_start_offset(5, REASON)
    assert log.create_new_snapshot(SnapshotId(4, 1)) is None


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshotDivergingEpoch")
def test_create_snapshot_diverging_epoch(log: MetadataLog) -> None:
    append_committed(log, 10, 2)
    with pytest.raises(ValueError, match="not one of this log"):
        log.create_new_snapshot(SnapshotId(10, 1))


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshotOlderEpoch")
def test_create_snapshot_older_epoch(log: MetadataLog) -> None:
    append_committed(log, 10, 2)
    written_snapshot(log, 10, 2, checked=True)
    with pytest.raises(ValueError, match="not one of this log"):
        log.create_new_snapshot(SnapshotId(10, 1))


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateSnapshotWithMissingEpoch")
def test_create_snapshot_with_missing_epoch(log: MetadataLog) -> None:
    append(log, 5, 1)
    append_committed(log, 5, 3)
    for offset in (1, 5, 5):
        with pytest.raises(ValueError, match="not one of this log"):
            log.create_new_snapshot(SnapshotId(offset, 2))


@pytest.mark.conformance("KafkaMetadataLogTest.testCreateExistingSnapshot")
def test_create_existing_snapshot(log: MetadataLog) -> None:
    append_committed(log, 10, 1)
    existing = written_snapshot(log, 10, 1, checked=True)
    assert log.create_new_snapshot(existing) is None


@pytest.mark.conformance("KafkaMetadataLogTest.testTopicId")
def test_topic_id(log: MetadataLog) -> None:
    assert log.log.topic_id == TOPIC_ID


@pytest.mark.conformance("KafkaMetadataLogTest.testSegmentMsConfigIsSetInMetadataLog")
def test_segment_ms_config_is_set_in_metadata_log(log: MetadataLog) -> None:
    assert log.log.config.segment_ms == USUAL["segment_ms"]


# Reading and deleting


@pytest.mark.conformance("KafkaMetadataLogTest.testReadMissingSnapshotFile")
def test_read_missing_snapshot_file(quorum: Quorum, log: MetadataLog) -> None:
    missing = written_snapshot(log, 10, 0)
    (quorum.folder / "00000000000000000010-0000000000.checkpoint").unlink()
    assert log.snapshots.read(missing) is None
    assert len(log.snapshots) == 0


@pytest.mark.conformance("KafkaMetadataLogTest.testDeleteNonExistentSnapshot")
def test_delete_non_existent_snapshot(log: MetadataLog) -> None:
    append_committed(log, 10, 0)
    assert not log.retention.delete_before(SnapshotId(2, 0))
    assert log.start_offset == 0
    assert log.last_fetched_epoch == 0
    assert log.end_offset.offset == log.high_watermark == 10


@pytest.mark.conformance("KafkaMetadataLogTest.testTruncateWillRemoveOlderSnapshot")
def test_truncate_will_remove_older_snapshot(quorum: Quorum, log: MetadataLog) -> None:
    for count, epoch, end in ((1, 0, 1), (1, 1, 2), (8, 1, 10)):
        append(log, count, epoch)
        written_snapshot(log, end, epoch)
    written_snapshot(log, 30, 1)
    assert log.snapshots.earliest != log.snapshots.latest
    assert log.truncate_to_latest_snapshot()
    assert log.snapshots.earliest == log.snapshots.latest
    log.close()
    quorum.clock.sleep(log.config.delete_delay_ms)
    assert [each.base_offset for each in snapshots_in(quorum.folder)] == [30]


@pytest.mark.conformance("KafkaMetadataLogTest.testDeleteSnapshots")
def test_delete_snapshots(quorum: Quorum) -> None:
    log = quorum.open(segment_size=1024, retention_size=1024, max_batch_size=100)
    for _ in range(1000):
        append(log, 1, 1)
    log.update_high_watermark(1001)
    for offset in (100, 200, 300, 400, 500, 600):
        written_snapshot(log, offset, 1)
    assert len(log.snapshots) == 6
    assert log.retention.maybe_clean()
    assert log.snapshots.ids() == [SnapshotId(600, 1)]
    assert log.start_offset == 600


@pytest.mark.conformance("KafkaMetadataLogTest.testSoftRetentionLimit")
def test_soft_retention_limit(quorum: Quorum) -> None:
    log = quorum.open(segment_size=10240, retention_size=10240, max_batch_size=100)
    for _ in range(2000):
        append(log, 1, 1)
    log.update_high_watermark(2000)
    for offset in (1000, 2000):
        writer = log.snapshots.create(SnapshotId(offset, 1))
        assert writer is not None
        with writer:
            writer.append(numbered(0, 500, 0))
            writer.freeze()
    assert log.retention.maybe_clean()
    assert log.snapshots.ids() == [SnapshotId(2000, 1)]
    reader = log.snapshots.read(SnapshotId(2000, 1))
    assert reader is not None
    assert reader.size + log.log.size > log.config.retention_size


# A follower's offset and epoch


def valid(offset: int, epoch: int) -> Validity:
    return Validity("valid", SnapshotId(offset, epoch))


def diverging(offset: int, epoch: int) -> Validity:
    return Validity("diverging", SnapshotId(offset, epoch))


@pytest.mark.conformance("KafkaMetadataLogTest.testValidateEpochGreaterThanLastKnownEpoch")
def test_validate_epoch_greater_than_last_known_epoch(log: MetadataLog) -> None:
    append(log, 1, 1)
    assert log.validate_offset_and_epoch(1, 2) == diverging(log.end_offset.offset, 1)


@pytest.mark.conformance("KafkaMetadataLogTest.testValidateEpochLessThanOldestSnapshotEpoch")
def test_validate_epoch_less_than_oldest_snapshot_epoch(log: MetadataLog) -> None:
    append_committed(log, 10, 1)
    snapshot_id = written_snapshot(log, 10, 1, checked=True)
    assert log.validate_offset_and_epoch(10, 0) == Validity("snapshot", snapshot_id)


@pytest.mark.conformance("KafkaMetadataLogTest.testValidateOffsetLessThanOldestSnapshotOffset")
def test_validate_offset_less_than_oldest_snapshot_offset(log: MetadataLog) -> None:
    append_committed(log, 2, 1)
    snapshot_id = written_snapshot(log, 2, 1, checked=True)
    log.log.maybe_increment_log_start_offset(2, REASON)
    assert log.validate_offset_and_epoch(1, 1) == Validity("snapshot", snapshot_id)


@pytest.mark.conformance("KafkaMetadataLogTest.testValidateOffsetEqualToOldestSnapshotOffset")
def test_validate_offset_equal_to_oldest_snapshot_offset(log: MetadataLog) -> None:
    append_committed(log, 2, 1)
    snapshot_id = written_snapshot(log, 2, 1, checked=True)
    assert log.validate_offset_and_epoch(2, 1) == valid(*snapshot_id)


def begin_with_snapshot(log: MetadataLog) -> SnapshotId:
    """Let the log begin at 10, where a snapshot of epoch 1 ends."""
    log.update_high_watermark(10)
    snapshot_id = written_snapshot(log, 10, 1)
    log.truncate_to_latest_snapshot()
    return snapshot_id


@pytest.mark.conformance(
    "KafkaMetadataLogTest.testValidateUnknownEpochLessThanLastKnownGreaterThanOldestSnapshot"
)
def test_validate_unknown_epoch_less_than_last_known_greater_than_oldest_snapshot(
    log: MetadataLog,
) -> None:
    begin_with_snapshot(log)
    for epoch in (1, 2, 4):
        append(log, 5, epoch)
    assert log.validate_offset_and_epoch(100, 3) == diverging(20, 2)


@pytest.mark.conformance("KafkaMetadataLogTest.testValidateEpochLessThanFirstEpochInLog")
def test_validate_epoch_less_than_first_epoch_in_log(log: MetadataLog) -> None:
    snapshot_id = begin_with_snapshot(log)
    append(log, 5, 3)
    assert log.validate_offset_and_epoch(100, 2) == diverging(*snapshot_id)


@pytest.mark.conformance("KafkaMetadataLogTest.testValidateOffsetGreatThanEndOffset")
def test_validate_offset_great_than_end_offset(log: MetadataLog) -> None:
    append(log, 1, 1)
    assert log.validate_offset_and_epoch(2, 1) == diverging(log.end_offset.offset, 1)


@pytest.mark.conformance("KafkaMetadataLogTest.testValidateOffsetLessThanLEO")
def test_validate_offset_less_than_leo(log: MetadataLog) -> None:
    append(log, 10, 1)
    append(log, 10, 2)
    assert log.validate_offset_and_epoch(11, 1) == diverging(10, 1)


@pytest.mark.conformance("KafkaMetadataLogTest.testValidateValidEpochAndOffset")
def test_validate_valid_epoch_and_offset(log: MetadataLog) -> None:
    append(log, 5, 1)
    assert log.validate_offset_and_epoch(4, 1) == valid(4, 1)
