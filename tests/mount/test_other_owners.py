"""Folders and files of another owner in a mounted log dir: told, and the rest is served."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.damage.test_mount_faults import Mount
from tests.fixtures_data import copy_of
from tests.mount.mounted import needs_fuse, wait_until

FILE = f"txn-0/{9:020}.log"
REASON = "65311 bytes at byte 0 cannot be read (Permission denied)"
OTHER = 12_345

pytestmark = [
    pytest.mark.mount,
    needs_fuse,
    pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed"),
]


class ModesCount(Mount):
    """A daemon that may not pass over modes, even as root."""

    def command(self, options: tuple[str, ...]) -> list[str]:
        command = super().command(options)
        if os.geteuid():
            return command
        return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[ModesCount]:
    """The folder orders-0 and one records file of txn-0 may not be read; the daemon must live on."""
    source = copy_of("current", tmp_path, ["orders-0", "codec-gzip-0", "txn-0"])
    for path in (source / "orders-0", source / FILE):
        path.chmod(0)
        if os.geteuid() == 0:
            os.chown(path, OTHER, OTHER)
    mounted = ModesCount(tmp_path / "mount", source)
    yield mounted
    assert mounted.end() == 0, mounted.log_text()


def errno_of_reading(path: Path) -> int | None:
    try:
        path.read_bytes()
    except OSError as error:
        return error.errno
    return None


def test_what_may_not_be_read_is_refused_and_the_rest_is_served(mount: ModesCount) -> None:
    tree = mount.path
    assert {"orders-0", "codec-gzip-0", "txn-0"} <= set(os.listdir(tree))
    assert len((tree / f"codec-gzip-0/records/{0:020}.jsonl").read_text().splitlines()) == 900
    with pytest.raises(PermissionError):
        os.listdir(tree / "orders-0" / "records")
    assert errno_of_reading(tree / "orders-0" / "offset" / "5") == errno.EACCES
    assert errno_of_reading(tree / "txn-0" / "segments" / Path(FILE).name) == errno.EACCES
    assert errno_of_reading(tree / "txn-0" / "offset" / "20") == errno.EIO
    for offset in (3, 500):
        line = (tree / "txn-0" / "offset" / str(offset)).read_text()
        assert json.loads(line)["offset"] == offset


def test_its_stream_its_xattr_and_the_problems_tell_why(mount: ModesCount) -> None:
    lines = mount.path / "txn-0" / "records" / f"{9:020}.jsonl"
    (line,) = lines.read_text().splitlines()
    facts = json.loads(line)["error"]
    assert (facts["kind"], facts["file"], facts["reason"]) == ("unreadable", FILE, REASON)
    assert REASON in os.getxattr(lines, "user.kafka.error").decode()
    errno_of_reading(mount.path / "orders-0" / "offset" / "5")
    problems = (mount.path / ".kafkafs" / "problems").read_text().splitlines()
    found = {(each["file"], each["reason"], each["errno"]) for each in map(json.loads, problems)}
    assert found == {("orders-0", "Permission denied", "EACCES"), (FILE, REASON, "EACCES")}


def test_what_may_be_read_again_is_served_without_a_remount(mount: ModesCount) -> None:
    tree = mount.path
    assert errno_of_reading(tree / "txn-0" / "offset" / "20") == errno.EIO
    for path, mode in (("orders-0", 0o755), (FILE, 0o644)):
        (mount.given / path).chmod(mode)
    for record in ("orders-0/offset/5", "txn-0/offset/20"):
        assert wait_until(lambda record=record: errno_of_reading(tree / record) is None)
