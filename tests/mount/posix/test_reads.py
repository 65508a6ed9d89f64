"""Bytes through each of the calls that read, around the end of a file and behind 4 GiB."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mount.mounted import needs_fuse
from tests.mount.posix.posix_tree import HUGE
from tests.mount.posix.system_calls import error_of

pytestmark = [pytest.mark.mount, needs_fuse]

LARGEST = 2**63 - 1
LOCK = struct.Struct("hhqqi4x")
LOG = f"orders-0/segments/{0:020}.log"


@contextmanager
def opened_file(path: str, flags: int = 0) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | flags)
    try:
        yield fd
    finally:
        os.close(fd)


def seek_error(fd: int, position: int, whence: int) -> str:
    return error_of(lambda: os.lseek(fd, position, whence))


# -- positions


@pytest.mark.parametrize("path", ["file", "one", "n" * 255])
def test_all_of_a_file_is_data_up_to_the_hole_behind_its_end(here: Path, path: str) -> None:
    size = os.stat(path).st_size
    with opened_file(path) as fd:
        for position in range(size):
            assert os.lseek(fd, position, os.SEEK_DATA) == position
            assert os.lseek(fd, position, os.SEEK_HOLE) == size
        for position in (size, size + 1, LARGEST):
            for whence in (os.SEEK_DATA, os.SEEK_HOLE):
                assert seek_error(fd, position, whence) == "ENXIO"


def test_a_log_is_data_to_its_end(logs: Path) -> None:
    size = os.stat(LOG).st_size
    with opened_file(LOG) as fd:
        for position in (0, 1, 4095, 4096, size // 2, size - 1):
            assert os.lseek(fd, position, os.SEEK_DATA) == position
            assert os.lseek(fd, position, os.SEEK_HOLE) == size
        assert seek_error(fd, size, os.SEEK_DATA) == "ENXIO"


def test_data_is_found_at_any_place_of_a_huge_file(ours: Path) -> None:
    """Nothing tells the kernel of holes, so that all of it is data."""
    with opened_file("huge") as fd:
        for position in (0, 1 << 31, (1 << 32) - 1, 1 << 32, HUGE - 1):
            assert os.lseek(fd, position, os.SEEK_DATA) == position
            assert os.lseek(fd, position, os.SEEK_HOLE) == HUGE
        assert seek_error(fd, HUGE, os.SEEK_DATA) == "ENXIO"


@pytest.mark.parametrize("path", ["file", "none", "huge"])
def test_positions_before_the_beginning_are_refused(here: Path, path: str) -> None:
    with opened_file(path) as fd:
        for position in (-1, -(2**62)):
            for whence in (os.SEEK_DATA, os.SEEK_HOLE):
                assert seek_error(fd, position, whence) == "ENXIO"
            assert seek_error(fd, position, os.SEEK_SET) == "EINVAL"
        assert seek_error(fd, 0, 99) == "EINVAL"
        assert os.lseek(fd, 0, os.SEEK_CUR) == 0


def test_an_empty_file_has_neither_data_nor_a_hole(here: Path) -> None:
    with opened_file("none") as fd:
        for whence in (os.SEEK_DATA, os.SEEK_HOLE):
            assert seek_error(fd, 0, whence) == "ENXIO"


# -- ends


@pytest.mark.parametrize("flags", [0, os.O_DIRECT], ids=["cached", "direct"])
def test_a_read_ends_where_the_file_ends(logs: Path, flags: int) -> None:
    size = os.stat(LOG).st_size
    data = Path(LOG).read_bytes()
    last = (size - 1) // 4096 * 4096
    room = mmap.mmap(-1, 8192)
    with opened_file(LOG, flags) as fd:
        for position in (0, last, last + 4096, size * 4096):
            count = os.preadv(fd, [room], position)
            assert room[:count] == data[position : position + 8192]


def test_nothing_is_read_at_or_behind_the_end(here: Path) -> None:
    for path in ("file", "none", "huge"):
        size = os.stat(path).st_size
        with opened_file(path) as fd:
            for position in (size, size + 1, size + 4096, 1 << 40, LARGEST - 100):
                assert os.pread(fd, 10, position) == b""
            assert error_of(lambda fd=fd: os.pread(fd, 10, -1)) == "EINVAL"


def test_bytes_behind_2_and_4_gib_are_read(here: Path) -> None:
    with opened_file("huge") as fd:
        assert os.pread(fd, 2, HUGE - 2) == b"\0a"
        assert os.pread(fd, 10, HUGE - 1) == b"a"
        assert os.pread(fd, 3, (1 << 31) - 1) == bytes(3)
        os.lseek(fd, -1, os.SEEK_END)
        assert os.read(fd, 2) == b"a"


# -- ways


def test_a_map_of_a_page_is_the_page(logs: Path) -> None:
    data = Path(LOG).read_bytes()
    with (
        opened_file(LOG) as fd,
        mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ, offset=8192) as page,
    ):
        assert page[:] == data[8192 : 8192 + 4096]


def test_a_file_is_read_into_a_map_of_itself(logs: Path) -> None:
    data = Path(LOG).read_bytes()
    with (
        opened_file(LOG) as fd,
        mmap.mmap(fd, 16384, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as room,
    ):
        assert os.preadv(fd, [memoryview(room)], 4096) == 16384
        assert room[:] == data[4096 : 4096 + 16384]
    assert Path(LOG).read_bytes() == data


def test_a_pipe_takes_the_bytes_and_gives_none_back(here: Path) -> None:
    """The hole called Dirty Pipe: what is written to a pipe must not reach the page that was spliced into it."""
    read_end, write_end = os.pipe()
    try:
        for _ in range(20):  # every buffer of the pipe was used once
            os.write(write_end, b"x" * 4096)
            os.read(read_end, 4096)
        with opened_file("file") as fd:
            assert os.splice(fd, write_end, 1, offset_src=0) == 1
            os.write(write_end, b"AAAABBBB")
            assert os.read(read_end, 100) == b"hAAAABBBB"
            assert os.pread(fd, 100, 0) == b"hello\n"
    finally:
        os.close(read_end)
        os.close(write_end)
    assert Path("file").read_bytes() == b"hello\n"


def test_a_file_is_sent_whole(logs: Path, tmp_path: Path) -> None:
    with opened_file(LOG) as fd, (tmp_path / "sent").open("wb") as sent:
        while os.sendfile(sent.fileno(), fd, None, 1 << 20):
            pass
    assert (tmp_path / "sent").read_bytes() == Path(LOG).read_bytes()


def test_a_range_is_copied_or_refused_as_on_another_device(here: Path, tmp_path: Path) -> None:
    with opened_file("file") as fd, (tmp_path / "copy").open("wb+") as copy:
        said = error_of(lambda: os.copy_file_range(fd, copy.fileno(), 100, 0, 0))
        copy.seek(0)
        assert (said, copy.read()) in (("ok", b"hello\n"), ("EXDEV", b""))
        assert error_of(lambda: os.copy_file_range(fd, fd, 100, 0, 0)) == "EBADF"
    with opened_file("folder") as fd, (tmp_path / "none").open("wb") as copy:
        assert error_of(lambda: os.copy_file_range(fd, copy.fileno(), 100, 0, 0)) == "EISDIR"


# -- locks


def test_readers_lock_a_file_together_and_no_writer_can(here: Path) -> None:
    with opened_file("file") as one, opened_file("file") as two:
        for fd in (one, two):
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert error_of(lambda: fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)) == "EAGAIN"
        reading = LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        for fd in (one, two):
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, reading)
        writing = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        assert error_of(lambda: fcntl.fcntl(two, fcntl.F_OFD_SETLK, writing)) == "EBADF"
        found = LOCK.unpack(fcntl.fcntl(two, fcntl.F_OFD_GETLK, writing))
        assert (found[0], found[4]) == (fcntl.F_RDLCK, -1)


def test_a_lock_is_in_the_kernels_table(here: Path) -> None:
    with opened_file("file") as fd:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert f":{os.fstat(fd).st_ino} " in Path("/proc/locks").read_text()


def test_a_reader_may_hold_a_lease(here: Path) -> None:
    with opened_file("file") as fd:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        assert fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_RDLCK
        with opened_file("file"):
            pass
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        assert fcntl.fcntl(fd, fcntl.F_GETLEASE) == fcntl.F_UNLCK
