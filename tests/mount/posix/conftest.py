"""One mount for all tests of this folder, and the same files on a file system of the kernel's own, mounted read-only."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import fixtures_data
from tests.mount.mounted import Mounted, obstacle
from tests.mount.posix.posix_tree import BESIDE, TREE, make_on_disk

SERVE = Path(__file__).with_name("serve_posix.py")
PARTITIONS = ["orders-0", "txn-0", "weird-0", "empty-0"]


class Both(Mounted):
    """A daemon over some partitions, and the folder `posix`."""

    def command(self, options: tuple[str, ...]) -> list[str]:
        source = fixtures_data.copy_of("current", self.folder, PARTITIONS)
        return [sys.executable, str(SERVE), str(source), str(self.path)]


@pytest.fixture(scope="session")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """A mount that all tests share; none may end its daemon."""
    if reason := obstacle():
        pytest.skip(reason)
    both = Both(tmp_path_factory.mktemp("both"))
    yield both
    alive = both.process.poll() is None
    both.stop()
    assert alive, both.log_text()


@pytest.fixture(scope="session")
def read_only_tmpfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tree on a tmpfs that was mounted again with the mount's own flags."""
    path = tmp_path_factory.mktemp("tmpfs")
    done = subprocess.run(["mount", "-t", "tmpfs", "none", path], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this user may not mount a tmpfs to compare with")
    try:
        make_on_disk(str(path), TREE)
        flags = "remount,ro,nosuid,nodev,noexec,noatime"
        subprocess.run(["mount", "-o", flags, path], check=True)
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def enter(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make it the current folder: the calls that must fail would change it otherwise."""
    assert os.statvfs(path).f_flag & os.ST_RDONLY
    monkeypatch.chdir(path)
    return path


@pytest.fixture(params=["ours", "tmpfs"])
def here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: the tree in our mount; and on the kernel's file system, which judges the test itself."""
    if request.param == "ours":
        return enter(request.getfixturevalue("mounted").path / BESIDE, monkeypatch)
    return enter(request.getfixturevalue("read_only_tmpfs"), monkeypatch)


@pytest.fixture
def ours(mounted: Both, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: the tree in our mount, for what the kernel's file systems do otherwise."""
    return enter(mounted.path / BESIDE, monkeypatch)


@pytest.fixture
def logs(mounted: Both, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: the root of our mount, with its partitions."""
    return enter(mounted.path, monkeypatch)
