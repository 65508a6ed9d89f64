"""From end to end: a file system that gives EIO for a sector, and the commands and a mount over it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.damage.test_mount_faults import Mount
from tests.failing_mount import FailingMount, failing_mount
from tests.fixtures_data import copy_of
from tests.mount.mounted import ROOT, needs_fuse

pytestmark = [pytest.mark.mount, needs_fuse]

LOG = "orders-0/00000000000000000395.log"
LINES = "records/00000000000000000395.jsonl"
BAD = (28_672, 32_768)
LOST = range(568, 605)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of("current", tmp_path_factory.mktemp("original"), ["orders-0"])


@pytest.fixture(scope="module")
def failing(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailingMount]:
    with failing_mount(original, tmp_path_factory.mktemp("disk")) as disk:
        disk.set({LOG: [BAD]})
        yield disk


@pytest.fixture(scope="module")
def partition(failing: FailingMount, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """orders-0 in a mount of the failing file system; the daemon must outlive all tests."""
    mount = Mount(tmp_path_factory.mktemp("mount"), failing.path)
    yield mount.path / "orders-0"
    assert mount.process.poll() is None, mount.log_text()
    mount.stop()


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkafs", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def read_to_error(path: Path) -> tuple[bytes, int]:
    """The bytes up to an error, and its errno; 0 at the end of the file."""
    parts = []
    with path.open("rb", buffering=0) as file:
        try:
            while data := file.read(65_536):
                parts.append(data)
        except OSError as error:
            return b"".join(parts), error.errno or -1
    return b"".join(parts), 0


def offsets_in(lines: str) -> list[int]:
    found = [json.loads(line) for line in lines.splitlines()]
    return [line["offset"] for line in found if "offset" in line]


def test_cat_and_grep_lose_the_batches_of_the_sector_only(failing: FailingMount) -> None:
    result = run("cat", failing.path, f"orders-0/{LINES}")
    assert offsets_in(result.stdout) == [each for each in range(395, 790) if each not in LOST]
    result = run("grep", "-c", "id", failing.path)
    assert result.stdout == f"{1000 - len(LOST)}\n"
    assert "4096 bytes at byte 28672 cannot be read (Input/output error)" in result.stderr


def test_the_lines_in_the_mount_lose_them_too_and_the_xattr_tells(partition: Path) -> None:
    lines = (partition / LINES).read_text()
    assert offsets_in(lines) == [each for each in range(395, 790) if each not in LOST]
    facts = json.loads(os.getxattr(partition / LINES, "user.kafka.error"))
    assert "unreadable" in json.dumps(facts)


@pytest.mark.parametrize("again", [False, True])
def test_a_raw_file_gives_all_bytes_but_those_of_the_sector(
    partition: Path, original: Path, again: bool
) -> None:
    path, data = partition / "segments" / Path(LOG).name, (original / LOG).read_bytes()
    assert read_to_error(path) == (data[: BAD[0]], errno.EIO)
    with path.open("rb", buffering=0) as file:
        file.seek(BAD[1])
        assert file.read(1 << 20) == data[BAD[1] :]
    assert path.stat().st_size == len(data)


def test_a_slice_gives_all_bytes_before_the_sector_once_it_is_known(
    partition: Path, original: Path
) -> None:
    (partition / LINES).read_bytes()
    folder = partition / "time" / "2023-11-14T22:38..2023-11-14T22:43" / "log"
    (log,) = folder.glob("*.log")
    data = (original / LOG).read_bytes()
    got, number = read_to_error(log)
    start = data.index(got)
    assert number == errno.EIO
    assert start > 0
    assert start + len(got) == BAD[0]
    with log.open("rb", buffering=0) as file:
        file.seek(BAD[1] - start)
        rest = file.read(1 << 20)
    assert rest == data[BAD[1] : start + log.stat().st_size]


def test_a_lost_record_has_its_story_and_its_neighbours_are_there(partition: Path) -> None:
    lost = partition / "offset" / str(LOST[5])
    assert read_offset(lost) == errno.EIO
    story = json.loads(os.getxattr(lost, "user.kafka.error"))
    assert (story["kind"], story["file"]) == ("unreadable", LOG)
    assert (story["firstOffset"], story["lastOffset"]) == (LOST[0], LOST[-1])
    for offset in (LOST[0] - 1, LOST[-1] + 1):
        assert read_offset(partition / "offset" / str(offset)) == offset


def read_offset(path: Path) -> int:
    """The offset in a record's file; the errno of an error."""
    try:
        return int(json.loads(path.read_text())["offset"])
    except OSError as error:
        return error.errno or -1


def test_the_problem_names_the_sector(partition: Path) -> None:
    (partition / LINES).read_bytes()
    problems = (partition.parent / ".kafkafs" / "problems").read_text()
    found = [json.loads(line) for line in problems.splitlines()]
    assert [
        (each["kind"], each["file"], each["position"], each["length"])
        for each in found
        if each["kind"] == "unreadable"
    ] == [("unreadable", LOG, BAD[0], BAD[1] - BAD[0])]
