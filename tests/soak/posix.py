"""Random reads of a mount through the system's calls, compared with a model of the tree: offsets, cursors, names, attributes."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests import fixtures_data
from tests.kafka.mounted import Mounted
from tests.mount.mounted import obstacle
from tests.mount.posix.system_calls import CALLS, TWO_PATHS, WRITING, refusal
from tests.soak.parts import Job, Part
from tests.soak.tree_model import TreeModel, walked

BATCH = 10_000
"""Calls with the same open files."""
READERS = 3
"""They read at the same time, each a batch of its own."""
LONGEST_RUN = 200
"""Most reads of one file, one after the other."""
OPEN_FILES = 24
FLAGS = (0, os.O_NONBLOCK, os.O_DIRECT)
"""Of open. Reads with O_DIRECT go past the system's cache, to the daemon."""
STATISTICS = ".kafkafs/statistics"
UNEXPECTED = "unexpected errors"
LENGTHS = (0, 1, 2, 7, 100, 100, 511, 512, 1000, 1000, 4096, 4096, 4097, 10_000, 10_000)
LONG = (131_072, 300_000)
"""Bytes of one read in 32."""
PARTITIONS = ("orders-0", "txn-0", "weird-0", "compacted-0", "codec-zstd-0", "trimmed-0", "empty-0")
_GETDENTS = {"x86_64": 217, "aarch64": 61}.get(platform.machine())
_LIBC = ctypes.CDLL(None, use_errno=True)
MISSING = "no such name %"
"""A name that no folder has: not even the one of the keys, for a key's name has two digits behind each %."""
_WRONG_PATHS = ("missing", "too long", "in a file")
_REFUSED = [
    (name, what)
    for name in sorted(CALLS.keys() - TWO_PATHS)
    for what in (*(("file", "folder") if name in WRITING else ()), *_WRONG_PATHS)
]
"""Calls, and what they are called on."""


@dataclass
class Open:
    """An open file: its descriptor, its bytes, and where its cursor must be."""

    path: str
    fd: int
    data: bytes
    is_uncached: bool = False
    cursor: int = 0


class WrongError(Exception):
    """A call's answer is not the model's."""


