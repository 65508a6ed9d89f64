"""What Kafka's LogManagerTest asks of the log dir of a new log, of configurations and of flushing in time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.broker.checkpoint.meta_properties_copier import write_meta_properties
from engine.broker.cleaning.log_cleaner import CleanerConfig
from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_dir import LogDir
from engine.broker.log_dirs.log_dirs import LogManager
from engine.broker.log_dirs.log_loading import run_for_each
from engine.checkpoint.base64_uuid import random_uuid
from engine.checkpoint.meta_properties import MetaProperties
from engine.errors import LogDirFailureError
from engine.units import TopicPartition
from engine.writing.scheduler import ThreadScheduler
from tests.clocks import MockScheduler
from tests.conformance.log_managers import (
    CONFIG,
    INITIAL_TASK_DELAY_MS,
    SETTINGS,
    Managers,
    append,
    log_of,
)

UNASSIGNED, LOST = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.mark.conformance("LogManagerTest.testCreateLogOnTargetedLogDirectory")
def test_create_log_on_targeted_log_directory(managers: Managers, tmp_path: Path) -> None:
    dirs = [tmp_path / str(number) for number in range(5)]
    targeted = random_uuid()
    for log_dir, directory_id in zip(dirs, (None, targeted, "", random_uuid(), None), strict=True):
        log_dir.mkdir()
        if directory_id != "":
            write_meta_properties(log_dir, MetaProperties(directory_id=directory_id))
    manager = managers.make(dirs)
    log = log_of(manager, directory_id=targeted)
    assert len(manager.dirs.live) == 5
    assert (dirs[1] / "kafka-0").exists()
    assert log.parent_dir == str(dirs[1])
    append(log, 1)


@pytest.mark.parametrize(
    "directory_id",
    [
        pytest.param(
            UNASSIGNED,
            marks=pytest.mark.conformance(
                "LogManagerTest.testCreateLogWithTargetedLogDirectorySetAsUnassigned"
            ),
        ),
        pytest.param(
            LOST,
            marks=pytest.mark.conformance(
                "LogManagerTest"
                ".testCreateLogWithTargetedLogDirectorySetAsUnknownWithoutAnyOfflineDirectories"
            ),
        ),
    ],
)
def test_create_log_with_targeted_log_directory_set_as(
    managers: Managers, tmp_path: Path, directory_id: str
) -> None:
    manager = managers.start([tmp_path])
    log = log_of(manager, directory_id=directory_id)
    assert [*manager.dirs.live] == [str(tmp_path)]
    assert (tmp_path / "kafka-0").exists()
    assert manager.dirs.directory_ids == {}
    append(log, 1)


@pytest.mark.conformance("LogManagerTest.testLeastLoadedAssignment")
def test_least_loaded_assignment(managers: Managers, tmp_path: Path) -> None:
    manager = managers.make([tmp_path / name for name in "abc"])
    for partition in range(20):
        log_of(manager, f"test-{partition}")
        logs = manager.registry.all
        assert len(logs) == partition + 1
        counts = Counter(log.parent_dir for log in logs).values()
        assert len(counts) == min(partition + 1, 3)
        assert max(counts) <= min(counts) + 1


@pytest.mark.conformance("LogManagerTest.testTimeBasedFlush")
def test_time_based_flush(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([tmp_path], topic_configs={"kafka": replace(CONFIG, flush_ms=1000)})
    log = log_of(manager)
    last_flush = log.local_log.last_flush_time
    append(log, 200)
    managers.clock.sleep(INITIAL_TASK_DELAY_MS)
    assert log.local_log.last_flush_time != last_flush


@pytest.mark.conformance("LogManagerTest.testShutdownWithZeroFileDeleteDelayMs")
def test_shutdown_with_zero_file_delete_delay_ms(tmp_path: Path) -> None:
    with ThreadScheduler() as scheduler:
        config = replace(CONFIG, file_delete_delay_ms=0)
        manager = LogManager([tmp_path], scheduler, config, settings=SETTINGS)
        manager.startup()
        manager.shutdown()
    # A task that ran again and again, without a delay, would not have let the scheduler go.


class ReconfiguredManager(LogManager):
    """The configurations of some topics change while their logs are created."""

    meanwhile: dict[str, Any]

    def _create(self, folder: str, partition: TopicPartition, **options: Any) -> UnifiedLog:
        made = super()._create(folder, partition, **options)
        if partition.topic in self.meanwhile:
            self.update_topic_config(partition.topic, self.meanwhile.pop(partition.topic))
        return made


@pytest.mark.conformance("LogManagerTest.testTopicConfigChangeUpdatesLogConfig")
def test_topic_config_change_updates_log_config(managers: Managers, tmp_path: Path) -> None:
    old, new = replace(CONFIG, retention_ms=1), replace(CONFIG, retention_ms=2)
    scheduler = MockScheduler(managers.clock)
    topics = dict.fromkeys(["test-topic-one", "test-topic-two"], old)
    manager = ReconfiguredManager([tmp_path], scheduler, topic_configs=topics, settings=SETTINGS)
    managers.made.append(manager)
    manager.meanwhile = {"test-topic-one": new}
    assert log_of(manager, "test-topic-one-1").config is new
    assert log_of(manager, "test-topic-two-1").config is old
    manager.shutdown()

    again = ReconfiguredManager([tmp_path], scheduler, topic_configs=topics, settings=SETTINGS)
    managers.made.append(again)
    again.meanwhile = {"test-topic-one": new}
    again.startup()
    configs = {log.topic_partition.topic: log.config for log in again.registry.all}
    assert configs == {"test-topic-one": new, "test-topic-two": old}


@pytest.mark.conformance("LogManagerTest.testTopicConfigChangeStopCleaningIfCompactIsRemoved")
def test_topic_config_change_stop_cleaning_if_compact_is_removed(
    managers: Managers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted = replace(CONFIG, compact=True, delete=False)
    manager = managers.make(
        [tmp_path],
        topic_configs={"topic": compacted},
        cleaner=CleanerConfig(dedupe_buffer_size=2**20),
    )
    logs = [log_of(manager, name) for name in ("topic-0", "topic-1")]
    assert manager.registry.of_topic("topic") == logs
    assert manager.cleaner is not None
    aborted = []
    monkeypatch.setattr(manager.cleaner.state, "abort_cleaning", aborted.append)
    manager.update_topic_config("topic", replace(compacted, compact=False, delete=True))
    assert [(log.config.delete, log.config.compact) for log in logs] == [(True, False)] * 2
    assert aborted == [log.topic_partition for log in logs]


@pytest.mark.conformance("LogManagerTest.testConfigChangesWithNoLogGettingInitialized")
def test_config_changes_with_no_log_getting_initialized(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([tmp_path])
    new = replace(CONFIG, retention_ms=1)
    manager.update_topic_config("test-topic", new)
    assert manager.registry.all == []
    assert manager.config_of("test-topic") is new


@pytest.mark.conformance("LogManagerTestJava.testWaitForAllToComplete")
def test_wait_for_all_to_complete(tmp_path: Path) -> None:
    log_dir = LogDir(tmp_path)
    invoked = []

    def run(number: int) -> None:
        invoked.append(number)
        if number < 0:
            raise RuntimeError

    for jobs, failures in (((1, -1), 1), ((-1, 1), 1), ((1, 1), 0), ((-1, -1), 2)):
        invoked.clear()
        assert len(run_for_each({log_dir: jobs}, run, 1)[log_dir]) == failures
        assert invoked == [*jobs]
    log_dir.unlock()


@pytest.mark.conformance(
    "LogManagerTest.testCreateLogFailureAfterDirectoryCreationTakesLogDirOffline"
)
def test_create_log_failure_after_directory_creation_takes_log_dir_offline(
    managers: Managers, tmp_path: Path
) -> None:
    manager = managers.start([tmp_path])
    (tmp_path / "kafka-0" / f"{0:020}.log").mkdir(parents=True)
    with pytest.raises(LogDirFailureError) as caught:
        log_of(manager, is_new=True)
    assert isinstance(caught.value.__cause__, OSError)
    assert not manager.dirs.is_online(tmp_path)
    assert manager.registry.get(TopicPartition("kafka", 0)) is None


@pytest.mark.conformance("LogManagerTest.testReplaceCurrentWithFutureLogDoesNotCloseSourceLog")
def test_replace_current_with_future_log_does_not_close_source_log(
    managers: Managers, tmp_path: Path
) -> None:
    dirs = [tmp_path / "one", tmp_path / "two"]
    manager = managers.start(dirs)
    partition = TopicPartition("replace-log", 0)
    source = log_of(manager, str(partition))
    append(source, 3)
    manager.placement.prefer(partition, dirs[1])
    log_of(manager, str(partition), is_future=True)
    manager.removal.replace_current_with_future_log(partition)
    assert source.log_folder.name.endswith("-delete")
    source.flush(force_active_segment=True)
    assert source.recovery_point == source.log_end_offset == 3
    assert source.read(0, 1000).records.size > 0
