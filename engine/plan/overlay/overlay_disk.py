"""A disk whose changes stay in this process: what is read comes from sources, which nothing is ever done to.

Our own loading code runs on it unchanged, to see what it would do. Files are cut and renamed without copying
them; what is written goes into memory or anonymous temporary files, with a bound (`OverlayBudget`). Source
files are opened as everywhere: read-only, beneath the source, no links followed, never mapped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping as Mappings
from typing import NoReturn, TypeAlias

from engine.clock import SYSTEM_CLOCK
from engine.errors import SourceRefusedError
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.plan.overlay.overlay_content import (
    OpenSources,
    OverlayBudget,
    OverlayContent,
    SourcePlace,
)
from engine.plan.overlay.overlay_file import OverlayFile
from engine.writing.disk import Disk, DiskUsage, StrPath, WritableFile


class OverlayFolder:
    """A folder of an overlay: what is in it, once somebody asked.

    Args:
        root, relative: where it is in a source; None for one of our own.
    """

    __slots__ = ("_entries", "mtime_ms", "relative", "root")

    def __init__(self, root: SourceRoot | None = None, relative: str = "") -> None:
        self.root = root
        self.relative = relative
        self._entries: dict[str, Entry] | None = None if root else {}

    def entries(self, disk: OverlayDisk) -> dict[str, Entry]:
        """Everything in it by name. Raises OSError."""
        if self._entries is None:
            assert self.root is not None
            self._entries = {
                name: disk._source_entry(self.root, self._below(name), kind)
                for name, kind in self.root.list(self.relative)
            }
        return self._entries

    def forget(self) -> None:
        """Drop all changes to a folder, and what was read of it: it is again as in the source."""
        if self.root is not None:
            self._entries = None

    def _below(self, name: str) -> str:
        return f"{self.relative}/{name}" if self.relative else name


class SourceName:
    """A file of a source, of which only the name is known yet."""

    __slots__ = ("relative", "root")

    def __init__(self, root: SourceRoot, relative: str) -> None:
        self.root = root
        self.relative = relative


class Refused:
    """What is neither a file nor a folder of the source: a link, a FIFO, a device. It is never opened."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: EntryKind, path: str) -> None:
        self.kind = kind
        self.path = path


Entry: TypeAlias = OverlayFolder | OverlayContent | SourceName | Refused


