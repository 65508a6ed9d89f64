"""When a topic id is written to partition.metadata, where, and what a failure to write it costs."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from engine.disk.disk import Disk, StrPath, WritableFile
from engine.errors import InconsistentTopicIdError, LogDirFailureError
from engine.writing.log_folder import log_delete_dir_name
from tests.conformance.unified_log_steps import LogBench, append_plain

FIRST, SECOND = "sgf5MsZgRTuEMv68ZXKJbQ", "AAAAAAAAAAAAAAAAAAAAAQ"
CONTENT = f"version: 0\ntopic_id: {FIRST}"


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    return LogBench(tmp_path)


def test_an_id_given_at_creation_is_written(bench: LogBench) -> None:
    log = bench.open(topic_id=FIRST)
    assert log.topic_id == FIRST
    assert (bench.folder / "partition.metadata").read_text() == CONTENT


def test_an_id_that_is_known_from_the_file_is_not_given_another_time(bench: LogBench) -> None:
    bench.open(topic_id=FIRST).close()
    written = (bench.folder / "partition.metadata").stat().st_ino
    for given in (None, FIRST):
        with bench.open(topic_id=given) as log:
            assert log.topic_id == FIRST
            with pytest.raises(InconsistentTopicIdError, match=SECOND):
                log.assign_topic_id(SECOND)
            assert log.topic_id == FIRST
    assert (bench.folder / "partition.metadata").stat().st_ino == written


def test_a_renamed_log_writes_its_id_into_the_renamed_folder(bench: LogBench) -> None:
    log = bench.open()
    log.rename_folder("topic-7")
    log.assign_topic_id(FIRST)
    assert (bench.log_dir / "topic-7" / "partition.metadata").read_text() == CONTENT


def test_a_log_that_will_be_deleted_writes_no_id(
    bench: LogBench, caplog: pytest.LogCaptureFixture
) -> None:
    log = bench.open()
    log.rename_folder(log_delete_dir_name(log.topic_partition), should_reinitialize=False)
    log.assign_topic_id(FIRST)
    log.topic_identity.maybe_flush()
    assert log.topic_id == FIRST
    assert not (Path(log.folder) / "partition.metadata").exists()
    assert f"{FIRST} of topic-0 is not written" in caplog.text


class NoSpace(Disk):
    """Has no space for a new file, once it is full."""

    is_full = False

    def replace_atomically(self, path: StrPath, *content: Any) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        super().replace_atomically(path, *content)


def test_an_id_that_cannot_be_written_takes_the_log_dir_offline(bench: LogBench) -> None:
    disk = NoSpace()
    log = bench.open(disk=disk)
    disk.is_full = True
    with pytest.raises(LogDirFailureError, match="cannot write the topic id") as caught:
        log.assign_topic_id(FIRST)
    assert caught.value.errno == errno.ENOSPC
    assert log.log_folder.channel.has_offline_log_dir(str(bench.log_dir))
    with pytest.raises(LogDirFailureError):
        append_plain(log, 1)
    assert log.log_end_offset == 0


class Keeping(Disk):
    """Keeps the files that were opened, so that nothing else closes them."""

    def __init__(self) -> None:
        self.opened: list[WritableFile] = []

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        self.opened.append(super()._file(fd, path, writable))
        return self.opened[-1]


def test_the_files_of_another_topics_log_are_closed_again(bench: LogBench) -> None:
    with bench.open(topic_id=FIRST) as log:
        append_plain(log, 1)
    disk = Keeping()
    with pytest.raises(InconsistentTopicIdError):
        bench.open(topic_id=SECOND, disk=disk)
    assert disk.opened
    assert all(file.is_closed for file in disk.opened)
