"""What Kafka's LogLoaderTest asks of loading after a crash, and of loading that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_dir import LogDir
from engine.broker.log_dirs.log_loading import FolderToLoad, load_folders
from engine.errors import KafkaStorageError, LogDirFailureError
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from tests.clocks import MockClock, MockScheduler


class Loads:
    """Loads the one log of a log dir again and again, or fails to.

    Attributes:
        error: raised instead of loading, if it is set.
        clean: of each loading, whether it took the log for one that was closed properly.
    """

    def __init__(self, path: Path) -> None:
        self.log_dir = LogDir(path)
        self.log_dir.make_log_folder("foo-0")
        self.channel = LogDirFailureChannel()
        self.error: Exception | None = None
        self.clean: list[bool] = []

    def __call__(self) -> None:
        load_folders([self.log_dir], self._load, 4, self.channel)

    def _load(self, folder: FolderToLoad) -> None:
        if self.error is not None:
            raise self.error
        self.clean.append(folder.log_dir.had_clean_shutdown)
        clock = MockClock()
        UnifiedLog.create(
            folder.path,
            LogConfig(),
            MockScheduler(clock),
            clock=clock,
            last_shutdown_clean=self.clean[-1],
            log_dir_failure_channel=self.channel,
        ).close()

    def is_offline(self) -> bool:
        return self.channel.has_offline_log_dir(self.log_dir.path)


@pytest.mark.conformance("LogLoaderTest.testLogRecoveryIsCalledUponBrokerCrash")
def test_the_marker_decides_on_recovery_and_is_gone_once_loading_began(tmp_path: Path) -> None:
    load = Loads(tmp_path / "logs")
    marker = load.log_dir.clean_shutdown
    marker.write(0)
    load()
    assert load.clean == [True]
    assert not marker.exists()
    load()
    assert load.clean == [True, False]
    assert not marker.exists()

    marker.write(0)
    load.error = RuntimeError("anything")
    with pytest.raises(RuntimeError, match="anything"):
        load()
    assert not marker.exists()
    assert not load.is_offline()

    # Whoever raises this has reported it before.
    load.error = LogDirFailureError("reported", load.log_dir.path)
    load()
    load.error = KafkaStorageError("not of the disk")
    with pytest.raises(KafkaStorageError, match="not of the disk"):
        load()
    load.error = OSError(5, "of the disk")
    assert not load.is_offline()
    load()
    assert load.is_offline()

    load.error = None
    load.channel = LogDirFailureChannel()
    load()
    assert load.clean == [True, False, False]
