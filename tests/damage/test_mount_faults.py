"""Faults 111 to 123, through a mount of a log dir that holds every kind of damage.

What must hold for any tree (an exception in each handler, signals, crashes, stale and busy mounts) is tested in
tests/mount with a tree in memory; here it is the log's own errors that must not hurt the mount.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.builders import patched, resealed
from tests.damage.cases import (
    BEFORE,
    GOOD_VALUES,
    VICTIM,
    around,
    behind,
    good,
    int32,
    int64,
    log_dir,
)
from tests.damage.conftest import fingerprint
from tests.damage.reader import ROOT
from tests.damage.test_bombs import BOMBS
from tests.mount.mounted import Mounted, needs_fuse, wait_until

pytestmark = [pytest.mark.mount, needs_fuse]

LINES = f"{0:020}.jsonl"
DAMAGE = {
    "length": patched(VICTIM, 8, int32(2**31 - 1)),
    "magic": patched(VICTIM, 16, b"\x07"),
    "checksum": patched(VICTIM, 70, b"\xff"),
    "offset": patched(VICTIM, 0, int64(-1)),
    "count": resealed(patched(VICTIM, 57, int32(-1))),
    "codec": resealed(patched(VICTIM, 21, b"\x00\x07")),
    "zeros": bytes(4096),
    "noise": bytes(range(256)) * 20,
    "bomb": BOMBS["048-1-MiB-to-32-GiB"][0],
    "snappy": BOMBS["051-snappy-claims-4-GiB"][0],
}


class Mount(Mounted):
    """The `kafkafs mount` command over a log dir, in the foreground."""

    def __init__(self, folder: Path, source: Path, *, files: int | None = None) -> None:
        self.given = source
        self.limit = ["prlimit", f"--nofile={files}:{files}"] if files else []
        folder.mkdir(exist_ok=True)
        super().__init__(folder)

    def command(self, options: tuple[str, ...]) -> list[str]:
        command = [*self.limit, sys.executable, "-m", "kafkafs", "mount", "--foreground"]
        return [*command, str(self.given), str(self.path)]

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit status after a signal."""
        self.process.send_signal(number)
        try:
            return self.ended(15)
        finally:
            self.stop()


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mount]:
    folder = tmp_path_factory.mktemp("damaged")
    source = folder / "source"
    for name, bad in DAMAGE.items():
        around(folder / "made", bad)
        (source / f"{name}-0").parent.mkdir(exist_ok=True)
        (folder / "made" / "t-0").rename(source / f"{name}-0")
    log_dir(source, [good("a", 3 * number) for number in range(20_000)], name="large-0")
    before = fingerprint(source)
    mounted = Mount(folder / "mounted", source)
    yield mounted
    assert mounted.end() == 0, mounted.log_text()
    assert fingerprint(source) == before


@pytest.fixture
def mnt(mount: Mount) -> Iterator[Path]:
    yield mount.path
    assert mount.process.poll() is None, "the daemon has died"


def errno_of(call: Callable[[], object]) -> int:
    with pytest.raises(OSError, match=r"\[Errno") as caught:
        call()
    assert caught.value.errno is not None
    return caught.value.errno


@pytest.mark.parametrize("name", DAMAGE)
def test_fault_111_damage_is_an_error_where_it_is_and_nowhere_else(mnt: Path, name: str) -> None:
    folder = mnt / f"{name}-0"
    text = (folder / "records" / LINES).read_bytes()
    assert [line for line in text.splitlines() if line.startswith(b'{"error":')]
    assert text.count(b'"offset":') == len(GOOD_VALUES)
    assert errno_of((folder / "offset" / "6").read_bytes) == errno.EIO
    story = os.getxattr(folder / "offset" / "6", "user.kafka.error")
    assert b'"position":186' in story
    assert (folder / "offset" / "5.value").read_bytes() == b"b2"
    assert (folder / "offset" / "9.value").read_bytes() == b"c0"


