"""Listings from any place, and beside other readers of the same open folder."""

from __future__ import annotations

import ctypes
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.mount.mounted import needs_fuse
from tests.mount.posix.posix_tree import MANY
from tests.mount.posix.system_calls import LIBC, error_of
from tests.soak.posix import entries_of

pytestmark = [pytest.mark.mount, needs_fuse]

LIBC.opendir.restype = LIBC.readdir.restype = ctypes.c_void_p
LIBC.telldir.restype = ctypes.c_long
NAME_AT, KIND_AT = 19, 18
KINDS = {4: stat.S_IFDIR, 8: stat.S_IFREG, 10: stat.S_IFLNK}
FOLDERS = [
    "",
    "orders-0",
    "orders-0/offset",
    "orders-0/records",
    "orders-0/segments",
    "orders-0/time",
    "posix/many",
]


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def stream(path: str) -> Iterator[ctypes.c_void_p]:
    """A folder opened by the C library."""
    opened = ctypes.c_void_p(LIBC.opendir(os.fsencode(path)))
    assert opened
    try:
        yield opened
    finally:
        LIBC.closedir(opened)


def read(folder: ctypes.c_void_p) -> tuple[str, int] | None:
    """The next entry's name and type."""
    entry = LIBC.readdir(folder)
    if not entry:
        return None
    kind = ctypes.c_ubyte.from_address(entry + KIND_AT).value
    return os.fsdecode(ctypes.string_at(entry + NAME_AT)), kind


def read_all(folder: ctypes.c_void_p) -> list[str]:
    names = []
    while entry := read(folder):
        names.append(entry[0])
    return names


def test_no_two_entries_have_one_place_and_each_place_leads_on(here: Path) -> None:
    with opened_folder("many") as fd:
        every = list(entries_of(fd))
        assert len({place for _, place in every}) == len(every) == MANY + 2
        for at, (_, place) in enumerate(every):
            if at % 7 == 0 or at > MANY - 3:
                os.lseek(fd, place, os.SEEK_SET)
                assert next(entries_of(fd), None) == (
                    every[at + 1] if at + 1 < len(every) else None
                )


@pytest.mark.parametrize("path", FOLDERS)
def test_a_log_is_listed_from_each_place(logs: Path, path: str) -> None:
    with opened_folder(path or ".") as fd:
        every = list(entries_of(fd))
        assert len({place for _, place in every}) == len(every)
        for at in range(0, len(every), max(len(every) // 20, 1)):
            os.lseek(fd, every[at][1], os.SEEK_SET)
            assert list(entries_of(fd)) == every[at + 1 :]


def test_places_of_the_c_library_lead_back_in_any_order(here: Path) -> None:
    random = Random(1)
    with stream("many") as folder:
        places, names = [], []
        while True:
            places.append(LIBC.telldir(folder))
            entry = read(folder)
            if entry is None:
                break
            names.append(entry[0])
        for at in random.sample(range(len(names)), 60):
            LIBC.seekdir(folder, ctypes.c_long(places[at]))
            entry = read(folder)
            assert entry is not None
            assert entry[0] == names[at]


def test_places_that_no_entry_has_do_no_harm(here: Path) -> None:
    random = Random(2)
    with opened_folder("many") as fd:
        every = list(entries_of(fd))
        for _ in range(100):
            if (
                error_of(
                    lambda: os.lseek(fd, random.getrandbits(random.randrange(1, 63)), os.SEEK_SET)
                )
                == "ok"
            ):
                error_of(lambda: list(entries_of(fd)))
            name, place = random.choice(every[:-1])
            os.lseek(fd, place, os.SEEK_SET)
            assert next(entries_of(fd)) == every[every.index((name, place)) + 1]
        assert error_of(lambda: os.lseek(fd, -1, os.SEEK_SET)) == "EINVAL"


@pytest.mark.parametrize("path", ["folder", "odd", "chain", ".", "many"])
def test_each_entry_has_the_type_that_stat_tells(here: Path, path: str) -> None:
    with stream(path) as folder:
        while entry := read(folder):
            name, kind = entry
            assert KINDS[kind] == stat.S_IFMT(os.lstat(os.path.join(path, name)).st_mode), name


@pytest.mark.parametrize("path", FOLDERS)
def test_each_entry_of_a_log_has_the_type_that_stat_tells(logs: Path, path: str) -> None:
    with stream(path or ".") as folder:
        while entry := read(folder):
            name, kind = entry
            assert KINDS[kind] == stat.S_IFMT(os.lstat(os.path.join(path, name)).st_mode), name


def test_what_came_after_the_opening_is_there_after_a_rewind(ours: Path) -> None:
    with stream("arriving") as folder:
        before = read_all(folder)
        assert not os.path.lexists("arriving/more")
        LIBC.rewinddir(folder)
        after = read_all(folder)
        assert len(after) == len(set(after)) == len(before) + 1
        assert set(before) < set(after)


def test_listing_and_seeking_in_one_open_folder_by_two_threads_ends_well(here: Path) -> None:
    with opened_folder("many") as fd:
        every = list(entries_of(fd))
        stop = threading.Event()
        wrong: list[str] = []

        def disturb() -> None:
            while not stop.is_set():
                os.lseek(fd, 0, os.SEEK_SET)
                said = error_of(lambda: os.read(fd, 100))
                if said != "EISDIR":
                    wrong.append(said)

        other = threading.Thread(target=disturb)
        other.start()
        try:
            for _ in range(30):
                for at, each in enumerate(entries_of(fd)):
                    if each not in every:
                        wrong.append(repr(each))
                    if at > 2 * len(every):
                        break
        finally:
            stop.set()
            other.join()
        assert wrong == []
        os.lseek(fd, 0, os.SEEK_SET)
        assert list(entries_of(fd)) == every
