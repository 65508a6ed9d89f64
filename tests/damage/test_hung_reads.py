"""A read that hangs below a mount is told, and holds up no reader of anything else."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.damage.test_mount_faults import Mount
from tests.fixtures_data import log_dir
from tests.mount.mounted import needs_fuse, wait_until
from tests.unreadable import FailingDisk, Fault

pytestmark = [pytest.mark.mount, needs_fuse]

SECONDS = 9.0


def test_a_hung_read_is_told_and_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    shutil.copytree(log_dir("current"), source)
    disk = FailingDisk(tmp_path)
    with monkeypatch.context() as patch:
        for name, value in disk.environment.items():
            patch.setenv(name, value)
        mount = Mount(tmp_path / "mount", source)
    orders = mount.path / "orders-0"
    lines = (orders / "records" / f"{0:020}.jsonl").read_bytes()
    disk.fail([Fault(source / "orders-0" / f"{395:020}.log", "r", 0, seconds=SECONDS)])
    hung = subprocess.Popen(
        ["cat", orders / "records" / f"{395:020}.jsonl"], stdout=subprocess.DEVNULL
    )
    time.sleep(0.5)
    begun = time.monotonic()
    assert (orders / "records" / f"{0:020}.jsonl").read_bytes() == lines
    assert (orders / "offset" / "800").read_bytes()
    assert (mount.path / "txn-0" / "records" / f"{0:020}.jsonl").read_bytes()
    assert time.monotonic() - begun < 3.0
    problems = mount.path / ".kafkafs" / "problems"
    sentence = f"no answer for 5 s from {source}/orders-0/{395:020}.log"
    assert wait_until(lambda: sentence in problems.read_text(), SECONDS)
    assert sentence in mount.log_text()
    killed = time.monotonic()
    hung.kill()
    hung.wait()
    assert time.monotonic() - killed < 1.0
    disk.fail([])
    assert mount.end() == 0
