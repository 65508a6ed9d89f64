"""Mounts for the tests of this folder; a failed test's daemon log is shown."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mount.mounted import Mounted


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    """One mount for a module's tests, which must leave the daemon alive."""
    mounted = Mounted(tmp_path_factory.mktemp("shared"))
    yield mounted
    mounted.stop()


@pytest.fixture
def mnt(shared: Mounted) -> Iterator[Path]:
    """The shared mount's path; the daemon must outlive the test."""
    yield shared.path
    assert shared.process.poll() is None, shared.log_text()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Mounted]]:
    """Starts daemons of the test's own."""
    running: list[Mounted] = []

    def begin(*options: str, name: str = "own") -> Mounted:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        mounted = Mounted(folder, *options)
        running.append(mounted)
        return mounted

    yield begin
    for mounted in running:
        mounted.stop()
