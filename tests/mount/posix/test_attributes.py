"""What stat, statx, readlink and the extended attributes tell."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from pathlib import Path

import pytest

from tests.mount.fake_tree import MTIME_NS
from tests.mount.mounted import needs_fuse
from tests.mount.posix.posix_tree import (
    COMPOSED,
    DECOMPOSED,
    HUGE,
    ME,
    NAME_MAX,
    ODD,
    OTHER,
    XATTRS,
    Y2106_NS,
)
from tests.mount.posix.system_calls import AT_FDCWD, LIBC, answer, error_of
from tests.permissions import modes_count

pytestmark = [pytest.mark.mount, needs_fuse]

LOG = f"orders-0/segments/{0:020}.log"
ALL_FIELDS = 0xFFF
STATX = struct.Struct("<IIQIIIHxxQQQQ")
"""The beginning of struct statx: mask, block size, attributes, links, owners, mode, inode, size, blocks, attributes' mask."""


def statx(path: str, flags: int = 0) -> tuple[int, ...]:
    room = ctypes.create_string_buffer(256)
    assert LIBC.statx(AT_FDCWD, os.fsencode(path), flags, ALL_FIELDS, room) == 0
    return STATX.unpack_from(room)


# -- kinds, sizes, times


def test_a_link_is_a_link_and_what_it_leads_to_is_that(here: Path) -> None:
    assert stat.S_ISLNK(os.lstat("link").st_mode)
    assert os.lstat("link").st_size == len("file")
    assert os.stat("link") == os.stat("file")
    assert stat.S_ISDIR(os.stat("folder-link").st_mode)
    assert os.stat("folder-link/up") == os.stat("file")
    assert error_of(lambda: os.stat("dangling")) == "ENOENT"


def test_a_link_of_any_length_is_read_whole(here: Path) -> None:
    target = os.readlink("long-link")
    assert target == "/".join(["a" * 254] * 4)
    assert len(target) == os.lstat("long-link").st_size


def test_a_long_link_is_cut_to_the_room_there_is(here: Path) -> None:
    room = ctypes.create_string_buffer(b"-" * 20)
    assert LIBC.readlink(b"long-link", room, 10) == 10
    assert room.value == b"a" * 10 + b"-" * 10
    assert LIBC.readlink(b"long-link", room, 0) == -1


def test_modes_and_owners_are_those_that_are_given(here: Path) -> None:
    facts = {path: os.lstat(path) for path in ("file", "secret", "closed", "sticky", "folder")}
    shown = {path: (stat.S_IMODE(each.st_mode), each.st_uid) for path, each in facts.items()}
    assert shown == {
        "file": (0o444, ME),
        "secret": (0o200, OTHER),
        "closed": (0o600, OTHER),
        "sticky": (0o1777, OTHER),
        "folder": (0o555, ME),
    }


def test_modes_decide_who_reads(here: Path) -> None:
    with modes_count():
        assert error_of(lambda: os.open("secret", os.O_RDONLY)) == "EACCES"
        assert error_of(lambda: os.open("secret", os.O_WRONLY)) == "EROFS"
        assert error_of(lambda: os.listdir("closed")) == "EACCES"
        assert error_of(lambda: os.chdir("closed")) == "EACCES"
        assert stat.S_ISREG(os.lstat("secret").st_mode)


def test_times_have_nanoseconds_and_go_past_32_bits(here: Path) -> None:
    assert os.stat("file").st_mtime_ns == MTIME_NS
    assert os.stat("late").st_mtime_ns == Y2106_NS


def test_reading_leaves_the_times_as_they_are(here: Path) -> None:
    paths = ("file", "folder/below", "folder", "odd", ".")
    before = [os.stat(path) for path in paths]
    for path in paths:
        if os.path.isdir(path):
            os.listdir(path)
        else:
            Path(path).read_bytes()
    os.readlink("link")
    assert [os.stat(path) for path in paths] == before


