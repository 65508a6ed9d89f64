"""A disk on which one call fails, or all from one on."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from engine.disk.disk import Bytes, Disk, StrPath, WritableFile

WRITING = (errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO)
"""What can be wrong with a call that changes something."""
READING = (errno.EIO, errno.ESTALE)
"""What can be wrong with any call."""


class Failures:
    """Counts calls, and fails the `number`-th.

    Attributes:
        number: which call fails, from 0; None lets all pass.
        code: the errno.
        sticky: whether all later calls fail as well.
        calls: how many there were.
        kinds: of each call what it was, without the name of the file.
        struck: what failed first.
    """

    def __init__(self, number: int | None, code: int, *, sticky: bool) -> None:
        self.number = number
        self.code = code
        self.sticky = sticky
        self.calls = 0
        self.kinds: list[str] = []
        self.struck: str | None = None
        self.is_armed = True

    def check(self, what: str, *, changes: bool) -> None:
        """Raises OSError when it is this call's turn."""
        if not self.is_armed or (not changes and self.code not in READING):
            return
        turn, self.calls = self.calls, self.calls + 1
        self.kinds.append(what.rpartition(" ")[0])
        if self.number is None or turn < self.number:
            return
        if turn == self.number or self.sticky:
            self.struck = self.struck or what
            raise OSError(self.code, os.strerror(self.code), what)

    @contextmanager
    def disarmed(self) -> Iterator[None]:
        """Calls pass, and are not counted."""
        self.is_armed = False
        try:
            yield
        finally:
            self.is_armed = True


class FailingFile(WritableFile):
    """Half of a write that fails is written."""

    def __init__(self, fd: int, path: str, failures: Failures, *, writable: bool) -> None:
        super().__init__(fd, path, writable=writable)
        self._failures = failures

    def _check(self, what: str, *, changes: bool) -> None:
        self._failures.check(f"{what} {os.path.basename(self.path)}", changes=changes)

    def size(self) -> int:
        self._check("size of", changes=False)
        return super().size()

    def read_at(self, position: int, size: int) -> bytes:
        self._check("read", changes=False)
        return super().read_at(position, size)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        self._check("read", changes=False)
        return super().read_into(buffer, position)

    def write_at(self, position: int, data: Bytes) -> None:
        try:
            self._check("write", changes=True)
        except OSError:
            view = memoryview(data).cast("B")
            super().write_at(position, view[: len(view) // 2])
            raise
        super().write_at(position, data)

    def truncate(self, size: int) -> None:
        self._check("truncate", changes=True)
        super().truncate(size)

    def sync(self) -> None:
        if self.syncs:
            self._check("sync", changes=True)

    def close(self) -> None:
        was_open = not self.is_closed
        super().close()
        if was_open and self.writable:
            self._check("close", changes=True)


class FailingDisk(Disk):
    """Fails as `failures` says."""

    def __init__(self, failures: Failures) -> None:
        self.failures = failures

    def _check(self, what: str, path: StrPath, *, changes: bool = True) -> None:
        self.failures.check(f"{what} {os.path.basename(path)}", changes=changes)

    def open(
        self,
        path: StrPath,
        *,
        create: bool = False,
        exclusive: bool = False,
        writable: bool = True,
    ) -> WritableFile:
        makes = (create or exclusive) and not os.path.exists(path)
        self._check("open", path, changes=makes)
        return super().open(path, create=create, exclusive=exclusive, writable=writable)

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        return FailingFile(fd, path, self.failures, writable=writable)

    def list(self, folder: StrPath) -> list[str]:
        self._check("list", folder, changes=False)
        return super().list(folder)

    def size(self, path: StrPath) -> int:
        self._check("size of", path, changes=False)
        return super().size(path)

    def rename(self, old: StrPath, new: StrPath) -> None:
        self._check("rename", old)
        super().rename(old, new)

    def rename_new(self, old: StrPath, new: StrPath) -> None:
        self._check("rename", old)
        super().rename_new(old, new)

    def set_access(self, path: StrPath, mode: int, owner: tuple[int, int] | None = None) -> None:
        self._check("set access of", path)
        super().set_access(path, mode, owner)

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        self._check("remove", path)
        return super().remove(path, missing_ok)

    def remove_folder(self, path: StrPath) -> None:
        self._check("remove folder", path)
        super().remove_folder(path)

    def make_folder(self, path: StrPath) -> None:
        self._check("make folder", path)
        super().make_folder(path)

    def make_new_folder(self, path: StrPath) -> None:
        self._check("make folder", path)
        super().make_new_folder(path)

    def sync_folder(self, path: StrPath) -> None:
        if self.syncs:
            self._check("sync folder", path)

    def set_mtime_ms(self, path: StrPath, milliseconds: int) -> None:
        self._check("set time of", path)
        super().set_mtime_ms(path, milliseconds)
