"""A file of leader epochs that cannot be written takes its log dir offline, whoever was to write it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import Bytes, Disk, StrPath
from engine.errors import LogDirFailureError
from engine.units import EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LogEpochCheckpoint
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.scheduler import DeferredScheduler
from tests.conformance.unified_log_steps import LogBench, append_plain

ENTRIES: Sequence[EpochEntry] = [EpochEntry(1, 0), EpochEntry(3, 7)]


class ReadOnlyDisk(Disk):
    """Its files cannot be replaced from when it is told."""

    is_failing = False

    def replace_atomically(self, path: StrPath, data: Bytes) -> None:
        if self.is_failing:
            raise OSError(errno.EROFS, "read-only file system")
        super().replace_atomically(path, data)


def folder_at(log_dir: Path) -> WritableLogFolder:
    path = log_dir / "topic-0"
    path.mkdir()
    return WritableLogFolder(path, TopicPartition("topic", 0), LogConfig(), DeferredScheduler())


def test_what_was_written_is_read(tmp_path: Path) -> None:
    folder = folder_at(tmp_path)
    file = LogEpochCheckpoint(folder)
    assert file.read() == []
    file.write(ENTRIES)
    assert file.read() == ENTRIES
    assert LogEpochCheckpoint(folder).read() == ENTRIES


def test_a_folder_that_is_gone_is_no_failure_when_the_writing_could_wait(tmp_path: Path) -> None:
    folder = folder_at(tmp_path)
    channel = folder.channel
    file = LogEpochCheckpoint(folder)
    Path(folder.path).rename(tmp_path / "topic-0.delete")
    file.write_if_dir_exists(ENTRIES)
    assert not channel.has_offline_log_dir(str(tmp_path))
    with pytest.raises(LogDirFailureError):
        file.write(ENTRIES)
    assert channel.has_offline_log_dir(str(tmp_path))


def epochs_of(bench: LogBench, disk: Disk) -> UnifiedLog:
    log = bench.open(disk=disk)
    append_plain(log, 3)
    log.leader_epoch_cache.assign(1, 3)
    return log


@pytest.mark.parametrize("is_later", [True, False])
def test_a_failure_takes_the_log_dir_offline(tmp_path: Path, is_later: bool) -> None:
    bench, disk = LogBench(tmp_path), ReadOnlyDisk()
    log = epochs_of(bench, disk)
    disk.is_failing = True
    with pytest.raises(LogDirFailureError, match="leader epochs"):
        log.truncate_to(1) if is_later else log.leader_epoch_cache.assign(2, 3)
    assert log.log_folder.channel.has_offline_log_dir(str(tmp_path))
    with pytest.raises(LogDirFailureError, match="offline"):
        append_plain(log, 1)
