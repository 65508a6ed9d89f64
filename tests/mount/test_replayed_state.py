"""Groups through the kernel: read by tools, followed while a broker commits, left out of a period's copy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import batch, values
from tests.mount.mounted import Mounted, needs_fuse
from tests.replayed_bytes import NOW, commit, in_batches, write_partition

pytestmark = [pytest.mark.mount, needs_fuse]

VISIBLE_WITHIN = 1.0


class MountedLogs(Mounted):
    """The `kafkafs mount` command over a log dir."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.given = source
        super().__init__(folder)

    def command(self, options: tuple[str, ...]) -> list[str]:
        command = [sys.executable, "-m", "kafkafs", "mount", "--foreground"]
        return [*command, str(self.given), str(self.path)]


@pytest.fixture
def commits(tmp_path: Path) -> Path:
    """The .log of a partition of __consumer_offsets, in tmp_path/logs."""
    write_partition(tmp_path / "logs", "t-0", [batch(values("a", "b", "c"))])
    records = [commit("g", "t", 0, 1), commit("odd/group", "t", 0, 2)]
    return write_partition(tmp_path / "logs", "__consumer_offsets-0", in_batches(records))


@pytest.fixture
def mounted(tmp_path: Path, commits: Path) -> Iterator[Path]:
    folder = tmp_path / "mount"
    folder.mkdir()
    running = MountedLogs(folder, tmp_path / "logs")
    yield running.path
    assert running.process.poll() is None, running.log_text()
    running.stop()


def test_tools_read_groups_as_any_files(mounted: Path) -> None:
    assert sorted(os.listdir(mounted / "groups")) == ["g", "odd%2Fgroup"]
    path = mounted / "groups" / "odd%2Fgroup" / "t-0"
    facts = json.loads(path.read_bytes())
    assert (facts["group"], facts["offset"], facts["lag"]) == ("odd/group", 2, 1)
    status = path.stat()
    assert (status.st_size, status.st_mtime_ns) == (len(path.read_bytes()), NOW * 1_000_000)
    found = subprocess.run(
        ["grep", "-rl", '"offset": 2', str(mounted / "groups")], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert found.stdout.splitlines() == [str(path)]


def test_a_new_commit_is_visible_within_a_second(mounted: Path, commits: Path) -> None:
    path = mounted / "groups" / "g" / "t-0"
    assert json.loads(path.read_bytes())["offset"] == 1
    for number in range(3):
        offset = 100_000_000 * (number + 1)
        with open(commits, "ab") as log:
            log.write(batch([commit("g", "t", 0, offset), commit(f"new-{number}", "t", 0, 1)],
                            2 + 2 * number))  # fmt: skip
        end = time.monotonic() + VISIBLE_WITHIN
        while json.loads(path.read_bytes())["offset"] != offset:
            assert time.monotonic() < end
            time.sleep(0.02)
        while f"new-{number}" not in os.listdir(mounted / "groups"):
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_copy_of_a_period_is_a_log_dir_and_nothing_else(mounted: Path, tmp_path: Path) -> None:
    period = mounted / "time" / "2023-11-14"
    assert json.loads((period / "groups" / "g" / "t-0").read_bytes())["offset"] == 1
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(period), str(copy)], check=True)
    assert sorted(os.listdir(copy)) == ["__consumer_offsets-0", "t-0"]
