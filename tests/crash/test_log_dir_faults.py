"""One of two log dirs fails at any call: the other goes on, and what was flushed in the first is still there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_dir_settings import LogDirSettings
from engine.broker.log_dirs.log_dirs import LogManager
from engine.disk.disk import DISK, Disk, StrPath, WritableFile
from engine.errors import LogDirFailureError
from engine.files.file_names import CLEAN_SHUTDOWN
from engine.units import TopicPartition
from tests.clocks import MockClock, MockScheduler
from tests.conformance.unified_log_steps import one
from tests.crash.driver import CONFIG
from tests.crash.failing import FailingDisk, Failures
from tests.crash.judge import quiet
from tests.crash.soak import work_folder

BAD, GOOD = TopicPartition("t", 0), TopicPartition("t", 1)
SETTINGS = LogDirSettings(threads_per_log_dir=1)


class OneDirFails(FailingDisk):
    """Fails only below one folder."""

    def __init__(self, folder: Path, failures: Failures) -> None:
        super().__init__(failures)
        self.folder = str(folder)

    def _check(self, what: str, path: StrPath, *, changes: bool = True) -> None:
        if os.fspath(path).startswith(self.folder):
            super()._check(what, path, changes=changes)

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        if path.startswith(self.folder):
            return super()._file(fd, path, writable)
        return Disk._file(self, fd, path, writable)


class Life:
    """A manager of a log dir that may fail and of one that does not, with a log in each."""

    def __init__(self, folder: Path, failures: Failures) -> None:
        self.dirs = [folder / "bad", folder / "good"]
        for each in self.dirs:
            each.mkdir(parents=True)
        self.disk = OneDirFails(self.dirs[0], failures)
        self.clock = MockClock()
        self.flushed = 0
        self.start()

    def start(self, disk: Disk | None = None) -> None:
        self.manager = LogManager(
            self.dirs,
            MockScheduler(self.clock),
            CONFIG,
            settings=SETTINGS,
            clock=self.clock,
            disk=disk or self.disk,
        )
        self.manager.startup()

    def tried(self, action: Callable[[], object]) -> bool:
        """Do something that may meet the failure; whether it did not."""
        try:
            action()
        except LogDirFailureError as error:
            failed = error.log_dir
        else:
            return True
        assert failed == str(self.dirs[0])
        return False

    def append(self, partition: TopicPartition, count: int = 3) -> None:
        self.manager.placement.prefer(partition, self.dirs[partition.partition])
        log = self.manager.get_or_create_log(partition, is_new=True)
        for _ in range(count):
            log.append_as_leader(one(f"{partition} {log.log_end_offset}", self.clock.ms), 0)
        log.update_high_watermark(log.log_end_offset)

    def flush(self) -> None:
        log = self.manager.registry.get(BAD)
        if log is not None:
            log.flush()
            self.flushed = max(self.flushed, log.log_end_offset)

    def run(self) -> None:
        for number in range(4):
            self.tried(lambda: self.append(BAD))
            self.append(GOOD)
            self.tried(self.flush)
            self.manager.checkpoints.write_recovery_points()
            self.clock.sleep(70_000)
            self.manager.tasks.handle_failures()
            if number == 1:
                self.manager.shutdown()
                self.start()
        self.manager.shutdown()


def check(log: UnifiedLog | None, at_least: int) -> None:
    found = 0
    if log is not None:
        for segment in log.segments:
            for batch in segment.log.batches():
                for record in batch.records():
                    assert record.value == f"{log.topic_partition} {found}".encode()
                    found += 1
    assert found >= at_least


def count_calls(folder: Path, code: int) -> int:
    failures = Failures(None, code, sticky=False)
    Life(folder, failures).run()
    return failures.calls


@pytest.mark.parametrize("sticky", [False, True])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_log_dir_that_fails_at_any_call_fails_alone(code: int, sticky: bool) -> None:
    random = Random(f"{code} {sticky}")
    work = work_folder()
    with quiet():
        calls = count_calls(work / "counted", code)
        assert calls > 100
        for number in random.sample(range(calls), 12):
            life = Life(work / str(number), Failures(number, code, sticky=sticky))
            life.run()
            struck = life.disk.failures.struck
            bad, good = life.dirs
            assert (good / CLEAN_SHUTDOWN).exists(), struck
            assert struck is None or life.manager.dirs.offline in ([], [str(bad)]), struck
            life.start(DISK)
            assert life.manager.dirs.offline == [], struck
            check(life.manager.registry.get(BAD), life.flushed)
            check(life.manager.registry.get(GOOD), 12)
            life.manager.shutdown()
            assert all((each / CLEAN_SHUTDOWN).exists() for each in life.dirs), struck
