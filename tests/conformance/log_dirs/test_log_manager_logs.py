"""What Kafka's LogManagerTest asks of creating, upholding and deleting logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_dirs import LogManager
from engine.errors import OffsetOutOfRangeError
from engine.files.file_names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from tests.conformance.log_managers import (
    CONFIG,
    INITIAL_TASK_DELAY_MS,
    MAX_LOG_AGE_MS,
    FailingDisk,
    Managers,
    age,
    append,
    log_of,
)
from tests.conformance.unified_log_steps import one

KAFKA_0 = TopicPartition("kafka", 0)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def manager(managers: Managers, log_dir: Path) -> LogManager:
    return managers.start([log_dir])


@pytest.mark.conformance("LogManagerTest.testCreateLog")
def test_create_log(manager: LogManager, log_dir: Path) -> None:
    log = log_of(manager)
    assert [*manager.dirs.live] == [str(log_dir)]
    assert (log_dir / "kafka-0").is_dir()
    append(log, 1)


@pytest.mark.conformance("LogManagerTest.testCreateLogWithInvalidLogDir")
def test_create_log_with_invalid_log_dir(managers: Managers, log_dir: Path) -> None:
    manager = managers.start([log_dir, "\0"])
    assert [*manager.dirs.live] == [str(log_dir)]
    log = log_of(manager, is_new=True)
    assert (log_dir / "kafka-0").is_dir()
    append(log, 1)


@pytest.mark.conformance("LogManagerTest.testCreateLogWithLogDirFallback")
def test_create_log_with_log_dir_fallback(managers: Managers, log_dir: Path) -> None:
    dirs = [str(log_dir / str(number)) for number in range(5)]
    disk = FailingDisk()
    manager = managers.start(dirs, disk=disk)
    disk.broken = set(dirs[:2])
    log_of(manager, is_new=True)
    assert len(disk.failed) == 2
    (made,) = log_dir.glob("*/kafka-0")
    assert str(made.parent) not in disk.broken
    manager.tasks.handle_failures()
    assert manager.dirs.offline == dirs[:2]


def assert_only_the_end_is_left(log: UnifiedLog, last_offset: int) -> None:
    """A records file, two indexes and a producer snapshot for each segment, and the leader epochs."""
    for segment in log.segments:
        assert segment.offset_index is not None
        assert segment.time_index is not None
    files = [each.name for each in Path(log.folder).iterdir()]
    assert len(files) == len(log.segments) * 4 + 1, files
    assert log.read(last_offset + 1, 1024).records.size == 0
    with pytest.raises(OffsetOutOfRangeError):
        log.read(0, 1024)
    append(log, 1)


@pytest.mark.conformance("LogManagerTest.testCleanupExpiredSegments")
def test_cleanup_expired_segments(manager: LogManager, managers: Managers) -> None:
    log = log_of(manager)
    last = append(log, 200)
    assert len(log.segments) > 1
    log.update_high_watermark(log.log_end_offset)
    age(log, managers.clock.ms)
    managers.clock.sleep(MAX_LOG_AGE_MS + 1)
    assert len(log.segments) == 1
    managers.clock.sleep(log.config.file_delete_delay_ms + 1)
    assert_only_the_end_is_left(log, last)


@pytest.mark.conformance("LogManagerTest.testCleanupSegmentsToMaintainSize")
def test_cleanup_segments_to_maintain_size(managers: Managers, log_dir: Path) -> None:
    size = one().size
    config = replace(CONFIG, segment_size=10 * size, retention_size=5 * 10 * size + 10)
    manager = managers.start([log_dir], topic_configs={"kafka": config})
    log = log_of(manager)
    last = append(log, 200)
    log.update_high_watermark(log.log_end_offset)
    assert len(log.segments) == 20
    managers.clock.sleep(INITIAL_TASK_DELAY_MS)
    assert len(log.segments) == 6
    managers.clock.sleep(log.config.file_delete_delay_ms + 1)
    assert_only_the_end_is_left(log, last)


def assert_is_not_cleaned(managers: Managers, log_dir: Path, config: LogConfig) -> None:
    """Kafka's test does not start its manager, so nothing would look for old segments; ours does."""
    manager = managers.start([log_dir], topic_configs={"kafka": config})
    log = log_of(manager)
    append(log, 200, key=b"test")
    log.update_high_watermark(log.log_end_offset)
    before = len(log.segments)
    assert before > 1
    age(log, managers.clock.ms)
    managers.clock.sleep(MAX_LOG_AGE_MS + 1)
    assert len(log.segments) == before
    manager.update_topic_config("kafka", replace(config, compact=False, delete=True))
    manager.tasks.cleanup_logs()
    assert len(log.segments) == 1


