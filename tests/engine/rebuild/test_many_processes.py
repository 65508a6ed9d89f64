"""A rebuild in several processes makes the same log dir as in one, and leaves as little after a failure."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.disk.disk import Bytes, Disk, WritableFile
from engine.processes import by_weight
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild
from tests.engine.rebuild.made_logs import HITS, make_log

EMPTY = "empty-0"
NAMES = ("orders-0", "orders-1", "orders-2", "payments-0", "payments-1")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Partitions of different sizes, some of them damaged, one without a record."""
    for number, name in enumerate(NAMES):
        made = make_log(
            tmp_path / "source",
            Random(name),
            name=name,
            segments=1 + number,
            batches=10 * (1 + number),
        )
        if number % 2:
            HITS["flipped"](made, Random(name))
    (tmp_path / "source" / EMPTY).mkdir()
    (tmp_path / "source" / EMPTY / f"{0:020}.log").touch()
    return tmp_path / "source"


def content(log_dir: Path) -> dict[str, Any]:
    """Every file with its bytes and mode; the manifest without its time and its path."""
    found: dict[str, Any] = {}
    for path in sorted(log_dir.rglob("*")):
        name, mode = str(path.relative_to(log_dir)), path.stat().st_mode
        found[name] = (mode, path.read_bytes() if path.is_file() else None)
    manifest = json.loads(found.pop("kafkafs-rebuild.json")[1])
    del manifest["created"], manifest["target"]
    found["manifest"] = manifest
    return found


def no_process_is_left() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


@pytest.mark.parametrize("jobs", [2, 4, 16])
def test_the_result_is_the_same_with_any_number_of_processes(
    source: Path, tmp_path: Path, jobs: int
) -> None:
    counts: dict[int, dict[str, int]] = {1: {}, jobs: {}}
    results = {}
    for number in (1, jobs):

        def advance(kind: str, count: int, number: int = number) -> None:
            counts[number][kind] = counts[number].get(kind, 0) + count

        target = str(tmp_path / f"target-{number}")
        results[number] = rebuild(str(source), target, RebuildOptions(jobs=number), advance=advance)
    assert content(tmp_path / f"target-{jobs}") == content(tmp_path / "target-1")
    assert results[jobs].partitions == results[1].partitions
    assert [each["partition"] for each in results[jobs].partitions] == [EMPTY, *NAMES]
    assert results[1].lost_something
    assert counts[jobs] == counts[1]
    assert set(counts[1]) == {"read", "written", "verified"}
    assert no_process_is_left()


def test_the_segments_of_a_single_partition_are_written_by_threads(tmp_path: Path) -> None:
    made = make_log(tmp_path / "source", Random(1), segments=6, batches=60)
    for jobs in (1, 4):
        target = str(tmp_path / f"target-{jobs}")
        rebuild(str(made.folder), target, RebuildOptions(jobs=jobs))
    assert content(tmp_path / "target-4") == content(tmp_path / "target-1")


def test_a_dry_run_reports_the_same(source: Path) -> None:
    one, many = (rebuild(str(source), None, RebuildOptions(jobs=jobs)) for jobs in (1, 3))
    assert many.partitions == one.partitions
    assert many.lost_something == one.lost_something


class FullDisk(Disk):
    """A disk that is full before the records of a partition."""

    def __init__(self, partition: str) -> None:
        self.partition = partition

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        is_full = writable and f"/{self.partition}/" in path and path.endswith(".log")
        return (_FullFile if is_full else WritableFile)(fd, path, writable=writable)


class _FullFile(WritableFile):
    def write_at(self, position: int, data: Bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("names", [NAMES, NAMES[:1]])
def test_a_full_disk_leaves_no_target_and_no_process(
    source: Path, tmp_path: Path, jobs: int, names: tuple[str, ...]
) -> None:
    options = RebuildOptions(jobs=jobs, partitions=names)
    with pytest.raises(OSError, match="No space left") as caught:
        rebuild(str(source), str(tmp_path / "target"), options, disk=FullDisk(names[-1]))
    assert caught.value.errno == errno.ENOSPC
    assert names[-1] in caught.value.filename
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    assert no_process_is_left()


@pytest.mark.parametrize("names", [NAMES, NAMES[:1]])
@pytest.mark.parametrize("step", ["read", "written", "verified"])
def test_an_interrupt_leaves_no_target_and_no_process(
    source: Path, tmp_path: Path, names: tuple[str, ...], step: str
) -> None:
    def advance(kind: str, _: int) -> None:
        if kind == step:
            raise KeyboardInterrupt

    options = RebuildOptions(jobs=3, partitions=names)
    with pytest.raises(KeyboardInterrupt):
        rebuild(str(source), str(tmp_path / "target"), options, advance=advance)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    assert no_process_is_left()


def longest(weights: list[int], jobs: int) -> int:
    """The work of the busiest process, if each one takes the next item when it is free."""
    busy = [0] * jobs
    for place in by_weight(weights):
        busy[busy.index(min(busy))] += weights[place]
    return max(busy)


@pytest.mark.parametrize("jobs", [2, 16])
@pytest.mark.parametrize("big_at", [0, 500, 999])
def test_the_work_is_even_with_one_big_partition_among_small_ones(jobs: int, big_at: int) -> None:
    weights = [1000] * 1000
    weights[big_at] = sum(weights) // jobs
    assert longest(weights, jobs) <= 1.02 * sum(weights) / jobs
