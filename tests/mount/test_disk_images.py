"""The README's way to look into a failing disk: an image, mounted without a write, of a disk that was never unmounted."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fixtures_data import log_dir

ROOT = Path(__file__).parents[2]
README, FORENSICS = ROOT / "README.md", ROOT / "kafkafs" / "docs" / "forensics.md"
MIB = 1 << 20
FILE_SYSTEMS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts images")


@contextmanager
def mounted(image: Path, folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir(exist_ok=True)
    command = ["mount", "-o", options, str(image), str(folder)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(f"no image can be mounted here: {ran.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(params=FILE_SYSTEMS)
def image(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """An image of a disk with the sample that was in use: its journal is not written back."""
    make = FILE_SYSTEMS[request.param]
    if shutil.which(make[0]) is None:
        pytest.skip(f"{make[0]} is not installed")
    disk, copy = tmp_path / "disk", tmp_path / "disk.img"
    disk.touch()
    os.truncate(disk, 320 * MIB)
    subprocess.run([*make, str(disk)], check=True, capture_output=True)
    with mounted(disk, tmp_path / "used", "loop") as used:
        shutil.copytree(log_dir("sample"), used / "data")
        subprocess.run(["sync", "-f", str(used)], check=True)
        (used / "open").write_bytes(b"not yet in its place")
        subprocess.run(["cp", "--sparse=always", str(disk), str(copy)], check=True)
    return copy


def check(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A check in a process of its own, which leaves no file open."""
    command = [sys.executable, "-m", "kafkafs", "check", str(source), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def checked(data: Path) -> list[int]:
    """Exit status of a check of each partition."""
    return [check(data / name).returncode for name in ("orders-0", "orders-1", "txn-0")]


def test_a_copy_of_the_image_has_all_that_was_written(image: Path, tmp_path: Path) -> None:
    found = re.search(r"^mount -o (\S+) work\.img ", README.read_text(), re.MULTILINE)
    assert found is not None
    with mounted(image, tmp_path / "seen", found[1]) as seen:
        remount = ["mount", "-o", "remount,ro", str(seen)]
        assert subprocess.run(remount, check=False).returncode == 0
        assert checked(seen / "data") == [0, 0, 0]
        told = check(seen / "data", "--rule", "file-system").stdout
        assert "note    file-system: mounted read-only" in told


def test_without_the_journal_the_image_stays_as_it_is(image: Path, tmp_path: Path) -> None:
    found = re.search(r"`mount -o (\S+)\s+disk\.img`", FORENSICS.read_text())
    assert found is not None
    before = hashlib.sha256(image.read_bytes()).hexdigest()
    with mounted(image, tmp_path / "seen", found[1]) as seen:
        assert not set(checked(seen / "data")) - {0, 1, 3}
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
