"""The source is only ever opened read-only, and may lie on a medium that cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures_data import copy_of
from tests.mount.mounted import needs_fuse, wait_until
from tests.traced_calls import assert_only_read, strace

pytestmark = [pytest.mark.mount, needs_fuse]

ONLY = ["orders-0", "txn-0", "weird-0", "codec-zstd-0"]


@pytest.fixture
def mountpoint(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mnt"
    path.mkdir()
    yield path
    subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True)


def kafkafs(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "kafkafs", *arguments], check=True, timeout=60)


def read_everything(mountpoint: Path) -> None:
    for command in (
        f"find {mountpoint} -ls > /dev/null",
        f"grep -r Oslo {mountpoint}/*/records > /dev/null",
        f"tar -cf - -C {mountpoint} . | cat > /dev/null",
    ):
        subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, timeout=120)


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_the_daemon_opens_nothing_below_the_source_for_writing(
    tmp_path: Path, mountpoint: Path
) -> None:
    source = copy_of("current", tmp_path, ONLY)
    trace = tmp_path / "trace"
    command = [
        *strace(trace),
        sys.executable,
        "-m",
        "kafkafs",
        "mount",
        "-f",
        str(source),
        str(mountpoint),
    ]
    with subprocess.Popen(command) as daemon:
        wait_until(lambda: os.path.ismount(mountpoint) and os.listdir(mountpoint), 30)
        read_everything(mountpoint)
        kafkafs("umount", str(mountpoint))
        assert daemon.wait(30) == 0
    assert_only_read(trace, source)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a bind mount")
def test_a_source_on_a_read_only_mount_is_shown_whole(tmp_path: Path, mountpoint: Path) -> None:
    source = copy_of("current", tmp_path, ONLY)
    bound = tmp_path / "bound"
    bound.mkdir()
    subprocess.run(["mount", "--bind", str(source), str(bound)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(bound)], check=True)
        with pytest.raises(OSError, match="Read-only"):
            (bound / "x").touch()
        kafkafs("mount", str(bound), str(mountpoint))
        read_everything(mountpoint)
        shown = {path.name for path in mountpoint.iterdir()}
        kafkafs("umount", str(mountpoint))
    finally:
        subprocess.run(["umount", str(bound)], check=True)
    assert set(ONLY) <= shown