class Reader:
    """Random calls on a mount.

    Args:
        root: the mount.
        model: what it must hold.
        random: the chance.
        longest_run: most reads of one file, one after the other.
        may_map: whether files are mapped. The system ends a process by SIGBUS that reads a map when the daemon is dead.

    Attributes:
        reads: number of reads of files so far.
        uncached: how many of them were not allowed to use the system's cache.
    """

    def __init__(
        self,
        root: Path,
        model: TreeModel,
        random: Random,
        *,
        longest_run: int = 1,
        may_map: bool = True,
    ) -> None:
        self.root = root
        self.model = model
        self.random = random
        self.reads = self.uncached = 0
        self.open: list[Open] = []
        self._longest_run = longest_run
        self._left = 0
        self._files = sorted(model.files)
        self._folders = sorted(model.folders)
        self._links = sorted(model.links)
        self._all = sorted(model.modes)
        self._calls: list[Callable[[], object]] = [
            *[self._pread] * 30,
            *[self._seek_and_read] * 12,
            *[self._readv] * 4,
            *[self._forget] * 2,
            *[self._seek_hole] * 2,
            *[self._fstat] * 6,
            *[self._open_one] * 3,
            *[self._close_one] * 2,
            *[self._stat] * 8,
            *[self._readlink] * 3,
            *[self._xattr] * 2,
            *[self._list] * 1,
            *[self._access] * 1,
            *[self._refused] * 3,
            *[self._map] * may_map,
            self._dup,
            self._entries_from_anywhere,
        ]

    def run(self, count: int) -> None:
        """So many calls. Raises WrongError for the first wrong answer."""
        self._left = count
        try:
            for _ in range(4):
                self._open_one()
            while self._left > 0:
                before = self.reads
                self.random.choice(self._calls)()
                self._left -= max(self.reads - before, 1)
        finally:
            for each in self.open:
                os.close(each.fd)
            self.open.clear()

    def path(self, name: str) -> str:
        return os.path.join(self.root, name)

    def check(self, fine: bool, what: str) -> None:
        if not fine:
            raise WrongError(what)

    # Open files

    def _open_one(self) -> None:
        path = self.random.choice(self._files)
        if len(self.open) >= OPEN_FILES:
            self._close_one()
        flags = self.random.choice(FLAGS)
        fd = os.open(self.path(path), os.O_RDONLY | flags)
        self.open.append(Open(path, fd, self.model.files[path], bool(flags & os.O_DIRECT)))

    def _close_one(self) -> None:
        if len(self.open) > 2:
            os.close(self.open.pop(self.random.randrange(len(self.open))).fd)

    def _place(self, size: int) -> int:
        kind = self.random.random()
        if kind < 0.1:
            return self.random.choice((0, size, max(size - 1, 0), size + 1, size + 10**6, 2**62))
        if kind < 0.3:
            page = self.random.randrange(size // 4096 + 1) * 4096
            return min(max(page + self.random.randrange(-1, 2), 0), size)
        return self.random.randrange(size + 1)

    def _length(self) -> int:
        return self.random.choice(LENGTHS if self.random.random() < 31 / 32 else LONG)

    def _run(self) -> tuple[Open, range]:
        """An open file, and a number for each of the reads of it that come now."""
        file = self.random.choice(self.open)
        count = min(self.random.randrange(self._longest_run) + 1, self._left)
        self.reads += count
        self.uncached += count * file.is_uncached
        return file, range(count)

    def _pread(self) -> None:
        file, count = self._run()
        fd, data = file.fd, file.data
        for _ in count:
            at, size = self._place(len(data)), self._length()
            found = os.pread(fd, size, at)
            if found != data[at : at + size]:
                raise WrongError(f"pread {size} at {at} of {file.path}: {len(found)} bytes")

    def _seek_and_read(self) -> None:
        file, count = self._run()
        fd, data = file.fd, file.data
        for _ in count:
            if self.random.random() < 0.6:
                self._seek(file)
            size = self._length()
            found = os.read(fd, size)
            wanted = data[file.cursor : file.cursor + size]
            if found != wanted:
                raise WrongError(f"read {size} at {file.cursor} of {file.path}: {len(found)} bytes")
            file.cursor += len(wanted)

    def _seek(self, file: Open) -> None:
        at = self._place(len(file.data))
        whence = self.random.choice((os.SEEK_SET, os.SEEK_CUR, os.SEEK_END))
        base = (0, file.cursor, len(file.data))[whence]
        found = os.lseek(file.fd, at - base, whence)
        if found != at:
            raise WrongError(f"lseek to {at} by {whence} of {file.path}: {found}")
        file.cursor = at

    def _readv(self) -> None:
        file, count = self._run()
        for _ in count:
            parts = [bytearray(self.random.choice((0, 1, 100, 5000))) for _ in range(3)]
            at = self._place(len(file.data))
            size = os.preadv(file.fd, parts, at)
            if b"".join(parts)[:size] != file.data[at : at + sum(map(len, parts))]:
                raise WrongError(f"preadv at {at} of {file.path}: {size} bytes")

    def _forget(self) -> None:
        """What the system has cached of a file, so that the daemon answers the next read."""
        file = self.random.choice(self.open)
        os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def _seek_hole(self) -> None:
        file = self.random.choice(self.open)
        at = self.random.randrange(len(file.data) + 1)
        for whence, wanted in ((os.SEEK_DATA, at), (os.SEEK_HOLE, len(file.data))):
            try:
                found = os.lseek(file.fd, at, whence)
            except OSError as error:
                self.check(
                    error.errno == errno.ENXIO and at >= len(file.data),
                    f"lseek by {whence} at {at} of {file.path}: {error}",
                )
            else:
                self.check(found == wanted, f"lseek by {whence} at {at} of {file.path}: {found}")
        os.lseek(file.fd, file.cursor, os.SEEK_SET)

    def _fstat(self) -> None:
        file = self.random.choice(self.open)
        status = os.fstat(file.fd)
        self.check(
            status.st_size == len(file.data), f"fstat of {file.path}: {status.st_size} bytes"
        )
        self._same_status(file.path, status)

    def _dup(self) -> None:
        file = self.random.choice(self.open)
        other = os.dup(file.fd)
        try:
            found = os.read(other, 100)
        finally:
            os.close(other)
        wanted = file.data[file.cursor : file.cursor + 100]
        self.check(found == wanted, f"read of a dup at {file.cursor} of {file.path}")
        file.cursor += len(wanted)

    def _map(self) -> None:
        file = self.random.choice(self.open)
        if file.data:
            with mmap.mmap(file.fd, len(file.data), mmap.MAP_PRIVATE, mmap.PROT_READ) as mapped:
                at = self._place(len(file.data))
                self.check(
                    mapped[at : at + 5000] == file.data[at : at + 5000],
                    f"a map of {file.path} at {at}",
                )

    # Names

    def _same_status(self, path: str, status: os.stat_result) -> None:
        self.check(status.st_mode == self.model.modes[path], f"mode of {path}: {status.st_mode:o}")
        self.check(status.st_ino == self.model.inodes[path], f"inode of {path}: {status.st_ino}")
        is_link = stat.S_ISLNK(status.st_mode)
        self.check(
            is_link or not status.st_mode & 0o222, f"{path} can be written: {status.st_mode:o}"
        )
        self.check(status.st_nlink >= 1, f"links of {path}: {status.st_nlink}")

    def _stat(self) -> None:
        path = self.random.choice(self._all)
        self._same_status(path, os.lstat(self.path(path)))

    def _readlink(self) -> None:
        path = self.random.choice(self._links)
        found = os.readlink(self.path(path))
        self.check(found == self.model.links[path], f"readlink of {path}: {found}")

    def _xattr(self) -> None:
        path = self.random.choice(self._all)
        known, where = self.model.xattrs[path], self.path(path)
        names = os.listxattr(where, follow_symlinks=False)
        self.check(sorted(names) == sorted(known), f"xattrs of {path}: {names}")
        if known:
            name = self.random.choice(sorted(known))
            found = os.getxattr(where, name, follow_symlinks=False)
            self.check(found == known[name], f"{name} of {path}: {found!r}")
        self._fails(
            errno.ENODATA,
            lambda: os.getxattr(where, "user.kafka.none", follow_symlinks=False),
            path,
        )

    def _list(self) -> None:
        path = self.random.choice(self._folders)
        with os.scandir(self.path(path)) as entries:
            found = {entry.name: entry for entry in entries}
        self.check(
            sorted(found) == self.model.folders[path], f"names in {path or '/'}: {sorted(found)}"
        )
        for name, entry in found.items():
            mode = self.model.modes.get(os.path.join(path, name))
            if mode is not None:
                kinds = entry.is_dir(follow_symlinks=False), entry.is_symlink()
                self.check(
                    kinds == (stat.S_ISDIR(mode), stat.S_ISLNK(mode)), f"kind of {path}/{name}"
                )

    def _entries_from_anywhere(self) -> None:
        """A listing that begins again at any place where it was before goes on with the same names."""
        if _GETDENTS is None:
            return
        path = self.random.choice(self._folders)
        fd = os.open(self.path(path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            every = list(entries_of(fd))
            names = sorted(name for name, _ in every if name not in (".", ".."))
            self.check(names == self.model.folders[path], f"getdents of {path}: {names}")
            place = self.random.randrange(len(every))
            os.lseek(fd, every[place][1], os.SEEK_SET)
            again = list(entries_of(fd))
            self.check(
                again == every[place + 1 :], f"getdents of {path} behind {every[place]}: {again}"
            )
        finally:
            os.close(fd)

    def _access(self) -> None:
        path = self.path(self.random.choice(self._files))
        self.check(os.access(path, os.R_OK), f"{path} cannot be read")
        self.check(not os.access(path, os.W_OK), f"{path} can be written")

    # What must fail

    def _fails(self, number: int | Sequence[int], call: Callable[[], object], what: str) -> None:
        try:
            call()
        except OSError as error:
            wanted = (number,) if isinstance(number, int) else number
            self.check(error.errno in wanted, f"{what}: {error}")
        else:
            raise WrongError(f"{what}: nothing is refused")

    def _refused(self) -> None:
        file = self.path(self.random.choice(self._files))
        folder = self.path(self.random.choice([path for path in self._folders if path]))
        beside = os.path.join(folder, MISSING)
        paths = {
            "file": file,
            "folder": folder,
            "missing": beside,
            "too long": os.path.join(folder, "n" * 256),
            "in a file": os.path.join(file, "x"),
        }
        name, what = self.random.choice(_REFUSED)
        said = CALLS[name](paths[what])
        self.check(said == refusal(name, what), f"{name} of {paths[what]} ({what}): {said}")
        number, call = self.random.choice(
            (
                (errno.ENOTDIR, lambda: os.listdir(file)),
                (errno.EROFS, lambda: os.open(file, os.O_WRONLY | os.O_TRUNC)),
                (errno.EROFS, lambda: os.rename(file, beside)),
                (errno.EROFS, lambda: os.link(file, beside)),
                (errno.EROFS, lambda: os.setxattr(file, "user.x", b"")),
                (errno.EINVAL, lambda: os.readlink(file)),
            )
        )
        self._fails(number, call, f"a call on {file} and {beside} that must fail with {number}")


def entries_of(fd: int) -> Iterator[tuple[str, int]]:
    """Names from the folder's cursor on, each with the place behind it, by small calls of getdents64."""
    room = ctypes.create_string_buffer(600)
    while True:
        size = _LIBC.syscall(_GETDENTS, fd, room, len(room))
        if size < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if size == 0:
            return
        at = 0
        while at < size:
            behind = int.from_bytes(room.raw[at + 8 : at + 16], "little", signed=True)
            length = int.from_bytes(room.raw[at + 16 : at + 18], "little")
            name = room.raw[at + 19 : at + length].split(b"\0", 1)[0]
            yield os.fsdecode(name), behind
            at += length


@contextmanager
def mounted_copy(partitions: Sequence[str] = PARTITIONS) -> Iterator[tuple[Path, Path]]:
    """A copy of partitions, and the path of its mount."""
    with tempfile.TemporaryDirectory(prefix="soak-posix-") as work:
        source = fixtures_data.copy_of("current", Path(work, "source"), list(partitions))
        with Mounted(source, Path(work, "mount")) as mounted:
            yield source, mounted.path


def read_at_random(job: Job, partitions: Sequence[str] = PARTITIONS) -> None:
    """Random calls, in batches that each begin with no open file."""
    with mounted_copy(partitions) as (source, root), ThreadPoolExecutor(READERS) as pool:
        model = walked(root, source)

        def read(batch: range) -> tuple[Reader, str]:
            random = Random(f"{job.seed} {batch.start}")
            reader = Reader(root, model, random, longest_run=LONGEST_RUN)
            try:
                reader.run(len(batch))
            except (WrongError, OSError) as error:
                return reader, f"{type(error).__name__}: {error}"
            return reader, ""

        before = asked(root)
        for numbers in job.batches(READERS * BATCH):
            batches = [numbers[at : at + BATCH] for at in range(0, len(numbers), BATCH)]
            for batch, (reader, wrong) in zip(batches, pool.map(read, batches), strict=True):
                if wrong:
                    job.find(batch.start, wrong, count=len(batch))
                job.note("reads", reader.reads)
                job.note("reads past the cache", reader.uncached)
        for name, count in (asked(root) - before).items():
            job.note(name, count)
    if job.notes.get(UNEXPECTED):
        job.find(job.first, f"{UNEXPECTED} in the daemon", count=job.tried)


def asked(root: Path) -> Counter[str]:
    """What the daemon of a mount was asked so far, and how many errors of its own it met."""
    facts = json.loads((root / STATISTICS).read_bytes())
    requests = {name: each["requests"] for name, each in facts["operations"].items()}
    return Counter(
        {
            "reads asked of the daemon": requests["read"],
            "other requests to it": sum(requests.values()) - requests["read"],
            UNEXPECTED: facts["unexpectedErrors"],
        }
    )


PARTS = (
    Part(
        "posix",
        "random reads of a mount beside a model of its tree",
        "calls",
        read_at_random,
        obstacle,
    ),
)
