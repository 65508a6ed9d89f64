"""A recovery that is killed at any moment leaves its target whole or absent, and the same command goes on."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.disk.disk import Disk, StrPath, WritableFile
from engine.rebuild.errors import RebuildFailedError
from engine.rebuild.target.manifest import compare, read_manifest
from engine.recover import writing
from engine.recover.journal import JOURNAL
from engine.recover.options import RecoverOptions
from engine.recover.recovering import recover
from tests.engine.recover.dead_clusters import hashes, report_of, unpacked

KILLS = int(os.environ.get("KAFKAFS_RECOVER_KILLS") or 4)


class _DyingFile(WritableFile):
    dies: Callable[[], None]

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        self.dies()
        super().write_at(position, data)

    def sync(self) -> None:
        self.dies()


class _DyingDisk(Disk):
    """A disk whose process is killed at one of its calls that write; it counts them in all copies of itself."""

    def __init__(self, dies_at: int = -1) -> None:
        self.counted = [0]
        self.dies_at = dies_at

    def _dies(self) -> None:
        self.counted[0] += 1
        if self.counted[0] == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        file = _DyingFile(fd, path, writable=writable)
        file.dies = self._dies
        return file

    def sync_folder(self, path: StrPath) -> None:
        self._dies()

    def rename(self, old: StrPath, new: StrPath) -> None:
        self._dies()
        super().rename(old, new)

    def rename_new(self, old: StrPath, new: StrPath) -> None:
        self._dies()
        super().rename_new(old, new)
        self._dies()

    def copy_new(self, source: StrPath, target: StrPath) -> None:
        self._dies()
        super().copy_new(source, target)


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return unpacked(tmp_path_factory.mktemp("dead"))


@pytest.fixture(scope="module")
def calls(dead: list[Path], tmp_path_factory: pytest.TempPathFactory) -> int:
    """The number of calls of a whole recovery."""
    disk = _DyingDisk()
    target = tmp_path_factory.mktemp("counted") / "target"
    recover([str(path) for path in dead], str(target), disk=disk)
    return disk.counted[0]


def killed_at(call: int, dead: list[Path], target: Path) -> bool:
    """Recover in a process of its own; return whether it was killed before its end."""
    pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            recover([str(path) for path in dead], str(target), disk=_DyingDisk(call))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def leftovers(target: Path) -> Iterator[Path]:
    return target.parent.glob(f".{target.name}.kafkafs-rebuild-*")


def test_a_kill_leaves_the_target_whole_or_absent_and_the_next_run_makes_it(
    dead: list[Path], calls: int, tmp_path: Path
) -> None:
    before = hashes(dead)
    at_random = random.Random(calls).sample(range(1, calls + 1), KILLS - 2)
    killed = 0
    for call in sorted([1, *at_random, calls]):
        target = tmp_path / f"at-{call}"
        killed += killed_at(call, dead, target)
        if not target.exists():
            report_of(dead, target)
        assert list(compare(str(target), read_manifest(str(target)))) == [], call
        assert not (target / JOURNAL).exists()
        assert not list(leftovers(target)), call
    assert killed >= KILLS - 1, "the last call is not always made: threads share some"
    assert hashes(dead) == before


def test_partitions_that_were_written_are_not_written_again(
    dead: list[Path], calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    killed_at(calls * 8 // 10, dead, target)
    [left] = leftovers(target)
    lines = [json.loads(line) for line in (left / JOURNAL).read_text().splitlines() if line]
    written = []
    write = writing.write_log

    def noted(log_dir: str, new: writing.RebuiltLog, *more: object) -> object:
        written.append(str(new.partition))
        return write(log_dir, new, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(writing, "write_log", noted)
    report_of(dead, target)
    assert len(lines) > 1
    assert len(written) == 5 - (len(lines) - 1)
    assert list(compare(str(target), read_manifest(str(target)))) == []


@pytest.mark.parametrize("change", ["source", "options", "torn journal"])
def test_what_another_plan_wrote_is_written_again(
    dead: list[Path], calls: int, tmp_path: Path, change: str
) -> None:
    dead = unpacked(tmp_path / "dead")
    target = tmp_path / "target"
    killed_at(calls * 8 // 10, dead, target)
    options = {}
    if change == "source":
        for log in dead[0].parent.parent.glob("*/data/orders-0/*.log"):
            os.utime(log, ns=(1, 1))
    elif change == "options":
        options = {"replication": 2}
    else:
        [left] = leftovers(target)
        (left / JOURNAL).write_bytes((left / JOURNAL).read_bytes()[:-30] + b"\xff{")
    report = report_of(dead, target, **options)
    assert list(compare(str(target), read_manifest(str(target)))) == []
    folders = {path.name for path in target.glob("node-*/data/*-*") if path.is_dir()}
    assert {each["partition"] for each in report["partitions"]} <= folders
    assert len(list(target.glob("node-*/data/orders-0"))) == options.get("replication", 3)


def test_what_was_changed_since_it_was_written_is_found(
    dead: list[Path], calls: int, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    killed_at(calls * 8 // 10, dead, target)
    [left] = leftovers(target)
    first = json.loads((left / JOURNAL).read_text().splitlines()[3])
    [name, *_] = first["files"]
    for path in left.glob(f"node-1/data/*/{name}"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    with pytest.raises(RebuildFailedError):
        recover([str(path) for path in dead], str(target), RecoverOptions())
    assert not target.exists()
