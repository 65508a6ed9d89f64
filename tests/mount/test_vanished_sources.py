"""Sources that are unmounted, or whose file system dies, under a mount."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures_data import copy_of
from tests.mount.mounted import Mounted, needs_fuse, wait_until

pytestmark = [pytest.mark.mount, needs_fuse]

Mount = Callable[[Path], Mounted]


class MountedSource(Mounted):
    """The `kafkafs mount` command over a log dir."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.given = source
        super().__init__(folder)

    def command(self, options: tuple[str, ...]) -> list[str]:
        kafkafs = [sys.executable, "-m", "kafkafs", "mount", "--foreground"]
        return [*kafkafs, str(self.given), str(self.path)]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts log dirs; the last one is unmounted first."""
    running: list[Mounted] = []

    def begin(source: Path) -> Mounted:
        folder = tmp_path / f"mount-{len(running)}"
        folder.mkdir()
        mounted = MountedSource(folder, source)
        running.append(mounted)
        return mounted

    yield begin
    for mounted in reversed(running):
        mounted.stop()


@pytest.fixture
def bound(tmp_path: Path) -> Iterator[Path]:
    """A folder over which a log dir is bind-mounted."""
    source = copy_of("current", tmp_path, ["orders-0", "txn-0"])
    folder = tmp_path / "bound"
    folder.mkdir()
    if os.geteuid() or bind(source, folder):
        pytest.skip("this user may not mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], capture_output=True)


def bind(source: Path, folder: Path) -> int:
    command = ["mount", "--bind", str(source), str(folder)]
    return subprocess.run(command, capture_output=True).returncode


def errno_of_list(path: Path) -> int:
    try:
        os.listdir(path)
    except OSError as error:
        return error.errno or 0
    return 0


def test_a_source_that_is_unmounted_gives_errors_until_it_is_back(
    mount: Mount, bound: Path, tmp_path: Path
) -> None:
    mounted = mount(bound)
    record = (mounted.path / "orders-0/offset/35").read_bytes()
    subprocess.run(["umount", "-l", str(bound)], check=True)
    assert wait_until(lambda: errno_of_list(mounted.path) == errno.ESTALE)
    assert wait_until(lambda: errno_of_list(mounted.path / "orders-0/records") == errno.ESTALE)
    with pytest.raises(OSError, match="Stale"):
        (mounted.path / "orders-0/offset/36").read_bytes()
    assert '"kind":"source_gone"' in (mounted.path / ".kafkafs/problems").read_text()
    assert bind(tmp_path / "current", bound) == 0
    assert wait_until(lambda: errno_of_list(mounted.path) == 0)
    assert (mounted.path / "orders-0/offset/35").read_bytes() == record


def test_a_backup_is_not_erased(mount: Mount, bound: Path, tmp_path: Path) -> None:
    mounted = mount(bound)
    backup = tmp_path / "backup"
    command = ["rsync", "-a", "--delete", "--exclude=.kafkafs", f"{mounted.path}/", str(backup)]
    assert subprocess.run(command).returncode == 0
    before = sorted(backup.rglob("*"))
    assert len(before) > 20
    subprocess.run(["umount", "-l", str(bound)], check=True)
    assert wait_until(lambda: errno_of_list(mounted.path) == errno.ESTALE)
    assert subprocess.run(command, capture_output=True).returncode == 23
    assert sorted(backup.rglob("*")) == before


def test_a_source_whose_file_system_dies_gives_errors(mount: Mount, tmp_path: Path) -> None:
    below = mount(copy_of("current", tmp_path, ["orders-0", "txn-0"]))
    mounted = mount(below.path / "time" / "2020..2030")
    assert "orders-0" in os.listdir(mounted.path)
    below.process.send_signal(signal.SIGKILL)
    below.process.wait()
    assert wait_until(lambda: errno_of_list(mounted.path) == errno.EIO)
    assert wait_until(lambda: errno_of_list(mounted.path / "orders-0/records") == errno.EIO)
    problems = (mounted.path / ".kafkafs/problems").read_text()
    assert "does not answer: Transport endpoint is not connected" in problems