def test_a_file_behind_4_gib_has_its_size_and_blocks(ours: Path) -> None:
    status = os.stat("huge")
    assert (status.st_size, status.st_blocks) == (HUGE, (HUGE + 511) // 512)


@pytest.mark.parametrize("path", ["file", "folder", "link", "huge", "secret", "n" * NAME_MAX])
def test_statx_agrees_with_stat(here: Path, path: str) -> None:
    status = os.lstat(path)
    mask, size, attributes, links, uid, gid, mode, inode, length, blocks, known = statx(path, 0x100)
    assert mask & 0x7FF == 0x7FF
    assert (size, links, uid, gid) == (
        status.st_blksize,
        status.st_nlink,
        status.st_uid,
        status.st_gid,
    )
    assert (mode, inode) == (status.st_mode, status.st_ino)
    assert (length, blocks) == (status.st_size, status.st_blocks)
    assert attributes & ~known == 0


def test_an_open_path_tells_the_same_as_its_name(here: Path) -> None:
    for path in ("file", "link", "folder"):
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        try:
            assert os.fstat(fd) == os.lstat(path)
            assert error_of(lambda fd=fd: os.read(fd, 1)) == "EBADF"
        finally:
            os.close(fd)


def test_dots_are_the_folder_and_the_one_above(here: Path) -> None:
    inode = os.stat("folder").st_ino
    for path in ("folder/.", "folder/inner/..", "folder/inner/../.", "folder/../folder/"):
        assert os.stat(path).st_ino == inode
    os.chdir("folder/inner")
    assert Path(os.getcwd()).parts[-2:] == ("folder", "inner")
    assert os.stat("..").st_ino == inode


def test_folders_do_not_count_the_folders_in_them(logs: Path) -> None:
    """Programs that trust a count of two, as in File::Find of Perl, look for no folder in such a folder."""
    for path in (".", "orders-0", "orders-0/offset", "orders-0/segments"):
        assert os.stat(path).st_nlink == 1
    assert os.stat(LOG).st_nlink == 1


# -- names


def test_a_name_is_its_bytes(here: Path) -> None:
    assert sorted(os.listdir("odd")) == sorted(ODD)
    assert {name: Path("odd", name).read_bytes() for name in ODD} == {
        name: os.fsencode(name) for name in ODD
    }


def test_names_that_look_the_same_are_two(here: Path) -> None:
    composed, decomposed = (os.stat(f"odd/{name}").st_ino for name in (COMPOSED, DECOMPOSED))
    assert composed != decomposed
    for name in ("CAF\u00c9", "cafe", "caf\u00e9 ", "-R"):
        assert error_of(lambda name=name: os.stat(f"odd/{name}")) == "ENOENT"


# -- extended attributes


def listed_xattrs(path: str, size: int) -> tuple[int, bytes]:
    room = ctypes.create_string_buffer(max(size, 1))
    return LIBC.listxattr(os.fsencode(path), room, size), room.raw


def test_attributes_are_listed_in_the_room_there_is(here: Path) -> None:
    names = b"".join(os.fsencode(name) + b"\0" for name in XATTRS)
    assert listed_xattrs("described", 0)[0] == len(names)
    count, room = listed_xattrs("described", len(names))
    assert count == len(names)
    assert sorted(room[:count].split(b"\0")) == sorted(names.split(b"\0"))
    for size in (1, 9, len(names) - 1):
        assert listed_xattrs("described", size)[0] == -1
        assert ctypes.get_errno() == errno.ERANGE
    assert listed_xattrs("file", 100)[0] == 0


def test_an_attribute_is_told_by_its_bytes(here: Path) -> None:
    assert sorted(os.listxattr("described")) == sorted(XATTRS)
    assert {name: os.getxattr("described", name) for name in XATTRS} == XATTRS
    for name in ("user.A", "user.with", "user.cafe", "user.b"):
        assert error_of(lambda name=name: os.getxattr("described", name)) == "ENODATA"
    assert LIBC.getxattr(b"described", b"user.zeros", None, 0) == 300
    room = ctypes.create_string_buffer(299)
    assert LIBC.getxattr(b"described", b"user.zeros", room, 299) == -1
    assert ctypes.get_errno() == errno.ERANGE


def test_attributes_cannot_be_set_replaced_or_removed(here: Path) -> None:
    for name in ("user.a", "user.new", "user.with/slash"):
        for flags in (0, os.XATTR_CREATE, os.XATTR_REPLACE):
            assert answer("setxattr", "described", name, b"1", 1, flags) == "EROFS"
        assert answer("removexattr", "described", name) == "EROFS"
    assert answer("setxattr", "described", "user." + "x" * 300, b"1", 1, 0) == "ERANGE"
    assert os.getxattr("described", "user.a") == b""


def test_links_have_no_attributes_of_users(here: Path) -> None:
    for link in ("link", "dangling", "loop-a"):
        assert os.listxattr(link, follow_symlinks=False) == []
        said = error_of(lambda link=link: os.getxattr(link, "user.a", follow_symlinks=False))
        assert said == "ENODATA"


# -- the whole


def test_the_file_system_tells_that_it_is_read_only_and_how_long_names_may_be(here: Path) -> None:
    for path in (".", "file", "folder/inner"):
        facts = os.statvfs(path)
        assert facts.f_flag & os.ST_RDONLY
        assert facts.f_flag & os.ST_NOSUID
        assert facts.f_namemax == os.pathconf(path, "PC_NAME_MAX") == NAME_MAX
        assert (
            error_of(lambda path=path: os.access(path, os.W_OK) or os.open(path, os.O_PATH)) == "ok"
        )
        assert not os.access(path, os.W_OK)
