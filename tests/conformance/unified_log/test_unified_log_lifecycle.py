"""What Kafka's UnifiedLogTest asks of topic ids, renaming, splitting, closing and failing disks."""

from __future__ import annotations

import errno
import shutil
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import Disk, StrPath, WritableFile
from engine.errors import InconsistentTopicIdError, KafkaStorageError, LogDirFailureError
from engine.record.encoding.building import records_of
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT64, TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import log_delete_dir_name, parse_topic_partition_name
from tests.conformance.unified_log_steps import (
    LARGEST,
    LogBench,
    all_records,
    one,
    overflows,
    rec,
)

MIB = 1024 * 1024


def random_topic_id() -> str:
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def topic_id_on_disk(log: UnifiedLog) -> str:
    file = log.topic_identity.file
    assert file is not None
    assert file.exists()
    return file.read().topic_id


def record_unflushed(log: UnifiedLog, topic_id: str) -> None:
    assert log.topic_identity.file is not None
    log.topic_identity.file.record(topic_id)


@pytest.mark.conformance("UnifiedLogTest.testLogReinitializeAfterManualDelete")
def test_log_reinitialize_after_manual_delete(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open(log_start_offset=500)
    assert (log.log_start_offset, log.log_end_offset) == (500, 500)


@pytest.mark.conformance("UnifiedLogTest.testLogRollAfterLogHandlerClosed")
def test_log_roll_after_log_handler_closed(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open()
    log.close_handlers()
    with pytest.raises(KafkaStorageError):
        log.roll(1)


@pytest.mark.conformance("UnifiedLogTest.testFlushingEmptyActiveSegments")
def test_flushing_empty_active_segments(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    log.append_as_leader(bench.at_now("Test"), 0)
    log.roll()
    assert (len(bench.names(".log")), len(bench.names(".index"))) == (2, 1)
    assert log.active_segment.size == 0
    log.flush(force_active_segment=True)
    assert (len(bench.names(".log")), len(bench.names(".index"))) == (2, 2)


@pytest.mark.conformance("UnifiedLogTest.testLogFlushesPartitionMetadataOnAppend")
def test_log_flushes_partition_metadata_on_append(tmp_path: Path) -> None:
    log = LogBench(tmp_path).open()
    topic_id = random_topic_id()
    record_unflushed(log, topic_id)
    log.append_as_leader(one("simpleValue"), 0)
    assert topic_id_on_disk(log) == topic_id


@pytest.mark.conformance("UnifiedLogTest.testLogFlushesPartitionMetadataOnClose")
def test_log_flushes_partition_metadata_on_close(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    topic_id = random_topic_id()
    record_unflushed(log, topic_id)
    log.close()
    assert topic_id_on_disk(bench.open()) == topic_id


@pytest.mark.conformance("UnifiedLogTest.testLogRecoversTopicId")
def test_log_recovers_topic_id(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    topic_id = random_topic_id()
    log.assign_topic_id(topic_id)
    log.close()
    log = bench.open()
    assert log.topic_id == topic_id
    log.close()


@pytest.mark.conformance("UnifiedLogTest.testLogFailsWhenInconsistentTopicIdSet")
def test_log_fails_when_inconsistent_topic_id_set(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = bench.open()
    log.assign_topic_id(random_topic_id())
    log.close()
    with pytest.raises(InconsistentTopicIdError):
        bench.open(topic_id=random_topic_id())


def renaming_log(bench: LogBench) -> UnifiedLog:
    return bench.log(segment_size=1000, index_interval=1, max_message_size=64 * 1024)


def rename_to_delete(log: UnifiedLog) -> None:
    partition = parse_topic_partition_name(log.folder)
    log.rename_folder(log_delete_dir_name(partition))


@pytest.mark.conformance("UnifiedLogTest.testWriteLeaderEpochCheckpointAfterDirectoryRename")
def test_write_leader_epoch_checkpoint_after_directory_rename(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = renaming_log(bench)
    log.append_as_leader(one("foo"), 5)
    assert log.leader_epoch_cache.latest_epoch == 5
    rename_to_delete(log)
    log.append_as_leader(one("foo"), 10)
    assert log.leader_epoch_cache.latest_epoch == 10
    assert "10 1" in Path(log.folder, "leader-epoch-checkpoint").read_text().splitlines()
    assert not (bench.folder / "leader-epoch-checkpoint").exists()


@pytest.mark.conformance("UnifiedLogTest.testTopicIdTransfersAfterDirectoryRename")
def test_topic_id_transfers_after_directory_rename(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = renaming_log(bench)
    topic_id = random_topic_id()
    log.assign_topic_id(topic_id)
    log.append_as_leader(one("foo"), 5)
    assert log.leader_epoch_cache.latest_epoch == 5
    rename_to_delete(log)
    log.append_as_leader(one("foo"), 10)
    assert log.leader_epoch_cache.latest_epoch == 10
    assert Path(log.folder, "partition.metadata").exists()
    assert not (bench.folder / "partition.metadata").exists()
    assert log.topic_id == topic_id_on_disk(log) == topic_id


@pytest.mark.conformance("UnifiedLogTest.testTopicIdFlushesBeforeDirectoryRename")
def test_topic_id_flushes_before_directory_rename(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    log = renaming_log(bench)
    topic_id = random_topic_id()
    record_unflushed(log, topic_id)
    rename_to_delete(log)
    assert Path(log.folder, "partition.metadata").exists()
    assert not (bench.folder / "partition.metadata").exists()
    assert topic_id_on_disk(log) == topic_id


@pytest.mark.conformance("UnifiedLogTest.testRenamingDirWithoutReinitialization")
def test_renaming_dir_without_reinitialization(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=MIB)
    assert len(log.segments) == 1
    renamed = tmp_path / "kafka-1"
    renamed.mkdir()
    log.rename_folder(renamed.name, should_reinitialize=False)
    assert log.folder == str(renamed)
    assert log.leader_epoch_cache.is_empty
    assert log.topic_identity.file is None
    assert log.log_end_offset == 0
    log.delete()
    assert len(log.segments) == 0
    assert not renamed.exists()


@pytest.mark.conformance("UnifiedLogTest.testLoadPartitionDirWithNoSegmentsShouldNotThrow")
def test_load_partition_dir_with_no_segments_should_not_throw(tmp_path: Path) -> None:
    folder = tmp_path / log_delete_dir_name(TopicPartition("foo", 3))
    folder.mkdir()
    log = LogBench(tmp_path).open(folder=folder)
    assert len(log.segments) == 1


@pytest.mark.conformance("UnifiedLogTest.testBackgroundDeletionWithIOException")
def test_background_deletion_with_io_exception(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log(segment_size=MIB)
    assert len(log.segments) == 1
    shutil.rmtree(log.folder)
    Path(log.folder).touch()
    with pytest.raises(LogDirFailureError):
        log.delete()
    assert log.log_folder.channel.has_offline_log_dir(str(tmp_path))


@pytest.mark.conformance(
    "UnifiedLogTest.testRecoveryPointNotIncrementedOnProducerStateSnapshotFlushFailure"
)
def test_recovery_point_not_incremented_on_producer_state_snapshot_flush_failure(
    tmp_path: Path,
) -> None:
    class NoSnapshotOpens(Disk):
        def open(self, path: StrPath, **how: bool) -> WritableFile:
            if str(path).endswith(".snapshot"):
                raise OSError(errno.EIO, "injected")
            return super().open(path, **how)

    log = LogBench(tmp_path).open()
    log.log_folder.disk = NoSnapshotOpens()
    log.append_as_leader(one("a"), 0)
    with pytest.raises(LogDirFailureError, match="cannot flush a producer snapshot"):
        log.roll(1)
    assert log.recovery_point == 0


def write_segment(folder: Path, base_offset: int, *batches: MemoryRecords) -> None:
    """A records file, with empty indexes so that it is not recovered, which would cut it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(bytes(records.buffer) for records in batches))
    path.with_suffix(".index").touch()
    path.with_suffix(".timeindex").touch()


def far_apart(base_offset: int) -> list[MemoryRecords]:
    """Batches that reach as far as offsets of one segment may."""

    def batch(*offsets: int) -> MemoryRecords:
        records = [rec(str(offset), key=b"%d" % offset) for offset in offsets]
        return records_of(*records, base_offset=offsets[0], partition_leader_epoch=0)

    return [
        batch(base_offset),
        batch(base_offset + 1, base_offset + 2),
        batch(base_offset + LARGEST - 1),
    ]


@pytest.mark.conformance("UnifiedLogTest.testSplitOnOffsetOverflow")
def test_split_on_offset_overflow(tmp_path: Path) -> None:
    bench = LogBench(tmp_path)
    starts = [number * LARGEST for number in range(4)]
    write_segment(bench.folder, starts[0], *far_apart(starts[0]))
    write_segment(bench.folder, starts[1], *far_apart(starts[1]), *far_apart(starts[2]))
    write_segment(bench.folder, starts[3], *far_apart(starts[3]))
    log = bench.open(
        LogConfig(index_interval=1, file_delete_delay_ms=1000), recovery_point=MAX_INT64
    )
    (too_long,) = overflows(log)
    before = all_records(log)
    log.split_overflowed_segment(too_long)
    assert len(log.segments) == 4
    assert all_records(log) == before
    assert overflows(log) == []


def check_degenerate_split(bench: LogBench, first_offset: int, *batches: MemoryRecords) -> None:
    """All that the segment holds overflows it: one segment takes its place."""
    write_segment(bench.folder, 0, *batches)
    log = bench.open(
        LogConfig(index_interval=1, file_delete_delay_ms=1000), recovery_point=MAX_INT64
    )
    (too_long,) = overflows(log)
    before = all_records(log)
    log.split_overflowed_segment(too_long)
    assert [segment.base_offset for segment in log.segments] == [first_offset]
    assert all_records(log) == before
    assert overflows(log) == []


@pytest.mark.conformance("UnifiedLogTest.testDegenerateSegmentSplit")
def test_degenerate_segment_split(tmp_path: Path) -> None:
    first = LARGEST + 1
    check_degenerate_split(
        LogBench(tmp_path),
        first,
        records_of(rec("a"), base_offset=first, partition_leader_epoch=0),
        records_of(rec("b"), base_offset=first + 1, partition_leader_epoch=0),
    )


@pytest.mark.conformance("UnifiedLogTest.testDegenerateSegmentSplitWithOutOfRangeBatchLastOffset")
def test_degenerate_segment_split_with_out_of_range_batch_last_offset(tmp_path: Path) -> None:
    first = LARGEST - 1
    records = records_of(rec("a"), rec("b"), rec("c"), base_offset=first, partition_leader_epoch=0)
    check_degenerate_split(LogBench(tmp_path), first, records)