class OverlayDisk(Disk):
    """Sources at paths of their own, and changes above them.

    Args:
        sources: by the absolute path that each shows up at.
        budget: what changes may take.

    Everything raises OSError; SourceRefusedError for what is a link, a FIFO or a device.
    """

    def __init__(
        self, sources: Mappings[str, SourceRoot], budget: OverlayBudget | None = None
    ) -> None:
        self.budget = budget or OverlayBudget()
        self.open_sources = OpenSources()
        self._top = OverlayFolder()
        self._last: tuple[str, OverlayFolder] = ("\0", self._top)
        """The folder that was last led into, by its path: most calls are about one folder."""
        for path, root in sources.items():
            above = self._make_above(path)
            above[os.path.basename(os.path.abspath(path))] = OverlayFolder(root)

    def __repr__(self) -> str:
        return f"OverlayDisk({self.budget.used} bytes changed)"

    # What Disk does

    def open(
        self,
        path: StrPath,
        *,
        create: bool = False,
        exclusive: bool = False,
        writable: bool = True,
    ) -> WritableFile:
        """A regular file; see Disk."""
        folder, name = self._parent(path)
        entry = folder.get(name)
        if entry is None:
            if not create and not exclusive:
                _fail(errno.ENOENT, path)
            entry = OverlayContent(None, self.open_sources, self.budget, os.fspath(path))
            entry.mtime_ms = SYSTEM_CLOCK.now_ms()
            folder[name] = entry
        elif exclusive:
            _fail(errno.EEXIST, path)
        elif isinstance(entry, OverlayFolder):
            _fail(errno.EISDIR, path)
        content = self._content(folder, name, path)
        if writable and content.read_only and os.geteuid() != 0:
            _fail(errno.EACCES, path)
        return OverlayFile(content, os.fspath(path), writable=writable)

    def exists(self, path: StrPath) -> bool:
        """Whether something is there."""
        return self.entry(path) is not None

    def is_dir(self, path: StrPath) -> bool:
        """Whether a folder is there; a link to one is none."""
        return isinstance(self.entry(path), OverlayFolder)

    def list(self, folder: StrPath) -> list[str]:
        """The names in a folder, sorted."""
        return sorted(self._folder(folder))

    def size(self, path: StrPath) -> int:
        """A file's length in bytes."""
        return self._content_at(path).size

    def mtime_ms(self, path: StrPath) -> int:
        """When a file was last modified, in ms since 1970."""
        content = self._content_at(path)
        if content.mtime_ms is not None:
            return content.mtime_ms
        if content.place is None or content.is_changed:
            return SYSTEM_CLOCK.now_ms()
        return content.place.root.stat(content.place.relative).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: StrPath, milliseconds: int) -> None:
        """Say when a file was last modified."""
        self._content_at(path).mtime_ms = milliseconds

    def make_read_only(self, path: StrPath) -> None:
        """Take the right to write a file from everybody."""
        self._content_at(path).read_only = True

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Give a file or folder another name; a file of that name is replaced."""
        source, name = self._parent(old)
        moved = source.get(name)
        if moved is None:
            _fail(errno.ENOENT, old)
        target, new_name = self._parent(new)
        there = target.get(new_name)
        if there is moved:
            return
        if isinstance(moved, OverlayFolder):
            self._last = "\0", self._top
            self._check_folder_over(moved, there, old, new)
        elif isinstance(there, OverlayFolder):
            _fail(errno.EISDIR, new)
        del source[name]
        target[new_name] = moved

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        """Remove a file; whether it was there."""
        try:
            folder, name = self._parent(path)
        except FileNotFoundError:
            if missing_ok:
                return False
            raise
        entry = folder.get(name)
        if entry is None:
            if not missing_ok:
                _fail(errno.ENOENT, path)
            return False
        if isinstance(entry, OverlayFolder):
            _fail(errno.EISDIR, path)
        del folder[name]
        return True

    def remove_folder(self, path: StrPath) -> None:
        """Remove an empty folder."""
        folder, name = self._parent(path)
        entry = folder.get(name)
        if entry is None:
            _fail(errno.ENOENT, path)
        if not isinstance(entry, OverlayFolder):
            _fail(errno.ENOTDIR, path)
        if entry.entries(self):
            _fail(errno.ENOTEMPTY, path)
        self._last = "\0", self._top
        del folder[name]

    def remove_tree(self, path: StrPath) -> None:
        """Remove a folder with all that is in it, or a file; nothing there is fine."""
        try:
            folder, name = self._parent(path)
        except FileNotFoundError:
            return
        self._last = "\0", self._top
        folder.pop(name, None)

    def make_folder(self, path: StrPath) -> None:
        """Make a folder and those above it that are missing; one that is there is fine."""
        entries = self._make_above(path)
        name = os.path.basename(os.path.abspath(path))
        if name and not isinstance(entries.setdefault(name, OverlayFolder()), OverlayFolder):
            _fail(errno.EEXIST, path)

    def make_new_folder(self, path: StrPath) -> None:
        """Make a folder that is not there, in one that is."""
        if self.exists(path):
            _fail(errno.EEXIST, path)
        self._folder(os.path.dirname(os.path.abspath(path)))
        self.make_folder(path)

    def sync_folder(self, path: StrPath) -> None:
        """Nothing, but the folder must be there."""
        self._folder(path)

    def stat_usage(self, path: StrPath) -> DiskUsage:
        """What changes may take, and what is left of that."""
        self._folder(path)
        total = self.budget.memory_bytes + self.budget.file_bytes
        return DiskUsage(total, total - self.budget.used)

    # What only an overlay can tell

    def entry(self, path: StrPath) -> Entry | None:
        """What is at a path, None for nothing."""
        try:
            folder, name = self._parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return folder.get(name) if name else self._top

    def content(self, path: StrPath) -> OverlayContent:
        """The content of a file. Raises OSError."""
        return self._content_at(path)

    def forget(self, path: StrPath) -> None:
        """Let a folder be as the source has it, and free what its changes took. Its files must be closed."""
        entry = self.entry(path)
        if isinstance(entry, OverlayFolder):
            entry.forget()
        self.open_sources.clear()

    def refused(self, folder: StrPath) -> Iterator[tuple[str, Refused]]:
        """The names in a folder that are neither files nor folders."""
        for name, entry in sorted(self._folder(folder).items()):
            if isinstance(entry, Refused):
                yield name, entry

    def _source_entry(self, root: SourceRoot, relative: str, kind: EntryKind) -> Entry:
        if kind is EntryKind.FILE:
            return SourceName(root, relative)
        if kind is EntryKind.DIRECTORY:
            return OverlayFolder(root, relative)
        return Refused(kind, root.display(relative))

    def _make_above(self, path: StrPath) -> dict[str, Entry]:
        entries = self._top.entries(self)
        for part in _parts(path)[:-1]:
            entry = entries.setdefault(part, OverlayFolder())
            if not isinstance(entry, OverlayFolder):
                _fail(errno.ENOTDIR, path)
            entries = entry.entries(self)
        return entries

    def _parent(self, path: StrPath) -> tuple[dict[str, Entry], str]:
        """The entries of the folder that a path leads into, and the path's last name."""
        above, _, name = os.fspath(path).rpartition("/")
        if above == self._last[0] and name not in ("", ".", ".."):
            return self._last[1].entries(self), name
        parts = _parts(path)
        folder = self._top
        for part in parts[:-1]:
            entry = folder.entries(self).get(part)
            if entry is None:
                _fail(errno.ENOENT, path)
            if not isinstance(entry, OverlayFolder):
                _refuse(entry)
                _fail(errno.ENOTDIR, path)
            folder = entry
        if above == f"/{'/'.join(parts[:-1])}":
            self._last = above, folder
        return folder.entries(self), parts[-1] if parts else ""

    def _folder(self, path: StrPath) -> dict[str, Entry]:
        entry = self.entry(path)
        if entry is None:
            _fail(errno.ENOENT, path)
        if not isinstance(entry, OverlayFolder):
            _fail(errno.ENOTDIR, path)
        return entry.entries(self)

    def _content_at(self, path: StrPath) -> OverlayContent:
        folder, name = self._parent(path)
        return self._content(folder, name, path)

    def _content(self, folder: dict[str, Entry], name: str, path: StrPath) -> OverlayContent:
        entry = folder.get(name)
        if entry is None:
            _fail(errno.ENOENT, path)
        _refuse(entry)
        if isinstance(entry, OverlayFolder):
            _fail(errno.EISDIR, path)
        if isinstance(entry, SourceName):
            status = entry.root.stat(entry.relative)
            place = SourcePlace(
                entry.root, entry.relative, status.st_size, (status.st_dev, status.st_ino)
            )
            entry = OverlayContent(place, self.open_sources, self.budget, os.fspath(path))
            folder[name] = entry
        assert isinstance(entry, OverlayContent)
        return entry

    def _check_folder_over(
        self, moved: OverlayFolder, there: Entry | None, old: StrPath, new: StrPath
    ) -> None:
        if f"{os.path.abspath(new)}/".startswith(f"{os.path.abspath(old)}/"):
            _fail(errno.EINVAL, new)
        if there is None:
            return
        if not isinstance(there, OverlayFolder):
            _fail(errno.ENOTDIR, new)
        if there.entries(self):
            _fail(errno.ENOTEMPTY, new)


def _parts(path: StrPath) -> list[str]:
    return [part for part in os.path.abspath(path).split("/") if part]


def _refuse(entry: Entry) -> None:
    if isinstance(entry, Refused):
        raise SourceRefusedError(f"a {entry.kind.value}, not followed", entry.path)


def _fail(code: int, path: StrPath) -> NoReturn:
    raise OSError(code, os.strerror(code), os.fspath(path))
