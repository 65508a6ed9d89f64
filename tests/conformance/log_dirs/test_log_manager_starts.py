"""What Kafka's LogManagerTest asks of starting, shutting down, locking and strays."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.broker.log_dirs.log_dirs import LogManager
from engine.broker.log_dirs.log_registry import is_stray_replica
from engine.disk.file_lock import FileLock
from engine.errors import DirectoryLockedError
from engine.files.file_names import CLEAN_SHUTDOWN, LOCK
from engine.units import TopicPartition
from tests.conformance.log_managers import FailingDisk, Managers, append, log_of

FOO, BAR, QUUX = "Sl08ZXU2QW6uF5hIoSzc8w", "69O438ZkTSeqqclTtZO2KA", "YS9owjv5TG2OlsvBM0Qw6g"


def is_marked_clean(log_dir: Path) -> bool:
    return (log_dir / CLEAN_SHUTDOWN).exists()


def with_a_log_in_each(managers: Managers, dirs: list[Path]) -> LogManager:
    manager = managers.start(dirs)
    log_of(manager, "kafka-0")
    log_of(manager, "kafka-1")
    assert (dirs[0] / "kafka-0").is_dir()
    assert (dirs[1] / "kafka-1").is_dir()
    return manager


@pytest.mark.conformance("LogManagerTest.testHandlingExceptionsDuringShutdown")
def test_handling_exceptions_during_shutdown(managers: Managers, dirs: list[Path]) -> None:
    manager = with_a_log_in_each(managers, dirs)
    for log in manager.registry.all:
        append(log, 1)
        log.producer_state.take_snapshot()
        append(log, 1)
    shutil.rmtree(dirs[0] / "kafka-0")
    manager.shutdown(3)
    assert [is_marked_clean(each) for each in dirs] == [False, True]
    assert manager.dirs.read_broker_epoch() is None


@pytest.mark.conformance("LogManagerTest.testCleanShutdownFileWithBrokerEpoch")
def test_clean_shutdown_file_with_broker_epoch(managers: Managers, dirs: list[Path]) -> None:
    manager = with_a_log_in_each(managers, dirs)
    manager.shutdown(3)
    assert all(is_marked_clean(each) for each in dirs)
    assert manager.dirs.read_broker_epoch() == 3


class SlowManager(LogManager):
    """Waits before each log that it loads, until it is told to go on."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.may_load = threading.Semaphore(1)
        self.loaded = threading.Event()

    def _load(self, *arguments: Any) -> None:
        self.may_load.acquire()
        super()._load(*arguments)
        self.loaded.set()


@pytest.mark.conformance(
    "LogManagerTest.testCleanShutdownFileWhenShutdownCalledBeforeStartupComplete"
)
def test_clean_shutdown_file_when_shutdown_called_before_startup_complete(
    managers: Managers, tmp_path: Path
) -> None:
    first = managers.start([tmp_path])
    for name in ("kafka-0", "kafka-1"):
        log = log_of(first, name)
        append(log, 1)
        log.producer_state.take_snapshot()
    first.shutdown()
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    second = SlowManager([tmp_path], first.scheduler, first.config, settings=first.settings)
    starting = threading.Thread(target=second.startup)
    starting.start()
    assert second.loaded.wait(10)
    second.shutdown()
    assert not is_marked_clean(tmp_path)
    second.may_load.release()
    starting.join()
    assert not is_marked_clean(tmp_path)
    for log in second.registry.all:
        log.close_handlers()


@pytest.mark.conformance("LogManagerTest.testLoadLogRenameLogThatShouldBeStray")
def test_load_log_rename_log_that_should_be_stray(managers: Managers, tmp_path: Path) -> None:
    """Kafka's test loads the log that is open; ours starts again."""
    first = managers.start([tmp_path])
    log_of(first, "test-stray-topic-0", topic_id=FOO)
    first.shutdown()
    asked = []
    manager = managers.make([tmp_path])
    manager.startup(lambda log: asked.append(log.topic_id) is None)
    assert asked == [FOO]
    (folder,) = tmp_path.glob("test-stray-topic-*")
    assert folder.name.endswith("-stray")
    assert manager.registry.all == []
    manager.shutdown()
    again = managers.start([tmp_path])
    assert [log.folder for log in again.registry.stray.values()] == [str(folder)]


@pytest.mark.conformance("LogManagerTest.testTwoLogManagersUsingSameDirFails")
def test_two_log_managers_using_same_dir_fails(managers: Managers, dirs: list[Path]) -> None:
    managers.start(dirs[:1])
    with pytest.raises(DirectoryLockedError):
        managers.make([dirs[1], dirs[0]])
    managers.start(dirs[1:])


@pytest.mark.conformance("LogManagerTest.testLock")
def test_lock(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([tmp_path])
    lock = FileLock(tmp_path / LOCK)
    assert not lock.try_lock()
    lock.unlock_and_close()
    manager.shutdown()
    assert not (tmp_path / LOCK).exists()


@pytest.mark.conformance("LogManagerTest.testInvalidLogDirNotFailLogManager")
def test_invalid_log_dir_not_fail_log_manager(managers: Managers, tmp_path: Path) -> None:
    disk = FailingDisk()
    disk.broken = {str(tmp_path)}
    manager = managers.make([tmp_path], disk=disk)
    assert [*manager.dirs.live] == []
    assert manager.dirs.offline == [str(tmp_path)]
    assert not (tmp_path / LOCK).exists()


class Replica:
    """A log as far as its place in a cluster goes."""

    def __init__(self, topic_id: str | None, topic: str, partition: int) -> None:
        self.topic_id = topic_id
        self.topic_partition = TopicPartition(topic, partition)


ON_DISK = [
    Replica(FOO, "foo", 0),
    Replica(FOO, "foo", 1),
    Replica(BAR, "bar", 0),
    Replica(BAR, "bar", 1),
    Replica(QUUX, "quux", 0),
]


@pytest.mark.conformance("LogManagerTestJava.testIsStrayKraftReplicaWithEmptyImage")
def test_is_stray_kraft_replica_with_empty_image() -> None:
    assert all(is_stray_replica(log, 0, {}) for log in ON_DISK)


@pytest.mark.conformance("LogManagerTestJava.testIsStrayKraftReplicaInImage")
def test_is_stray_kraft_replica_in_image() -> None:
    image = {key: [0, 1, 2] for key in [(FOO, 0), (BAR, 0), (BAR, 1)]}
    strays = [str(log.topic_partition) for log in ON_DISK if is_stray_replica(log, 0, image)]
    assert strays == ["foo-1", "quux-0"]


@pytest.mark.conformance("LogManagerTestJava.testIsStrayKraftReplicaInImageWithRemoteReplicas")
def test_is_stray_kraft_replica_in_image_with_remote_replicas() -> None:
    image = {(FOO, 0): [0, 1, 2], (BAR, 0): [1, 2, 3], (BAR, 1): [2, 3, 0]}
    on_disk = [log for log in ON_DISK if str(log.topic_partition) in ("foo-0", "bar-0", "bar-1")]
    strays = [str(log.topic_partition) for log in on_disk if is_stray_replica(log, 0, image)]
    assert strays == ["bar-0"]


@pytest.mark.conformance("LogManagerTestJava.testIsStrayKraftMissingTopicId")
def test_is_stray_kraft_missing_topic_id() -> None:
    assert is_stray_replica(Replica(None, "foo", 0), 0, {(FOO, 0): [0]})
