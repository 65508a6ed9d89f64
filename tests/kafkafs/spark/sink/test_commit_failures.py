"""Whatever fails or is killed, the target is whole or not there, and nothing stays behind."""

from __future__ import annotations

import errno
import os
import random
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from engine.disk.disk import Disk, StrPath, WritableFile
from engine.rebuild.errors import RebuildFailedError
from kafkafs.spark.errors import OptionError
from kafkafs.spark.sink.job_folder import OWNER, JobFolder, JobOwner, remove_leftovers, this_owner
from tests.crash.failing import FailingDisk, Failures
from tests.kafkafs.spark.sink.written_frames import (
    Unsynced,
    Written,
    batches,
    findings_in,
    records_of,
    row,
)

STEP = 1 if os.environ.get("KAFKAFS_SINK_FAILURES") == "all" else 7
SEED = random.randrange(1000)
TASKS = [[row(number, partition=part) for number in range(20)] for part in (0, 1)]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def written(target: Path, disk: Disk | None = None) -> Written:
    """A job whose tasks are done."""
    job = Written(target, list(TASKS[0][0]), disk, logEndOffsets='{"t":{"0":25,"2":9}}')
    for rows in TASKS:
        job.outputs.append(job.task(rows))
    return job


def assert_whole(target: Path) -> None:
    assert [each.offset for each in records_of(target, "t-1")] == list(range(20))
    assert [each for each in findings_in(target) if not each.startswith("gap-")] == []


@pytest.mark.parametrize("sticky", [False, True], ids=["once", "from-then-on"])
def test_fault_133_a_disk_that_fails_anywhere_leaves_the_whole_target_or_none(
    tmp_path: Path, sticky: bool
) -> None:
    number, published = SEED % STEP, 0
    while True:
        home = tmp_path / str(number)
        home.mkdir()
        failures = Failures(None, errno.ENOSPC, sticky=sticky)
        job = written(home / "made", FailingDisk(failures))
        failures.calls, failures.number = 0, number
        try:
            job.commit()
        except (OSError, RebuildFailedError):
            assert failures.struck
            # What cannot be taken back is at least whole.
            assert sticky or not (home / "made").exists(), failures.struck
        with failures.disarmed():
            if not (home / "made").exists():
                job.job.discard(job.disk)
                assert names_in(home) == []
            else:
                published += 1
                if published < 3:
                    assert_whole(home / "made")
        if failures.struck is None:
            break
        number += STEP
    assert number > 60
    assert published >= 1


class KillingDisk(Unsynced):
    """Kills its process before one of the calls that change something."""

    def __init__(self, number: int) -> None:
        self.left = number

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        self._count()
        return super()._file(fd, path, writable)

    def rename(self, old: StrPath, new: StrPath) -> None:
        self._count()
        super().rename(old, new)

    def rename_new(self, old: StrPath, new: StrPath) -> None:
        self._count()
        super().rename_new(old, new)

    def make_new_folder(self, path: StrPath) -> None:
        self._count()
        super().make_new_folder(path)

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        self._count()
        return super().remove(path, missing_ok)

    def remove_folder(self, path: StrPath) -> None:
        self._count()
        super().remove_folder(path)


