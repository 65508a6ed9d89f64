"""What the daemon knows of its log dirs."""

from __future__ import annotations

import os
from pathlib import Path

from kafkafs.mount.log_tree import LogTree
from kafkafs.mount.mounting import MountOptions
from kafkafs.mount.status import DaemonStatus


def test_two_log_dirs_on_one_file_system_are_counted_once(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("first", "second")]
    for number, path in enumerate(paths):
        os.makedirs(f"{path}/orders-{number}")
    options = MountOptions()
    status = DaemonStatus(paths, "/mnt", options, log_text=str, clock=lambda: 0.0)
    tree = LogTree(paths, options, status)
    try:
        system = os.statvfs(tmp_path)
        usage = tree.usage()
        assert usage.size == system.f_blocks * system.f_frsize
        assert usage.files == system.f_files
        assert usage.free >= usage.available > 0
    finally:
        tree.close()
