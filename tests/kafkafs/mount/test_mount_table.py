"""Parsing mountinfo, and finding a mountpoint without entering it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkafs.mount.child_process import ask_in_child
from kafkafs.mount.mount_table import Mount, mount_at, parse_mounts, read_mounts, real_mountpoint

TEXT = rb"""22 26 0:21 / /proc rw,nosuid - proc proc rw
36 26 0:42 / /mnt/my\040kafka\134data ro,nosuid shared:3 master:1 - fuse.kafkafs kafkafs:/data ro,user_id=0
37 26 0:43 / /mnt/a - broken
garbage
38 26 8:1 /sub /bind rw,noatime - ext4 /dev/sda1 rw
"""


def test_fields_and_escapes_are_read_and_broken_lines_left_out() -> None:
    mounts = parse_mounts(TEXT)
    assert [mount.mountpoint for mount in mounts] == ["/proc", "/mnt/my kafka\\data", "/bind"]
    assert mounts[1] == Mount(
        "/mnt/my kafka\\data", "0:42", "fuse.kafkafs", "kafkafs:/data", "ro,nosuid,ro,user_id=0"
    )
    assert [mount.is_ours for mount in mounts] == [False, True, False]


def test_this_machines_table_has_a_root() -> None:
    assert any(mount.mountpoint == "/" for mount in read_mounts())
    found = mount_at("/proc")
    assert found is not None
    assert found.kind == "proc"
    assert mount_at("/no/such/place") is None


def test_a_mountpoint_is_found_through_links(tmp_path: Path) -> None:
    (tmp_path / "real" / "mnt").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "last").symlink_to(tmp_path / "real" / "mnt")
    wanted = os.path.realpath(tmp_path / "real" / "mnt")
    assert real_mountpoint(str(tmp_path / "link" / "mnt")) == wanted
    assert real_mountpoint(str(tmp_path / "last")) == wanted
    assert real_mountpoint("/dev/fd/3") == "/dev/fd/3"


def test_a_question_aside_brings_its_answer_or_its_error() -> None:
    assert ask_in_child(lambda: b"answer" * 1000) == b"answer" * 1000
    with pytest.raises(FileNotFoundError):
        ask_in_child(lambda: os.readlink("/no/such/place").encode())
    with pytest.raises(OSError, match="Input/output error"):
        ask_in_child(lambda: 1 // 0)  # type: ignore[arg-type, return-value]


def test_a_question_that_hangs_is_left_behind() -> None:
    import time

    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        ask_in_child(lambda: time.sleep(60) or b"", seconds=0.2)
    assert time.monotonic() - begin < 5
