"""The set-up of Kafka's LogManagerTest: small segments, ten minutes of retention, a clock that stands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_dir_settings import LogDirSettings
from engine.broker.log_dirs.log_dirs import LogManager
from engine.disk.disk import DISK, Disk
from engine.units import TopicPartition
from engine.writing.log_config import LogConfig
from tests.clocks import MockClock, MockScheduler
from tests.conformance.unified_log_steps import one

MAX_LOG_AGE_MS = 10 * 60 * 1000
INITIAL_TASK_DELAY_MS = 10_000
CONFIG = LogConfig(segment_size=1024, max_index_size=4096, retention_ms=MAX_LOG_AGE_MS)
SETTINGS = LogDirSettings(
    threads_per_log_dir=1,
    initial_task_delay_ms=INITIAL_TASK_DELAY_MS,
    retention_check_ms=1000,
    flush_check_ms=1000,
    recovery_point_checkpoint_ms=10_000,
    log_start_offset_checkpoint_ms=10_000,
    max_transaction_timeout_ms=5 * 60 * 1000,
)


class FailingDisk(Disk):
    """Fails to make what is in `broken`: folders in them, and files of these names."""

    def __init__(self) -> None:
        self.broken: set[str] = set()
        self.failed: list[str] = []

    def make_folder(self, path: Any) -> None:
        self._check(path)
        super().make_folder(path)

    def open(self, path: Any, **options: Any) -> Any:
        self._check(path)
        return super().open(path, **options)

    def _check(self, path: Any) -> None:
        if {os.fspath(path), os.path.dirname(path)} & self.broken:
            self.failed.append(os.fspath(path))
            raise OSError(5, "the disk is broken", os.fspath(path))


class Managers:
    """Managers on one clock; those that are left open are shut down at the end."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.made: list[LogManager] = []

    def make(
        self,
        log_dirs: Sequence[Path | str],
        config: LogConfig = CONFIG,
        *,
        disk: Disk = DISK,
        settings: LogDirSettings = SETTINGS,
        **options: Any,
    ) -> LogManager:
        """A manager that has not loaded its logs yet."""
        made = LogManager(
            [*log_dirs],
            MockScheduler(self.clock),
            config,
            settings=settings,
            clock=self.clock,
            disk=disk,
            **options,
        )
        self.made.append(made)
        return made

    def start(self, *arguments: Any, **options: Any) -> LogManager:
        """A manager that has."""
        made = self.make(*arguments, **options)
        made.startup()
        return made

    def close(self) -> None:
        for made in self.made:
            made.shutdown()


@pytest.fixture
def managers() -> Iterator[Managers]:
    """For the conftest of each folder whose tests start managers."""
    made = Managers()
    yield made
    made.close()


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    """Two log dirs that do not exist yet."""
    return [tmp_path / "one", tmp_path / "two"]


def log_of(manager: LogManager, name: str = "kafka-0", **options: Any) -> UnifiedLog:
    """The log of the partition with this folder name."""
    topic, _, number = name.rpartition("-")
    return manager.get_or_create_log(TopicPartition(topic, int(number)), **options)


def append(log: UnifiedLog, count: int, **options: Any) -> int:
    """Append single records; the last offset."""
    for _ in range(count):
        log.append_as_leader(one(**options), 0)
    return log.log_end_offset - 1


def age(log: UnifiedLog, ms: int) -> None:
    """Let all records files be modified at a time."""
    for segment in log.segments:
        os.utime(segment.log.path, (ms / 1000, ms / 1000))
