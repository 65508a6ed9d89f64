"""`kafkafs top` on a real mount."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
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


def test_top_shows_how_far_a_growing_log_is_ahead(mount: MountedLogs, tmp_path: Path) -> None:
    folder = mount.path / "orders-0/records"
    source = min((tmp_path / "data/orders-0").glob("*.log"))
    content = source.read_bytes()
    latest = mount.path / "orders-0/offset/latest"
    end = int(os.readlink(latest)) + 1
    log = BuiltLog(tmp_path / "more")
    log.segment(batches_of(4), 0)
    grown = min((tmp_path / "more/orders-0").glob("*.log")).read_bytes()
    assert grown.startswith(content)
    half = len(content) + (len(grown) - len(content)) // 2
    with open(source, "ab") as file:
        file.write(grown[len(content) : half])
        file.flush()
        wait_until(lambda: int(os.readlink(latest)) + 1 > end)
        list(folder.iterdir())
        seen = int(os.readlink(latest)) + 1
        file.write(grown[half:])
    facts = json.loads(top(mount.path, "--once", "--interval", "0.1", "--json").stdout)
    (followed,) = facts["followed"]
    assert followed["partition"] == "orders-0"
    assert followed["logEndOffset"] == seen
    assert followed["unreadBytes"] >= len(grown) - half
    shown = top(mount.path, "--once", "--interval", "0.1").stdout.splitlines()
    (line,) = [line for line in shown if line.startswith("orders-0 ")]
    assert "NOT YET SEEN" in "".join(shown)
    assert int(line.split()[1]) >= seen


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(200):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it never became so")


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
    assert shown.returncode == 3
    assert shown.stderr.startswith(f"kafkafs: {tmp_path} is no mount of kafkafs: ")
