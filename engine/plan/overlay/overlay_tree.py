"""The folders and files of an overlay by path: those of the sources, and changes to them."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import NoReturn, TypeAlias

from engine.disk.disk import StrPath
from engine.errors import SourceRefusedError
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.plan.overlay.overlay_content import OverlayContent


class OverlayFolder:
    """A folder of an overlay; a source's folder is listed at its first use.

    Args:
        root, relative: source, and path of the folder in it; None for a new folder.
    """

    __slots__ = ("_entries", "relative", "root")

    def __init__(self, root: SourceRoot | None = None, relative: str = "") -> None:
        self.root = root
        self.relative = relative
        self._entries: dict[str, Entry] | None = None if root else {}

    @property
    def entries(self) -> dict[str, Entry]:
        """All entries by name. Raises OSError."""
        if self._entries is None:
            assert self.root is not None
            above = f"{self.relative}/" if self.relative else ""
            self._entries = {
                name: _source_entry(self.root, above + name, kind)
                for name, kind in self.root.list(self.relative)
            }
        return self._entries

    def forget(self) -> None:
        """Drop all changes to a source's folder, and its listing."""
        if self.root is not None:
            self._entries = None


class SourceName:
    """An unopened file of a source."""

    __slots__ = ("relative", "root")

    def __init__(self, root: SourceRoot, relative: str) -> None:
        self.root = root
        self.relative = relative


class Refused:
    """A source's entry that is neither a file nor a folder (a link, a FIFO, a device); it is never opened."""

    __slots__ = ("kind", "path")

    def __init__(self, kind: EntryKind, path: str) -> None:
        self.kind = kind
        self.path = path

    def refuse(self) -> NoReturn:
        """Raise SourceRefusedError."""
        raise SourceRefusedError(f"a {self.kind.value}, not followed", self.path)


Entry: TypeAlias = OverlayFolder | OverlayContent | SourceName | Refused


class OverlayTree:
    """The entries of an overlay by path.

    Args:
        sources: sources by the absolute path of each.
    """

    def __init__(self, sources: Mapping[str, SourceRoot]) -> None:
        self._top = OverlayFolder()
        # Most calls are about one folder: the last one is not looked up again.
        self._last_path, self._last_folder = "\0", self._top
        for path, root in sources.items():
            self.make_parent(path)[os.path.basename(os.path.abspath(path))] = OverlayFolder(root)

    def entry(self, path: StrPath) -> Entry | None:
        """Return the entry at a path; None if nothing exists there."""
        try:
            folder, name = self.parent(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return folder.get(name) if name else self._top

    def entries(self, path: StrPath) -> dict[str, Entry]:
        """Return the entries of a folder by name; a change to them changes the folder."""
        entry = self.entry(path)
        if entry is None:
            fail(errno.ENOENT, path)
        if not isinstance(entry, OverlayFolder):
            fail(errno.ENOTDIR, path)
        return entry.entries

    def parent(self, path: StrPath) -> tuple[dict[str, Entry], str]:
        """Return the entries of the folder above a path, and the path's last name."""
        above, _, name = os.fspath(path).rpartition("/")
        if above == self._last_path and name not in ("", ".", ".."):
            return self._last_folder.entries, name
        parts = _parts(path)
        folder = self._top
        for part in parts[:-1]:
            entry = folder.entries.get(part)
            if entry is None:
                fail(errno.ENOENT, path)
            if isinstance(entry, Refused):
                entry.refuse()
            if not isinstance(entry, OverlayFolder):
                fail(errno.ENOTDIR, path)
            folder = entry
        if above == f"/{'/'.join(parts[:-1])}":
            self._last_path, self._last_folder = above, folder
        return folder.entries, parts[-1] if parts else ""

    def make_parent(self, path: StrPath) -> dict[str, Entry]:
        """Return the entries of the folder above a path; create the missing folders."""
        entries = self._top.entries
        for part in _parts(path)[:-1]:
            entry = entries.setdefault(part, OverlayFolder())
            if not isinstance(entry, OverlayFolder):
                fail(errno.ENOTDIR, path)
            entries = entry.entries
        return entries

    def forget_last_folder(self) -> None:
        """Forget the last look-up; must be called before a folder is renamed or removed."""
        self._last_path, self._last_folder = "\0", self._top


def fail(code: int, path: StrPath) -> NoReturn:
    """Raise the OSError of an errno."""
    raise OSError(code, os.strerror(code), os.fspath(path))


def _parts(path: StrPath) -> list[str]:
    return [part for part in os.path.abspath(path).split("/") if part]


def _source_entry(root: SourceRoot, relative: str, kind: EntryKind) -> Entry:
    if kind is EntryKind.FILE:
        return SourceName(root, relative)
    if kind is EntryKind.DIRECTORY:
        return OverlayFolder(root, relative)
    return Refused(kind, root.display(relative))
