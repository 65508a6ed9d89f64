"""A folder mounted again, read-only, with bytes that cannot be read: a failing disk with a kernel in front of it.

    python -m tests.failing_mount SOURCE MOUNTPOINT RULES

RULES is a file with a line "path start end" for each stretch, paths relative to SOURCE; it is read at each
request. A request that touches a stretch ends with EIO, whatever else it asks for: which bytes a reader gets
is up to the kernel, as it is with a disk.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyfuse3
import trio

from tests.mount.mounted import ROOT, wait_until


class FailingPassthrough(pyfuse3.Operations):
    """Paths by inode number, as they are looked up; nothing is ever forgotten."""

    def __init__(self, source: str, rules: Path) -> None:
        super().__init__()
        self._source = source
        self._rules = rules
        self._paths = {pyfuse3.ROOT_INODE: ""}
        self._inodes = {"": pyfuse3.ROOT_INODE}

    def _real(self, path: str) -> str:
        return os.path.join(self._source, path)

    def _attributes(self, path: str) -> pyfuse3.EntryAttributes:
        try:
            status = os.lstat(self._real(path))
        except OSError as error:
            raise pyfuse3.FUSEError(error.errno or errno.EIO) from None
        inode = self._inodes.setdefault(path, len(self._inodes) + 1)
        self._paths[inode] = path
        entry = pyfuse3.EntryAttributes()
        for name in ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size"):
            setattr(entry, name, getattr(status, name))
        for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns"):
            setattr(entry, name, getattr(status, name))
        entry.st_ino = inode
        return entry

    async def lookup(
        self, parent_inode: int, name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        """An entry of a folder."""
        return self._attributes(os.path.join(self._paths[parent_inode], os.fsdecode(name)))

    async def getattr(self, inode: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        """What stat tells."""
        return self._attributes(self._paths[inode])

    async def opendir(self, inode: int, ctx: pyfuse3.RequestContext) -> int:
        """A folder's handle is its inode number."""
        return inode

    async def readdir(self, fh: int, start_id: int, token: pyfuse3.ReaddirToken) -> None:
        """The names of a folder, sorted."""
        names = sorted(os.listdir(self._real(self._paths[fh])))
        for place, name in enumerate(names[start_id:], start_id + 1):
            entry = self._attributes(os.path.join(self._paths[fh], name))
            if not pyfuse3.readdir_reply(token, os.fsencode(name), entry, place):
                return

    async def open(self, inode: int, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        """A file's handle is its inode number; the pages of earlier readers are dropped."""
        return pyfuse3.FileInfo(fh=inode, keep_cache=False)

    async def read(self, fh: int, off: int, size: int) -> bytes:
        """EIO when a byte that is asked for cannot be read."""
        path = self._paths[fh]
        for line in self._rules.read_text().splitlines():
            name, start, end = line.rsplit(" ", 2)
            if name == path and off < int(end) and int(start) < off + size:
                raise pyfuse3.FUSEError(errno.EIO)
        return (Path(self._source) / path).read_bytes()[off : off + size]


class FailingMount:
    """The mount, and which of its bytes cannot be read now.

    Attributes:
        path: the source as it can be read there.
    """

    def __init__(self, path: Path, rules: Path) -> None:
        self.path = path
        self._rules = rules

    def set(self, ranges: Mapping[str, Iterable[tuple[int, int]]]) -> None:
        """From now on these bytes of files, named relative to the source, cannot be read, and no others."""
        lines = [f"{path} {start} {end}\n" for path in ranges for start, end in ranges[path]]
        staged = self._rules.with_suffix(".new")
        staged.write_text("".join(lines))
        staged.rename(self._rules)


@contextmanager
def failing_mount(source: Path, folder: Path) -> Iterator[FailingMount]:
    """The source mounted below a folder, until the block ends."""
    mountpoint, rules = folder / "failing", folder / "failing.rules"
    mountpoint.mkdir()
    rules.write_text("")
    command = [sys.executable, "-m", "tests.failing_mount", source, mountpoint, rules]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: os.path.ismount(mountpoint) or process.poll() is not None)
        assert process.poll() is None, "the failing mount does not start"
        yield FailingMount(mountpoint, rules)
    finally:
        subprocess.run(["fusermount3", "-uz", mountpoint], check=False)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def main(arguments: Sequence[str]) -> None:
    """Serve until it is unmounted."""
    source, mountpoint, rules = arguments
    operations = FailingPassthrough(source, Path(rules))
    options = {*pyfuse3.default_options, "fsname=failing", "ro"}
    pyfuse3.init(operations, mountpoint, options)
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close(unmount=False)


if __name__ == "__main__":
    main(sys.argv[1:])
