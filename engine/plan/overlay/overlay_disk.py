"""A disk that reads sources and keeps every change in this process.

Our own loading code runs on it unchanged. Files are truncated and renamed without a copy; written bytes go to
memory or to anonymous temporary files, up to a bound (`OverlayBudget`). Source files are opened as everywhere:
read-only, beneath the source, no links followed, never mapped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping

from engine.clock import SYSTEM_CLOCK
from engine.disk.disk import Disk, DiskUsage, StrPath, WritableFile
from engine.files.source_files import SourceRoot
from engine.plan.overlay.overlay_content import (
    OpenSources,
    OverlayBudget,
    OverlayContent,
    SourcePlace,
)
from engine.plan.overlay.overlay_file import OverlayFile
from engine.plan.overlay.overlay_tree import (
    Entry,
    OverlayFolder,
    OverlayTree,
    Refused,
    fail,
)


class OverlayDisk(Disk):
    """Sources at absolute paths, with changes above them.

    Args:
        sources: sources by the absolute path of each.
        budget: limits of the changes.

    All methods raise OSError; for a link, a FIFO or a device SourceRefusedError.
    """

    def __init__(
        self, sources: Mapping[str, SourceRoot], budget: OverlayBudget | None = None
    ) -> None:
        self.budget = budget or OverlayBudget()
        self.open_sources = OpenSources()
        self._tree = OverlayTree(sources)

    def __repr__(self) -> str:
        return f"OverlayDisk({self.budget.used} bytes changed)"

    # Methods of Disk

    def open(
        self,
        path: StrPath,
        *,
        create: bool = False,
        exclusive: bool = False,
        writable: bool = True,
    ) -> WritableFile:
        """Return a regular file; see `Disk.open`."""
        folder, name = self._tree.parent(path)
        entry = folder.get(name)
        if entry is None:
            if not create and not exclusive:
                fail(errno.ENOENT, path)
            entry = OverlayContent(None, self.open_sources, self.budget, os.fspath(path))
            entry.mtime_ms = SYSTEM_CLOCK.now_ms()
            folder[name] = entry
        elif exclusive:
            fail(errno.EEXIST, path)
        content = self._content(folder, name, path)
        if writable and content.read_only and os.geteuid() != 0:
            fail(errno.EACCES, path)
        return OverlayFile(content, os.fspath(path), writable=writable)

    def exists(self, path: StrPath) -> bool:
        """Return whether a path exists."""
        return self.entry(path) is not None

    def is_dir(self, path: StrPath) -> bool:
        """Return whether a folder exists; a link to a folder is none."""
        return isinstance(self.entry(path), OverlayFolder)

    def list(self, folder: StrPath) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(self._tree.entries(folder))

    def size(self, path: StrPath) -> int:
        """Return a file's length in bytes."""
        return self.content(path).size

    def mtime_ms(self, path: StrPath) -> int:
        """Return a file's modification time, in ms since 1970."""
        content = self.content(path)
        if content.mtime_ms is not None:
            return content.mtime_ms
        if content.place is None or content.is_changed:
            return SYSTEM_CLOCK.now_ms()
        return content.place.root.stat(content.place.relative).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: StrPath, milliseconds: int) -> None:
        """Set a file's modification time."""
        self.content(path).mtime_ms = milliseconds

    def make_read_only(self, path: StrPath) -> None:
        """Remove all write permissions of a file."""
        self.content(path).read_only = True

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Rename a file or folder, replacing a file or an empty folder of that name."""
        source, name = self._tree.parent(old)
        moved = source.get(name)
        if moved is None:
            fail(errno.ENOENT, old)
        target, new_name = self._tree.parent(new)
        replaced = target.get(new_name)
        if replaced is moved:
            return
        if isinstance(moved, OverlayFolder):
            self._tree.forget_last_folder()
            _check_folder_over(replaced, old, new)
        elif isinstance(replaced, OverlayFolder):
            fail(errno.EISDIR, new)
        del source[name]
        target[new_name] = moved

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        """Remove a file; return whether it existed. Raises FileNotFoundError unless `missing_ok`."""
        try:
            folder, name = self._tree.parent(path)
        except FileNotFoundError:
            if missing_ok:
                return False
            raise
        entry = folder.get(name)
        if entry is None:
            if not missing_ok:
                fail(errno.ENOENT, path)
            return False
        if isinstance(entry, OverlayFolder):
            fail(errno.EISDIR, path)
        del folder[name]
        return True

    def remove_folder(self, path: StrPath) -> None:
        """Remove an empty folder."""
        folder, name = self._tree.parent(path)
        entry = folder.get(name)
        if entry is None:
            fail(errno.ENOENT, path)
        if not isinstance(entry, OverlayFolder):
            fail(errno.ENOTDIR, path)
        if entry.entries:
            fail(errno.ENOTEMPTY, path)
        self._tree.forget_last_folder()
        del folder[name]

    def remove_tree(self, path: StrPath) -> None:
        """Remove a file, or a folder with its content; a missing one is fine."""
        try:
            folder, name = self._tree.parent(path)
        except FileNotFoundError:
            return
        self._tree.forget_last_folder()
        folder.pop(name, None)

    def make_folder(self, path: StrPath) -> None:
        """Create a folder and its missing parents; an existing folder is fine."""
        entries = self._tree.make_parent(path)
        name = os.path.basename(os.path.abspath(path))
        if name and not isinstance(entries.setdefault(name, OverlayFolder()), OverlayFolder):
            fail(errno.EEXIST, path)

    def make_new_folder(self, path: StrPath) -> None:
        """Create a new folder in an existing one."""
        if self.exists(path):
            fail(errno.EEXIST, path)
        self._tree.entries(os.path.dirname(os.path.abspath(path)))
        self.make_folder(path)

    def sync_folder(self, path: StrPath) -> None:
        """Check that the folder exists; nothing is synced."""
        self._tree.entries(path)

    def stat_usage(self, path: StrPath) -> DiskUsage:
        """Return the limit of all changes, and the rest of it."""
        self._tree.entries(path)
        total = self.budget.memory_bytes + self.budget.file_bytes
        return DiskUsage(total, total - self.budget.used)

    # Methods of an overlay

    def entry(self, path: StrPath) -> Entry | None:
        """Return the entry at a path; None if nothing exists there."""
        return self._tree.entry(path)

    def content(self, path: StrPath) -> OverlayContent:
        """Return the content of a file. Raises OSError."""
        folder, name = self._tree.parent(path)
        return self._content(folder, name, path)

    def forget(self, path: StrPath) -> None:
        """Drop all changes to a folder, and free their memory. Files in it must be closed."""
        entry = self.entry(path)
        if isinstance(entry, OverlayFolder):
            entry.forget()
        self.open_sources.clear()

    def refused(self, folder: StrPath) -> Iterator[tuple[str, Refused]]:
        """Yield the names in a folder that are neither files nor folders."""
        for name, entry in sorted(self._tree.entries(folder).items()):
            if isinstance(entry, Refused):
                yield name, entry

    def _content(self, folder: dict[str, Entry], name: str, path: StrPath) -> OverlayContent:
        entry = folder.get(name)
        match entry:
            case OverlayContent():
                return entry
            case None:
                fail(errno.ENOENT, path)
            case Refused():
                entry.refuse()
            case OverlayFolder():
                fail(errno.EISDIR, path)
        status = entry.root.stat(entry.relative)
        place = SourcePlace(
            entry.root, entry.relative, status.st_size, (status.st_dev, status.st_ino)
        )
        content = OverlayContent(place, self.open_sources, self.budget, os.fspath(path))
        folder[name] = content
        return content


def _check_folder_over(replaced: Entry | None, old: StrPath, new: StrPath) -> None:
    """Raise OSError if a folder cannot be renamed from `old` to `new`."""
    if f"{os.path.abspath(new)}/".startswith(f"{os.path.abspath(old)}/"):
        fail(errno.EINVAL, new)
    if replaced is None:
        return
    if not isinstance(replaced, OverlayFolder):
        fail(errno.ENOTDIR, new)
    if replaced.entries:
        fail(errno.ENOTEMPTY, new)
