"""What Kafka's LogManagerTest asks of log dirs: which folders are logs, how a path is given, directory ids."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.checkpoint.meta_properties_copier import write_meta_properties
from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.broker.log_dirs.log_dirs import LogManager
from engine.checkpoint.meta_properties import MetaProperties
from engine.files.file_names import RECOVERY_POINT_CHECKPOINT
from engine.units import TopicPartition
from tests.conformance.log_managers import Managers, append, log_of

ONE_ID, ANOTHER_ID = "ZwkGXjB0TvSF6mjVh6gO7Q", "kQfNPJ2FTHq_6Qlyyv6Jqg"


@pytest.mark.conformance("LogManagerTest.testGetNonExistentLog")
def test_get_non_existent_log(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([tmp_path])
    assert manager.registry.get(TopicPartition("kafka", 0)) is None
    assert not (tmp_path / "kafka-0").exists()


@pytest.mark.conformance("LogManagerTest.testLoadLogsSkipRemoteIndexCache")
def test_load_logs_skip_remote_index_cache(managers: Managers, tmp_path: Path) -> None:
    (tmp_path / "remote-log-index-cache").mkdir()
    manager = managers.start([tmp_path])
    assert manager.registry.all == []
    assert manager.dirs.offline == []


def assert_recovery_points_are_in(manager: LogManager, log_dir: Path | str) -> None:
    log = log_of(manager, "test-a-1")
    append(log, 50)
    log.flush()
    manager.checkpoints.write_recovery_points()
    written = OffsetCheckpointFile(Path(log_dir) / RECOVERY_POINT_CHECKPOINT).read()
    assert written == {log.topic_partition: log.recovery_point}
    assert log.recovery_point == 50


@pytest.mark.conformance("LogManagerTest.testRecoveryDirectoryMappingWithTrailingSlash")
def test_recovery_directory_mapping_with_trailing_slash(managers: Managers, tmp_path: Path) -> None:
    manager = managers.start([f"{tmp_path}/logs/"])
    assert_recovery_points_are_in(manager, *manager.dirs.live)


@pytest.mark.conformance("LogManagerTest.testRecoveryDirectoryMappingWithRelativeDirectory")
def test_recovery_directory_mapping_with_relative_directory(
    managers: Managers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's test makes the path absolute; ours leaves that to the manager."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    manager = managers.start(["data/logs"])
    monkeypatch.chdir("/")
    assert [*manager.dirs.live] == [str(tmp_path / "data" / "logs")]
    assert_recovery_points_are_in(manager, tmp_path / "data" / "logs")


def meta_properties(directory_id: str | None = None) -> MetaProperties:
    return MetaProperties(cluster_id="IVT1Seu3QjacxS7oBTKhDQ", node_id=1, directory_id=directory_id)


@pytest.mark.conformance("LogManagerTest.testLoadDirectoryIds")
def test_load_directory_ids(managers: Managers, tmp_path: Path) -> None:
    dirs = [tmp_path / str(number) for number in range(6)]
    for log_dir in dirs:
        log_dir.mkdir()
    write_meta_properties(dirs[0], meta_properties())
    write_meta_properties(dirs[1], meta_properties(ONE_ID))
    write_meta_properties(dirs[3], meta_properties(ANOTHER_ID))
    write_meta_properties(dirs[4], meta_properties())
    manager = managers.make(dirs)
    assert manager.dirs.directory_ids == {str(dirs[1]): ONE_ID, str(dirs[3]): ANOTHER_ID}