def test_fault_111_everything_is_read_by_tools(mnt: Path) -> None:
    found = subprocess.run(
        ["grep", "-rhc", "c0", *mnt.glob("*-0/records")], capture_output=True, check=False
    )
    assert sorted(found.stdout.split()) == [b"0"] + [b"1"] * len(DAMAGE)
    assert b"binary" not in found.stdout + found.stderr
    subprocess.run(["find", mnt, "-ls"], stdout=subprocess.DEVNULL, check=True)


def test_fault_112_a_daemon_that_was_killed_leaves_a_dead_mount_that_can_be_taken_away(
    tmp_path: Path,
) -> None:
    mounted = Mount(tmp_path, behind(tmp_path / "log", VICTIM[:50]))
    mounted.process.kill()
    mounted.process.wait()
    assert errno_of(mounted.path.stat) == errno.ENOTCONN
    subprocess.run(
        [sys.executable, "-m", "kafkafs", "umount", mounted.path], cwd=ROOT, check=True, timeout=30
    )
    assert not mounted.is_mounted()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_fault_113_a_signal_unmounts_while_damage_is_read(
    tmp_path: Path, number: signal.Signals
) -> None:
    mounted = Mount(tmp_path, around(tmp_path / "log", DAMAGE["bomb"]))
    reader = subprocess.Popen(
        ["cat", mounted.path / "t-0" / "records" / LINES],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert mounted.end(number) == 0
    reader.wait(10)
    assert not mounted.is_mounted()


def test_fault_114_a_reader_that_is_killed_goes_at_once(mnt: Path) -> None:
    for _ in range(5):
        reader = subprocess.Popen(
            ["cat", mnt / "large-0" / "offset" / "0.."], stdout=subprocess.DEVNULL
        )
        time.sleep(0.02)
        start = time.monotonic()
        reader.kill()
        reader.wait(10)
        assert time.monotonic() - start < 2
    assert (mnt / "large-0" / "offset" / "5.value").read_bytes() == b"a2"


def test_fault_115_look_ups_are_answered_while_much_is_decoded(mnt: Path) -> None:
    decoders = [
        subprocess.Popen(
            ["cat", mnt / "large-0" / "offset" / f"{first}.."], stdout=subprocess.DEVNULL
        )
        for first in range(4)
    ]
    times = []
    for number in range(200):
        start = time.monotonic()
        (mnt / "checksum-0" / "offset" / str(number % 6)).stat()
        times.append(time.monotonic() - start)
    for decoder in decoders:
        assert decoder.wait(60) == 0
    assert sorted(times)[100] < 0.1
    assert max(times) < 3


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    "create": lambda folder, file: (folder / "new").write_bytes(b""),
    "open-to-write": lambda folder, file: os.open(file, os.O_RDWR),
    "append": lambda folder, file: os.open(file, os.O_WRONLY | os.O_APPEND),
    "truncate": lambda folder, file: os.truncate(file, 0),
    "unlink": lambda folder, file: file.unlink(),
    "rename": lambda folder, file: file.rename(folder / "other"),
    "mkdir": lambda folder, file: (folder / "new").mkdir(),
    "rmdir": lambda folder, file: folder.rmdir(),
    "chmod": lambda folder, file: file.chmod(0o777),
    "utime": lambda folder, file: os.utime(file),
    "link": lambda folder, file: os.link(file, folder / "other"),
    "symlink": lambda folder, file: os.symlink("x", folder / "other"),
    "setxattr": lambda folder, file: os.setxattr(file, "user.x", b"1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_fault_116_nothing_can_be_changed(mnt: Path, change: str) -> None:
    folder = mnt / "checksum-0" / "segments"
    for file in (folder / f"{0:020}.log", mnt / "checksum-0" / "offset" / "3"):
        assert errno_of(lambda file=file: CHANGES[change](file.parent, file)) == errno.EROFS


def test_fault_117_nobody_sees_more_than_the_sources_modes_let_them(
    mnt: Path, mount: Mount
) -> None:
    for path in (mnt / "length-0", mnt / "length-0" / "offset" / "3"):
        assert path.stat().st_mode & 0o222 == 0
    source = (mount.given / "length-0").stat().st_mode
    assert (mnt / "length-0").stat().st_mode & 0o777 & ~source == 0


def test_fault_118_the_mount_runs_no_program_and_has_no_devices(mnt: Path) -> None:
    mounted = next(
        line for line in Path("/proc/mounts").read_text().splitlines() if f" {mnt} " in line
    )
    options = mounted.split()[3].split(",")
    assert {"ro", "nosuid", "nodev"} <= set(options)


def test_fault_119_a_mount_in_use_is_named_and_stays(mnt: Path) -> None:
    with (mnt / "length-0" / "records" / LINES).open("rb"):
        ended = subprocess.run(
            [sys.executable, "-m", "kafkafs", "umount", mnt],
            cwd=ROOT,
            capture_output=True,
            check=False,
            timeout=60,
        )
    assert ended.returncode == 3
    assert ended.stderr.count(b"\n") >= 1
    assert (mnt / "length-0" / "offset" / "0.value").read_bytes() == b"a0"


def test_fault_120_what_is_appended_and_what_is_repaired_is_seen(tmp_path: Path) -> None:
    source = behind(tmp_path / "log", VICTIM[:50])
    mounted = Mount(tmp_path, source)
    try:
        records_file = mounted.path / "t-0" / "records" / LINES
        assert records_file.read_bytes().count(b"torn_tail") == 1
        log = source / "t-0" / f"{0:020}.log"
        with log.open("ab") as file:
            file.write(VICTIM[50:])
        assert wait_until(lambda: b'"x2"' in records_file.read_bytes(), 5)
        assert b"torn_tail" not in records_file.read_bytes()
        assert records_file.stat().st_size == len(records_file.read_bytes())
    finally:
        assert mounted.end() == 0


def test_fault_121_inode_numbers_are_one_for_a_path_and_stay(mnt: Path) -> None:
    def numbers() -> dict[str, int]:
        return {
            str(path): path.lstat().st_ino
            for name in DAMAGE
            for path in [mnt / f"{name}-0", *(mnt / f"{name}-0").glob("*/*")]
        }

    first = numbers()
    assert len(set(first.values())) == len(first)
    assert numbers() == first


def test_fault_122_few_descriptors_are_enough(tmp_path: Path) -> None:
    source = tmp_path / "log"
    for number in range(120):
        log_dir(source, BEFORE, name=f"t-{number}")
    mounted = Mount(tmp_path, source, files=64)
    try:
        for _ in range(2):
            for number in range(120):
                text = (mounted.path / f"t-{number}" / "records" / LINES).read_bytes()
                assert text.count(b"\n") == 6
        assert mounted.process.poll() is None
    finally:
        assert mounted.end() == 0


def test_fault_123_reads_answer_as_posix_has_them(mnt: Path) -> None:
    path = mnt / "checksum-0" / "records" / LINES
    whole = path.read_bytes()
    fd = os.open(path, os.O_RDONLY)
    try:
        assert os.pread(fd, 0, 0) == b""
        assert os.pread(fd, 100, len(whole)) == b""
        assert os.pread(fd, 100, len(whole) + 10**9) == b""
        assert os.pread(fd, 1 << 20, 0) == whole
        for at in range(0, len(whole), 37):
            assert os.pread(fd, 41, at) == whole[at : at + 41]
        assert os.lseek(fd, 0, os.SEEK_DATA) == 0
        assert os.lseek(fd, 0, os.SEEK_HOLE) == len(whole)
        assert errno_of(lambda: os.lseek(fd, len(whole) + 1, os.SEEK_DATA)) == errno.ENXIO
        assert os.lseek(fd, -5, os.SEEK_END) == len(whole) - 5
        assert os.read(fd, 100) == whole[-5:]
    finally:
        os.close(fd)
    assert os.access(path, os.R_OK)
    assert os.statvfs(mnt).f_bsize > 0
    assert errno_of((mnt / "checksum-0" / "offset" / "999").read_bytes) == errno.ENOENT
    assert errno_of(lambda: os.listdir(path)) == errno.ENOTDIR
    with suppress(PermissionError):
        assert not os.access(path, os.W_OK)