@pytest.mark.conformance("LogManagerTest.testDoesntCleanLogsWithCompactDeletePolicy")
def test_doesnt_clean_logs_with_compact_delete_policy(managers: Managers, log_dir: Path) -> None:
    assert_is_not_cleaned(managers, log_dir, replace(CONFIG, compact=True, delete=True))


@pytest.mark.conformance("LogManagerTest.testDoesntCleanLogsWithCompactPolicy")
def test_doesnt_clean_logs_with_compact_policy(managers: Managers, log_dir: Path) -> None:
    assert_is_not_cleaned(managers, log_dir, replace(CONFIG, compact=True, delete=False))


def recovery_points(log_dir: Path) -> dict[TopicPartition, int]:
    return OffsetCheckpointFile(log_dir / RECOVERY_POINT_CHECKPOINT).read()


@pytest.mark.conformance("LogManagerTest.testCheckpointRecoveryPoints")
def test_checkpoint_recovery_points(manager: LogManager, log_dir: Path) -> None:
    logs = [log_of(manager, name) for name in ("test-a-1", "test-b-1")]
    for log in logs:
        append(log, 50)
        log.flush()
    manager.checkpoints.write_recovery_points()
    assert recovery_points(log_dir) == {each.topic_partition: 50 for each in logs}


@pytest.mark.conformance("LogManagerTest.testCheckpointForOnlyAffectedLogs")
def test_checkpoint_for_only_affected_logs(manager: LogManager, log_dir: Path) -> None:
    names = ("test-a-0", "test-a-1", "test-a-2", "test-b-0", "test-b-1")
    logs = [log_of(manager, name) for name in names]
    for log in logs:
        append(log, 50)
        log.flush()
    manager.checkpoints.write_recovery_points(str(log_dir))
    found = recovery_points(log_dir)
    assert found == {each.topic_partition: each.recovery_point for each in logs}
    assert set(found.values()) == {50}


@pytest.mark.conformance("LogManagerTest.testCheckpointLogStartOffsetForNormalTopic")
def test_checkpoint_log_start_offset_for_normal_topic(manager: LogManager, log_dir: Path) -> None:
    checkpoint = OffsetCheckpointFile(log_dir / LOG_START_OFFSET_CHECKPOINT)
    log = log_of(manager, "test-0")
    for offset in range(50):
        append(log, 1)
        if offset and offset % 10 == 0:
            log.roll()
    assert len(log.segments) == 5
    log.update_high_watermark(49)
    log.maybe_increment_log_start_offset(31, "segments were deleted")
    manager.checkpoints.write_log_start_offsets()
    assert len(log.segments) == 5
    assert checkpoint.read() == {log.topic_partition: 31}
    log.delete_old_segments()
    assert len(log.segments) == 2
    assert log.log_start_offset == 31
    manager.checkpoints.write_log_start_offsets()
    assert checkpoint.read() == {}


@pytest.mark.conformance("LogManagerTest.testFileReferencesAfterAsyncDelete")
def test_file_references_after_async_delete(manager: LogManager, managers: Managers) -> None:
    segment = log_of(manager).active_segment
    paths = [
        segment.log.path,
        segment.offset_index.path,
        segment.time_index.path,
        segment.txn_index.path,
    ]
    names = [Path(path).name for path in paths]
    on_disk = {each.name for each in Path(paths[0]).parent.iterdir() if "index" in each.name}
    removed = manager.removal.async_delete(KAFKA_0)
    assert removed is not None
    assert removed.log_folder.name.endswith("-delete")
    segment = removed.active_segment
    after = [
        segment.log.path,
        segment.offset_index.path,
        segment.time_index.path,
        segment.txn_index.path,
    ]
    assert [Path(path) for path in after] == [Path(removed.folder, name) for name in names]
    assert on_disk <= set(names)
    assert not set(after) & set(paths)
    managers.clock.sleep(INITIAL_TASK_DELAY_MS)
    assert manager.deletions
    managers.clock.sleep(CONFIG.file_delete_delay_ms - INITIAL_TASK_DELAY_MS)
    assert not manager.deletions
    assert not Path(removed.folder).exists()


@pytest.mark.conformance("LogManagerTest.testCreateAndDeleteOverlyLongTopic")
def test_create_and_delete_overly_long_topic(manager: LogManager) -> None:
    log_of(manager, "x" * 253 + "-0")
    removed = manager.removal.async_delete(TopicPartition("x" * 253, 0))
    assert removed is not None
    assert len(removed.log_folder.name) == 255
    assert removed.log_folder.name.endswith("-delete")