def killed_after(target: Path, calls: int) -> bool:
    """Whether a process that writes the target was killed before it was done."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there may be threads: none is needed
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            written(target, KillingDisk(calls)).commit()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return status != 0


def test_fault_144_a_driver_killed_at_any_point_leaves_the_whole_target_or_none(
    tmp_path: Path,
) -> None:
    calls, wholes, kills = SEED % STEP, 0, 0
    was_killed = True
    while was_killed:
        home = tmp_path / str(calls)
        home.mkdir()
        was_killed = killed_after(home / "made", calls)
        kills += was_killed
        if (home / "made").exists():
            wholes += 1
            assert_whole(home / "made")
        # The next job finds out that nobody works on what is left.
        for path in home.glob(".made.*"):
            if not (path / OWNER).exists():
                os.utime(path, (1, 1))
        remove_leftovers(str(home / "made"), Unsynced())
        assert names_in(home) in ([], ["made"])
        calls += STEP
    assert kills > 60 // STEP
    assert wholes >= 1


def test_fault_144_a_failed_attempt_leaves_nothing_and_the_next_one_counts(tmp_path: Path) -> None:
    job = Written(tmp_path / "made", list(TASKS[0][0]))
    with pytest.raises(ValueError, match="comes after"):
        job.task([row(1), row(1)])
    assert names_in(Path(job.job.path, "tasks")) == []
    job.outputs.append(job.task([row(1), row(2)], attempt=1))
    job.commit()
    assert [each.offset for each in records_of(tmp_path / "made")] == [1, 2]
    assert names_in(tmp_path) == ["made"]


def test_fault_144_a_twin_and_a_dead_attempt_do_not_count(tmp_path: Path) -> None:
    job = Written(tmp_path / "made", list(TASKS[0][0]))
    rows = [row(number) for number in range(10)]
    job.task(rows, 0, attempt=7)
    job.outputs.append(job.task(rows, 0, attempt=8))
    job.task(rows[:3], 0, attempt=9)
    job.commit()
    assert [each.offset for each in records_of(tmp_path / "made")] == list(range(10))
    assert names_in(tmp_path) == ["made"]


def test_a_twin_that_outlives_its_job_cannot_bring_its_folder_back(tmp_path: Path) -> None:
    for end in ("commit", "abort"):
        job = Written(tmp_path / end, list(TASKS[0][0]))
        job.outputs.append(job.task(TASKS[0]))

        def rows(job: Written = job, end: str = end) -> Iterator[Any]:
            yield from batches(TASKS[0][:10])
            job.commit() if end == "commit" else job.job.discard(job.disk)
            yield from batches([row(number, partition=3) for number in range(10)])

        with pytest.raises(FileNotFoundError):
            job.writer().write(0, 1, rows())
        with pytest.raises(FileNotFoundError, match="is missing on"):
            job.task(TASKS[0])
    assert names_in(tmp_path) == ["commit"]


def test_fault_143_of_two_jobs_for_a_target_one_wins_and_the_other_leaves_nothing(
    tmp_path: Path,
) -> None:
    first, second = written(tmp_path / "made"), written(tmp_path / "made")
    second.commit()
    with pytest.raises(FileExistsError):
        first.commit()
    first.job.discard(first.disk)
    assert names_in(tmp_path) == ["made"]
    assert_whole(tmp_path / "made")


def test_an_empty_folder_becomes_the_target(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    written(tmp_path / "made").commit()
    assert_whole(tmp_path / "made")


def test_a_target_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "something").touch()
    with pytest.raises(OptionError, match="never overwritten"):
        JobFolder.make(str(tmp_path / "made"))
    with pytest.raises(OptionError, match="is no folder"):
        JobFolder.make(str(tmp_path / "not" / "there"))
    (tmp_path / "meta.properties").touch()
    with pytest.raises(OptionError, match="broker's log dir"):
        JobFolder.make(str(tmp_path / "other"))


def test_the_folder_of_a_job_that_runs_is_left_alone(tmp_path: Path) -> None:
    mine = JobFolder.make(str(tmp_path / "made"))
    assert remove_leftovers(str(tmp_path / "made")) == []
    assert names_in(tmp_path) == [os.path.basename(mine.path)]
    other = JobFolder.make(str(tmp_path / "made-2"))
    assert remove_leftovers(str(tmp_path / "made-2")) == []
    other.discard()
    mine.discard()
    assert names_in(tmp_path) == []


def test_only_a_process_of_this_machine_is_known_to_be_gone() -> None:
    owner = this_owner()
    assert owner.pid == os.getpid()
    assert not owner.is_gone
    assert owner._replace(started=owner.started + 1).is_gone
    assert owner._replace(boot="before").is_gone
    assert owner._replace(pid=2**22 + 1).is_gone
    assert not owner._replace(pid=2**22 + 1, host="elsewhere").is_gone
    assert not owner._replace(pid=2**22 + 1, pids="pid:[1]").is_gone
    assert JobOwner(*list(owner)) == owner
