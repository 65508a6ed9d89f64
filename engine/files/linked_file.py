"""A file that only a link of /proc leads to: it was deleted, or is in another mount namespace, and a process has it open."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from engine.files.beneath import open_link
from engine.files.folder_entries import SourceEntry, refuse_unless_regular
from engine.files.source_files import SourceFile, SourceRoot
from engine.files.tries import tried

_DELETED = " (deleted)"


def resolved(path: str) -> str | None:
    """Return the path that an operator's path of a file leads to; None if the file has no path in this system."""
    real = os.path.realpath(path)
    try:
        return real if os.path.samestat(os.stat(real), os.stat(path)) else None
    except FileNotFoundError:
        return None


def target_of(path: str) -> str:
    """Return the path that a file of /proc/PID/fd had when it was opened. Raises OSError."""
    return os.readlink(path).removesuffix(_DELETED)


class LinkedFileRoot(SourceRoot):
    """A folder of one file, which is read through a link of the system.

    Args:
        path: the link, such as /proc/PID/fd/N.
        shown: name of the file in the folder.

    Raises OSError when the folder of the link cannot be opened.
    """

    def __init__(self, path: str, shown: str) -> None:
        folder, self._link = os.path.split(os.path.abspath(path))
        super().__init__(folder, open_files=1)
        self._shown = shown

    def real(self, relative: str) -> str:
        return self._link if relative == self._shown else relative

    def list_apart(self, folder: str = "") -> tuple[Sequence[str], Sequence[SourceEntry]]:
        if folder:
            return super().list_apart(folder)
        return [self._shown], []

    def iterate_files(self, folder: str = "") -> Iterator[str]:
        yield from self.list_apart(folder)[0]

    def stat(self, relative: str = "") -> os.stat_result:
        if self.real(relative) != self._link:
            return super().stat(relative)
        return tried(lambda: os.stat(self._link, dir_fd=self._root_fd()), self.display(relative))

    def stat_files(self, folder: str, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        for name in names:
            if not folder and self.real(name) == self._link:
                yield name, self.stat(name)

    def open_fresh(self, relative: str, *, is_listed: bool = False) -> SourceFile:
        if self.real(relative) != self._link:
            return super().open_fresh(relative, is_listed=is_listed)
        path = self.display(relative)
        refuse_unless_regular(self.stat(relative), path)
        fd = tried(lambda: open_link(self._link, self._root_fd()), path)
        try:
            status = os.fstat(fd)
            refuse_unless_regular(status, path)
        except BaseException:
            os.close(fd)
            raise
        return SourceFile(fd, path, status)
