"""engine.broker.log_dirs.log_dirs: logs found, recovered, set aside, moved and deleted; log dirs that fail alone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.cleaning.log_cleaner import CleanerConfig
from engine.broker.log_dirs.log_dir_settings import LogDirSettings
from engine.broker.log_dirs.log_dirs import LogManager
from engine.errors import (
    DirectoryLockedError,
    InconsistentTopicIdError,
    InvalidNameError,
    LogDirFailureError,
    StateError,
)
from engine.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.scheduler import ThreadScheduler
from tests.conformance.log_managers import CONFIG, FailingDisk, Managers, append, log_of

KAFKA_0 = TopicPartition("kafka", 0)
FOO, BAR = "Sl08ZXU2QW6uF5hIoSzc8w", "69O438ZkTSeqqclTtZO2KA"


def crash(manager: LogManager) -> None:
    """Leave all as it is, but for the locks, which the system would drop."""
    for path in [*manager.dirs.live]:
        manager.tasks.handle_log_dir_failure(path)


def names(folder: Path, ending: str) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.name.endswith(ending))


# Shutdown, crash, start


def test_a_clean_shutdown_is_honoured_once(managers: Managers, tmp_path: Path) -> None:
    first = managers.start([tmp_path])
    append(log_of(first), 30)
    first.shutdown(7)
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    second = managers.make([tmp_path])
    assert second.dirs.read_broker_epoch() == 7
    second.startup()
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    found = second.registry.get(KAFKA_0)
    assert found is not None
    assert (found.log_end_offset, found.recovery_point) == (30, 30)
    crash(second)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()


def test_after_a_crash_what_was_torn_is_cut(managers: Managers, tmp_path: Path) -> None:
    first = managers.start([tmp_path])
    log = log_of(first)
    append(log, 5)
    path = Path(log.active_segment.log.path)
    crash(first)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    found = managers.start([tmp_path]).registry.get(KAFKA_0)
    assert found is not None
    assert found.log_end_offset == 4
    assert path.read_bytes() == whole[: len(whole) // 5 * 4]


def test_after_a_clean_shutdown_nothing_is_recovered(managers: Managers, tmp_path: Path) -> None:
    first = managers.start([tmp_path])
    log = log_of(first)
    append(log, 5)
    path = Path(log.active_segment.log.path)
    first.shutdown()
    damaged = path.read_bytes()[:-1] + b"\0"
    path.write_bytes(damaged)
    managers.start([tmp_path])
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("damage", [b"", b"0\n1\nkafka 0\n", b"\xff\xff"])
def test_a_checkpoint_that_cannot_be_read_costs_a_recovery_only(
    managers: Managers, tmp_path: Path, damage: bytes
) -> None:
    first = managers.start([tmp_path])
    append(log_of(first), 30)
    first.checkpoints.write_recovery_points()
    crash(first)
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_bytes(damage)
    (tmp_path / LOG_START_OFFSET_CHECKPOINT).write_bytes(damage)
    found = managers.start([tmp_path]).registry.get(KAFKA_0)
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, 30)


def test_log_start_and_high_watermark_come_back(managers: Managers, tmp_path: Path) -> None:
    first = managers.start([tmp_path])
    log = log_of(first)
    append(log, 10)
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(3, "records were deleted")
    first.shutdown()
    found = managers.start([tmp_path]).registry.get(KAFKA_0)
    assert found is not None
    assert (found.log_start_offset, found.high_watermark) == (3, 8)


def test_a_foreign_folder_is_refused_before_anything_changes(
    managers: Managers, dirs: list[Path]
) -> None:
    first = managers.start(dirs)
    log = log_of(first)
    append(log, 5)
    log.update_high_watermark(5)
    log.maybe_increment_log_start_offset(2, "records were deleted")
    first.shutdown()
    (dirs[1] / "lost+found").mkdir()
    before = {path: path.read_bytes() for path in dirs[0].rglob("*") if path.is_file()}
    second = managers.make(dirs)
    with pytest.raises(InvalidNameError, match="lost"), second:
        pass
    assert {path: path.read_bytes() for path in dirs[0].rglob("*") if path.is_file()} == before
    (dirs[1] / "lost+found").rmdir()
    found = managers.start(dirs).registry.get(KAFKA_0)
    assert found is not None
    assert found.log_start_offset == 2


def test_a_partition_in_two_log_dirs_is_refused_and_none_is_marked_clean(
    managers: Managers, dirs: list[Path]
) -> None:
    for log_dir in dirs:
        manager = managers.start([log_dir])
        append(log_of(manager), 1)
        manager.shutdown()
    with pytest.raises(StateError, match="kafka-0"), managers.make(dirs):
        pass
    assert sum((each / CLEAN_SHUTDOWN).exists() for each in dirs) == 1
    assert not any((each / LOCK).exists() for each in dirs)


# Log dirs


def test_a_log_dir_that_is_named_twice_is_refused(managers: Managers, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "one")
    with pytest.raises(ValueError, match="twice"):
        managers.make([tmp_path / "one", tmp_path / "link"])


def test_a_log_dir_of_another_process_is_refused_with_its_number(
    managers: Managers, dirs: list[Path]
) -> None:
    dirs[1].mkdir()
    script = (
        "import fcntl, sys\n"
        f"file = open({str(dirs[1] / LOCK)!r}, 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(DirectoryLockedError, match=str(dirs[1])) as caught:
            managers.make(dirs)
        assert caught.value.pid == other.pid
        assert not (dirs[0] / LOCK).exists()
        assert (dirs[1] / LOCK).exists()
        other.communicate()
    managers.start(dirs)


def test_a_log_dir_that_fails_while_it_is_loaded_leaves_the_others(
    managers: Managers, dirs: list[Path]
) -> None:
    first = managers.start(dirs)
    for name in ("kafka-0", "kafka-1"):
        append(log_of(first, name), 1)
    first.shutdown()
    disk = FailingDisk()
    disk.broken = {str(dirs[0] / "kafka-0")}
    second = managers.start(dirs, disk=disk)
    assert [*second.dirs.live] == [str(dirs[1])]
    assert [log.log_folder.name for log in second.registry.all] == ["kafka-1"]
    with pytest.raises(LogDirFailureError, match="offline"):
        log_of(second, "kafka-0")
    with pytest.raises(LogDirFailureError, match="offline"):
        second.removal.async_delete(KAFKA_0)
    second.shutdown()
    assert [(each / CLEAN_SHUTDOWN).exists() for each in dirs] == [False, True]


def test_failures_are_looked_for_by_the_scheduler(managers: Managers, dirs: list[Path]) -> None:
    manager = managers.start(dirs)
    append(log_of(manager), 1)
    manager.dirs.channel.maybe_add_offline_log_dir(
        str(dirs[0]), "a disk is gone", OSError(5, "gone")
    )
    assert not manager.dirs.is_online(dirs[0])
    assert manager.registry.get(KAFKA_0) is not None
    managers.clock.sleep(11_000)
    assert manager.registry.get(KAFKA_0) is None
    assert [*manager.dirs.live] == [str(dirs[1])]
    with pytest.raises(ValueError, match="not one of the log dirs"):
        manager.dirs.is_online(dirs[0] / "other")


def test_without_any_log_dir_nothing_can_be_created(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([tmp_path])
    manager.tasks.handle_log_dir_failure(str(tmp_path))
    with pytest.raises(LogDirFailureError, match="no log dir"):
        log_of(manager, is_new=True)


def test_new_logs_go_where_the_fewest_are(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([tmp_path / str(number) for number in range(3)])
    for number in range(7):
        log_of(manager, f"test-{number}")
        counts = [len(manager.registry.in_dir(path)) for path in manager.dirs.live]
        assert max(counts) <= min(counts) + 1


def test_a_log_can_be_asked_for_by_directory_id(managers: Managers, dirs: list[Path]) -> None:
    for log_dir, directory_id in zip(dirs, (FOO, BAR), strict=True):
        log_dir.mkdir()
        text = f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={directory_id}\n"
        (log_dir / "meta.properties").write_text(text)
    manager = managers.start(dirs)
    assert manager.dirs.directory_ids == {str(dirs[0]): FOO, str(dirs[1]): BAR}
    for number in range(3):
        assert log_of(manager, f"test-{number}", directory_id=BAR).parent_dir == str(dirs[1])


def test_a_log_of_another_topic_id_is_refused(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([tmp_path])
    assert log_of(manager, topic_id=FOO) is log_of(manager, topic_id=FOO)
    with pytest.raises(InconsistentTopicIdError, match=BAR):
        log_of(manager, topic_id=BAR)


# Deletion, strays, replacement


def test_a_folder_that_is_marked_to_be_deleted_goes_after_the_next_start(
    managers: Managers, tmp_path: Path
) -> None:
    first = managers.start([tmp_path])
    append(log_of(first), 3)
    first.removal.async_delete(KAFKA_0)
    first.shutdown()
    (marked,) = names(tmp_path, "-delete")
    second = managers.start([tmp_path])
    assert second.registry.all == []
    assert second.deletions
    append(log_of(second), 1)
    managers.clock.sleep(CONFIG.file_delete_delay_ms)
    assert not (tmp_path / marked).exists()
    assert (tmp_path / "kafka-0").exists()


def test_strays_are_set_aside_and_stay(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([tmp_path])
    append(log_of(manager), 3)
    manager.removal.async_delete_all([KAFKA_0, TopicPartition("none", 0)], is_stray=True)
    (marked,) = names(tmp_path, "-stray")
    managers.clock.sleep(CONFIG.file_delete_delay_ms * 3)
    assert (tmp_path / marked / "00000000000000000000.log").stat().st_size > 0
    assert OffsetCheckpointFile(tmp_path / RECOVERY_POINT_CHECKPOINT).read() == {}


def test_a_log_that_cannot_be_deleted_does_not_keep_the_others(
    managers: Managers, dirs: list[Path]
) -> None:
    manager = managers.start(dirs)
    for name in ("kafka-0", "kafka-1"):
        append(log_of(manager, name), 1)
    told = []
    partitions = [KAFKA_0, TopicPartition("kafka", 1)]
    manager.removal.async_delete_all(partitions, on_error=lambda *each: told.append(each))
    manager.dirs.channel.maybe_add_offline_log_dir(
        str(dirs[0]), "a disk is gone", OSError(5, "gone")
    )
    managers.clock.sleep(CONFIG.file_delete_delay_ms)
    assert told == []
    assert [names(each, "-delete") == [] for each in dirs] == [False, True]


def test_a_future_log_takes_the_place_of_the_current_one(
    managers: Managers, dirs: list[Path]
) -> None:
    manager = managers.start(dirs)
    current = log_of(manager)
    append(current, 5)
    current.update_high_watermark(4)
    source, target = current.parent_dir, str(dirs[1])
    with pytest.raises(StateError, match="preferred"):
        log_of(manager, is_future=True)
    manager.placement.prefer(KAFKA_0, source)
    with pytest.raises(StateError, match="preferred"):
        log_of(manager, is_future=True)
    with pytest.raises(LogDirFailureError, match="future"):
        manager.removal.replace_current_with_future_log(KAFKA_0)
    manager.placement.prefer(KAFKA_0, target)
    future = log_of(manager, is_future=True)
    assert (future.parent_dir, future.log_folder.is_future) == (target, True)
    append(future, 5)
    manager.removal.replace_current_with_future_log(KAFKA_0)
    assert manager.registry.get(KAFKA_0) is future
    assert manager.registry.get(KAFKA_0, is_future=True) is None
    assert future.folder == os.path.join(target, "kafka-0")
    assert (future.log_folder.is_future, future.high_watermark) == (False, 4)
    append(future, 1)
    managers.clock.sleep(CONFIG.file_delete_delay_ms)
    assert [each for each in Path(source).iterdir() if each.is_dir()] == []


def test_a_future_log_is_found_again(managers: Managers, dirs: list[Path]) -> None:
    first = managers.start(dirs)
    append(log_of(first), 5)
    first.placement.prefer(KAFKA_0, dirs[1])
    append(log_of(first, is_future=True), 2)
    first.shutdown()
    second = managers.start(dirs)
    ends = [second.registry.get(KAFKA_0, is_future=each) for each in (False, True)]
    assert [each and each.log_end_offset for each in ends] == [5, 2]


def test_a_truncation_lowers_the_recovery_point_on_the_disk(
    managers: Managers, tmp_path: Path
) -> None:
    manager = managers.start([tmp_path])
    log = log_of(manager)
    append(log, 50)
    log.flush()
    manager.checkpoints.write_recovery_points()
    checkpoint = OffsetCheckpointFile(tmp_path / RECOVERY_POINT_CHECKPOINT)
    manager.removal.truncate_to({KAFKA_0: 10, TopicPartition("none", 1): 0})
    assert log.log_end_offset == 10
    assert checkpoint.read() == {KAFKA_0: 10}
    manager.removal.truncate_fully_and_start_at(KAFKA_0, 5)
    assert checkpoint.read() == {KAFKA_0: 5}
    assert log.log_start_offset == 5


# Upkeep


def test_logs_are_flushed_when_their_time_has_come(managers: Managers, tmp_path: Path) -> None:
    configs = {"kafka": replace(CONFIG, flush_ms=1000)}
    manager = managers.start([tmp_path], topic_configs=configs)
    eager, lazy = log_of(manager, "kafka-0"), log_of(manager, "other-0")
    for log in (eager, lazy):
        append(log, 3)
    managers.clock.sleep(10_000)
    assert (eager.recovery_point, lazy.recovery_point) == (3, 0)


def test_compacted_logs_are_cleaned_and_others_let_go_of(
    managers: Managers, tmp_path: Path
) -> None:
    compacted = replace(CONFIG, compact=True, delete=False, min_cleanable_ratio=0.0)
    manager = managers.start(
        [tmp_path],
        replace(CONFIG, retention_size=0),
        topic_configs={"compacted": compacted},
        cleaner=CleanerConfig(dedupe_buffer_size=2**20, backoff_ms=5),
    )
    logs = [log_of(manager, "compacted-0"), log_of(manager, "plain-0")]
    for log in logs:
        append(log, 60, key=b"one")
        log.roll()
        log.update_high_watermark(log.log_end_offset)
    deadline = time.monotonic() + 20
    while not (cleaned := OffsetCheckpointFile(tmp_path / CLEANER_OFFSET_CHECKPOINT).read()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert cleaned == {logs[0].topic_partition: 60}
    kept = logs[0].size
    assert 0 < kept * 10 < logs[1].size
    assert manager.tasks.cleanup_logs() > 1
    assert [log.size for log in logs] == [kept, 0]
    manager.update_topic_config("compacted", replace(CONFIG, retention_size=0))
    assert manager.tasks.cleanup_logs() > 1
    assert logs[0].size == 0
    assert manager.removal.async_delete(logs[0].topic_partition) is logs[0]
    assert OffsetCheckpointFile(tmp_path / CLEANER_OFFSET_CHECKPOINT).read() == {}


def test_threads_uphold_what_is_written(tmp_path: Path) -> None:
    settings = LogDirSettings(
        initial_task_delay_ms=0, retention_check_ms=5, recovery_point_checkpoint_ms=5
    )
    config = LogConfig(segment_size=500, retention_size=1000, file_delete_delay_ms=0)
    with (
        ThreadScheduler(2) as scheduler,
        LogManager([tmp_path], scheduler, config, settings=settings) as manager,
    ):
        log = log_of(manager)
        append(log, 100)
        log.update_high_watermark(log.log_end_offset)
        folder = Path(log.folder)
        deadline = time.monotonic() + 20
        while len(names(folder, ".log")) > 4 or names(folder, ".deleted"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert log.log_start_offset > 50
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    with ThreadScheduler() as scheduler, LogManager([tmp_path], scheduler, config) as manager:
        assert log_of(manager).log_end_offset == 100
