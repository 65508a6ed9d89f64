"""Changes are refused in the order of any read-only file system, and change nothing."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.mount.mounted import Mounted, needs_fuse
from tests.mount.posix.posix_tree import LONGEST_PATH, NAME_MAX
from tests.mount.posix.system_calls import (
    AT_FDCWD,
    CHANGING,
    CREATING,
    NOT_OF_FOLDERS,
    REMOVING,
    WRITING,
    answer,
    error_of,
    opened,
    utimensat,
)
from tests.permissions import modes_count

pytestmark = [pytest.mark.mount, needs_fuse]

LONGEST = ["n" * NAME_MAX, LONGEST_PATH]
OF_FOLDERS = {"rmdir"}
"""Calls that are only for folders."""
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2


class Times(ctypes.Structure):
    """Times of access and of change, in seconds and nanoseconds."""

    _fields_ = (
        ("access", ctypes.c_long),
        ("access_ns", ctypes.c_long),
        ("change", ctypes.c_long),
        ("change_ns", ctypes.c_long),
    )


def state(path: str) -> tuple[object, ...]:
    """What a change to a path, or to the folder that it is in, would change."""
    folder = os.path.dirname(path) or "."
    return tuple((*os.lstat(each), os.lstat(each).st_mtime_ns) for each in (path, folder))


@pytest.mark.parametrize("name", list(WRITING))
def test_a_change_is_refused_and_changes_nothing(here: Path, name: str) -> None:
    exists = name not in CREATING
    paths = [*LONGEST, "file", "none", "secret", "huge", "link"] if exists else ["new"]
    if name in OF_FOLDERS:
        paths = ["empty", "folder/inner"]
    before = [state(path) for path in paths if exists]
    listed = sorted(os.listdir())
    assert {path: WRITING[name](path) for path in paths} == dict.fromkeys(paths, "EROFS")
    assert [state(path) for path in paths if exists] == before
    assert sorted(os.listdir()) == listed


@pytest.mark.parametrize("name", list(WRITING))
def test_who_may_not_write_is_told_that_nobody_can(here: Path, name: str) -> None:
    """The modes of the file and of its folder, and who owns them, are not looked at."""
    path = "folder/new" if name in CREATING else "sticky/folder" if name == "rmdir" else "secret"
    with modes_count():
        assert WRITING[name](path) == "EROFS"


@pytest.mark.parametrize("name", [each for each in CHANGING if each not in NOT_OF_FOLDERS])
def test_a_change_of_a_folder_is_refused(here: Path, name: str) -> None:
    assert [CHANGING[name](path) for path in ("folder", "empty", ".")] == ["EROFS"] * 3


@pytest.mark.parametrize("name", list(CREATING))
def test_what_exists_is_told_before_that_nothing_can_be_made(here: Path, name: str) -> None:
    paths = ["file", "folder", "link", "dangling", "loop-a", "closed", *LONGEST]
    assert {path: CREATING[name](path) for path in paths} == dict.fromkeys(paths, "EEXIST")


@pytest.mark.parametrize("name", list(REMOVING))
def test_what_is_removed_is_not_looked_at(here: Path, name: str) -> None:
    """Linux asks for the right to write before it looks the last name up."""
    paths = ["missing", "file", "folder", "empty", "loop-a", "n" * (NAME_MAX + 1)]
    paths += ["sticky/file", "sticky/folder", "folder/inner", "folder/below"]
    assert {path: REMOVING[name](path) for path in paths} == dict.fromkeys(paths, "EROFS")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("folder", "file"),
        ("file", "folder"),
        ("folder", "folder/inner"),
        ("folder", "folder/inner/new"),
        ("folder/inner", "empty"),
        ("empty", "folder"),
        ("file", "link"),
        ("file", "file"),
    ],
)
def test_a_rename_that_could_never_be_is_refused_as_any_other(
    here: Path, old: str, new: str
) -> None:
    assert answer("rename", old, new) == "EROFS"
    for flags in (0, 1, 2, 4):  # none, NOREPLACE, EXCHANGE, WHITEOUT
        assert answer("renameat2", AT_FDCWD, old, AT_FDCWD, new, flags) == "EROFS"


@pytest.mark.parametrize("dots", [".", ".."])
def test_dots_are_refused_before(here: Path, dots: str) -> None:
    path = f"folder/inner/{dots}"
    assert answer("rename", path, "new") == answer("rename", "file", path) == "EBUSY"
    assert answer("rmdir", path) == {".": "EINVAL", "..": "ENOTEMPTY"}[dots]
    assert answer("unlink", path) == "EISDIR"
    assert {CREATING[name](path) for name in CREATING} == {"EEXIST"}


def test_names_on_other_file_systems_are_out_of_reach(here: Path, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    beside.touch()
    for path in ("file", "folder", "link"):
        for old, new in ((path, tmp_path / "new"), (beside, "new")):
            assert answer("rename", str(old), str(new)) == "EXDEV"
            assert answer("link", str(old), str(new)) == ("EROFS" if old is beside else "EXDEV")


def test_a_mountpoint_is_busy(mounted: Mounted) -> None:
    assert mounted.is_mounted()
    assert answer("rmdir", str(mounted.path)) == "EBUSY"
    assert answer("rename", str(mounted.path), str(mounted.path) + "-new") == "EBUSY"


def test_the_target_of_a_link_can_be_too_long(here: Path) -> None:
    assert answer("symlink", LONGEST_PATH + "x", "new") == "ENAMETOOLONG"
    assert answer("symlink", LONGEST_PATH, "new") == "EROFS"
    assert answer("symlink", "n" * (NAME_MAX + 1), "new") == "EROFS"


def test_a_folder_cannot_be_cut_and_no_file_to_less_than_nothing(here: Path) -> None:
    assert answer("truncate", "folder", ctypes.c_long(123)) == "EISDIR"
    for size in (-1, -999_999):
        assert answer("truncate", "file", ctypes.c_long(size)) == "EINVAL"
    assert answer("truncate", "file", ctypes.c_long(999_999_999_999_999)) == "EROFS"


def test_both_addresses_of_a_call_are_looked_at(here: Path) -> None:
    wrong = ctypes.c_void_p(0xDEADC0DE)
    for name in ("link", "rename", "symlink"):
        assert answer(name, "file", wrong) == answer(name, wrong, "new") == "EFAULT"


@pytest.mark.parametrize("link", ["link", "dangling", "loop-a"])
def test_a_link_itself_cannot_be_changed(here: Path, link: str) -> None:
    assert answer("lchown", link, 1, 1) == "EROFS"
    assert utimensat(link, flags=0x100) == "EROFS"
    assert answer("lsetxattr", link, "user.x", b"1", 1, 0) == "EROFS"


def test_times_are_refused_unless_both_are_to_stay(here: Path) -> None:
    for access, change in ((5, 7), (UTIME_NOW, UTIME_NOW), (UTIME_OMIT, 5), (UTIME_NOW, 5)):
        assert utimensat("file", ctypes.byref(Times(1, access, 1, change))) == "EROFS"
    assert utimensat("file", ctypes.byref(Times(1, UTIME_OMIT, 1, UTIME_OMIT))) == "ok"
    assert utimensat("file", ctypes.byref(Times(1, 10**9, 1, 0))) == "EINVAL"
    for seconds in (-1, 2**31, 2**32, 2**40):
        assert utimensat("file", ctypes.byref(Times(seconds, 0, seconds, 0))) == "EROFS"


@pytest.fixture
def fd(here: Path) -> Iterator[int]:
    number = os.open("file", os.O_RDONLY)
    yield number
    os.close(number)


OF_OPEN_FILES: dict[str, tuple[str, Callable[[int], object]]] = {
    "fchmod": ("EROFS", lambda fd: os.fchmod(fd, 0o777)),
    "fchown": ("EROFS", lambda fd: os.fchown(fd, 1, 1)),
    "futimens": ("EROFS", lambda fd: os.utime(fd, (1, 1))),
    "fsetxattr": ("EROFS", lambda fd: os.setxattr(fd, "user.x", b"1")),
    "fremovexattr": ("EROFS", lambda fd: os.removexattr(fd, "user.x")),
    "ftruncate": ("EINVAL", lambda fd: os.ftruncate(fd, 0)),
    "posix_fallocate": ("EBADF", lambda fd: os.posix_fallocate(fd, 0, 10)),
    "write": ("EBADF", lambda fd: os.write(fd, b"x")),
    "pwrite": ("EBADF", lambda fd: os.pwrite(fd, b"x", 0)),
    "copy_file_range": ("EBADF", lambda fd: os.copy_file_range(fd, fd, 1, 0, 3)),
    "mmap": ("EACCES", lambda fd: mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_WRITE)),
    "exclusive lease": ("EAGAIN", lambda fd: lease_beside_another_opener(fd)),
}


def lease_beside_another_opener(fd: int) -> None:
    with open("file", "rb"):
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)


@pytest.mark.parametrize("name", list(OF_OPEN_FILES))
def test_an_open_file_is_as_closed_to_changes_as_its_name(fd: int, name: str) -> None:
    expected, call = OF_OPEN_FILES[name]
    before = os.fstat(fd)
    assert error_of(lambda: call(fd)) == expected
    assert os.fstat(fd) == before


# -- open

BOTH = (os.O_WRONLY, os.O_RDWR)
CUTTING = [access | os.O_TRUNC for access in (os.O_RDONLY, *BOTH)]


def test_opening_to_write_is_refused(here: Path) -> None:
    flags = [*BOTH, *CUTTING, os.O_WRONLY | os.O_APPEND, os.O_ACCMODE, os.O_RDWR | os.O_CREAT]
    for path in ("file", "link", "none", "secret", *LONGEST):
        assert [opened(path, each) for each in flags] == ["EROFS"] * len(flags)
    assert opened("file", os.O_RDWR | os.O_DIRECT) == "EROFS"


def test_opening_a_folder_to_write_is_refused_as_a_folder(here: Path) -> None:
    flags = [*BOTH, *CUTTING, os.O_RDONLY | os.O_CREAT]
    assert [opened("folder", each) for each in flags] == ["EISDIR"] * len(flags)
    assert opened("folder", os.O_RDONLY) == "ok"
    assert opened("folder", os.O_TMPFILE | os.O_RDWR) == "EROFS"


def test_a_file_can_be_opened_to_be_made_if_it_is_there(here: Path) -> None:
    assert opened("file", os.O_RDONLY | os.O_CREAT) == "ok"
    assert opened("new", os.O_RDONLY | os.O_CREAT) == "EROFS"
    assert opened("dangling", os.O_RDONLY | os.O_CREAT) == "EROFS"
    assert opened("new", os.O_RDONLY | os.O_CREAT | os.O_EXCL) == "EROFS"
    assert not os.path.lexists("new")


def test_a_file_that_must_be_new_exists(here: Path) -> None:
    for path in ("file", "folder", "link", "dangling", "loop-a", *LONGEST):
        for access in (os.O_RDONLY, *BOTH):
            assert opened(path, access | os.O_CREAT | os.O_EXCL) == "EEXIST"


def test_a_link_that_must_not_be_followed_is_one_too_many(here: Path) -> None:
    for access in (os.O_RDONLY, *BOTH, os.O_RDONLY | os.O_CREAT):
        for link in ("link", "dangling", "folder-link"):
            assert opened(link, access | os.O_NOFOLLOW) == "ELOOP"
    assert opened("link", os.O_PATH | os.O_NOFOLLOW) == "ok"
    assert opened("folder-link/below", os.O_RDONLY | os.O_NOFOLLOW) == "ok"


def test_what_must_be_a_folder_is_not(here: Path) -> None:
    for path in ("file", "link", "n" * NAME_MAX):
        assert opened(path, os.O_RDONLY | os.O_DIRECTORY) == "ENOTDIR"
        assert opened(f"{path}/", os.O_RDONLY) == "ENOTDIR"
    assert opened("folder-link", os.O_RDONLY | os.O_DIRECTORY) == "ok"
    assert opened("folder-link", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) == "ENOTDIR"
