"""`kafkafs top` on a real mount."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafkafs.built_logs import BuiltLog, batches_of
from tests.mount.mounted import needs_fuse
from tests.mount.test_log_dirs import MountedLogs

pytestmark = [pytest.mark.mount, needs_fuse]


def top(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkafs", "top", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def mount(tmp_path: Path):
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(2), 0)
    (tmp_path / "mount").mkdir()
    mounted = MountedLogs(tmp_path / "mount", log.log_dir)
    yield mounted
    mounted.stop()


def test_top_shows_reads_and_problems(mount: MountedLogs) -> None:
    (mount.path / "orders-0/offset/3").read_bytes()
    shown = top(mount.path, "--once", "--interval", "0.1")
    assert shown.returncode == 0
    assert ", 1 partition\n" in shown.stdout
    assert "0 problems found so far" in shown.stdout
    (lookup,) = [line for line in shown.stdout.splitlines() if line.startswith("lookup ")]
    assert int(lookup.split()[2]) >= 3


def test_top_gives_the_same_as_json(mount: MountedLogs) -> None:
    facts = json.loads(top(mount.path, "--once", "--interval", "0.1", "--json").stdout)
    assert facts["mountpoint"] == str(mount.path)
    assert facts["problems"] == 0
    assert facts["bytesPerSecond"] >= 0
    assert facts["statistics"]["operations"]["lookup"]["perSecond"] >= 0


def test_top_ends_with_the_mount(mount: MountedLogs) -> None:
    command = [sys.executable, "-m", "kafkafs", "top", mount.path, "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(str(mount.path))
        mount.stop()
        *_, last = running.stdout
        assert last == f"{mount.path}: the mount has ended\n"
    assert running.returncode == 0


def test_a_folder_that_is_no_mount_is_refused(tmp_path: Path) -> None:
    shown = top(tmp_path, "--once")
    assert shown.returncode == 2
    assert f"{tmp_path} is no mount of kafkafs" in shown.stderr
