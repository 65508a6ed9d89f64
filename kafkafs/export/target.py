"""Files of a target on this machine; the protocol is the same for a target elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol

from engine.disk.disk import DISK, Disk
from engine.disk.file_lock import FileLock
from kafkafs.export.errors import OptionError


class FoundTarget(NamedTuple):
    """A file below a folder: its relative path with "/" between names, and its size in bytes."""

    path: str
    size: int


class TargetFiles(Protocol):
    """Operations of an export on its target. Paths are relative to the target; failures raise OSError.

    Attributes:
        uri: URI of the target.
        shown: its name for people.
    """

    uri: str
    shown: str

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder; none if it does not exist."""

    def files(self, folder: str) -> Iterator[FoundTarget]:
        """Yield all files below a folder but hidden ones (of Spark and Hadoop), sorted by name."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a small file."""

    def write(self, path: str, data: bytes) -> None:
        """Write a small file atomically."""

    def sync(self, path: str) -> None:
        """Sync a written file to the device."""

    def move(self, old: str, new: str) -> None:
        """Rename a file; make its folders, and replace nothing."""

    def sync_names(self, folders: set[str]) -> None:
        """Sync the names in some folders to the device."""

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all below it; do nothing if it does not exist."""

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Lock the target against other jobs; raise OptionError when it is locked."""


class LocalFiles:
    """Files of a target on this machine.

    Args:
        path: absolute path.
    """

    def __init__(self, path: str, disk: Disk = DISK) -> None:
        self.path = self.shown = path
        self.uri = f"file://{path}"
        self._disk = disk

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder; none if it does not exist."""
        path = self._full(folder)
        return self._disk.list(path) if self._disk.is_dir(path) else []

    def files(self, folder: str) -> Iterator[FoundTarget]:
        """Yield all files below a folder but hidden ones (of Spark and Hadoop), sorted by name."""
        for name in self.names(folder):
            if name.startswith((".", "_")):
                continue
            path = f"{folder}/{name}"
            if self._disk.is_dir(self._full(path)):
                for found in self.files(path):
                    yield FoundTarget(f"{name}/{found.path}", found.size)
            else:
                yield FoundTarget(name, self._disk.size(self._full(path)))

    def read(self, path: str) -> bytes:
        """Return the bytes of a small file."""
        return self._disk.read(self._full(path))

    def write(self, path: str, data: bytes) -> None:
        """Write a small file atomically."""
        full = self._full(path)
        self._disk.make_folder(os.path.dirname(full))
        self._disk.replace_atomically(full, data)

    def sync(self, path: str) -> None:
        """Sync a written file to the device."""
        with self._disk.open(self._full(path)) as file:
            file.sync()

    def move(self, old: str, new: str) -> None:
        """Rename a file; make its folders, and replace nothing."""
        full = self._full(new)
        self._disk.make_folder(os.path.dirname(full))
        self._disk.rename_new(self._full(old), full)

    def sync_names(self, folders: set[str]) -> None:
        """Sync the names in some folders to the device."""
        for folder in sorted(folders):
            self._disk.sync_folder(self._full(folder))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all below it."""
        self._disk.remove_tree(self._full(path))

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        return self._disk.exists(self._full(path))

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Lock the target against other jobs; raise OptionError when it is locked."""
        full = self._full(path)
        self._disk.make_folder(os.path.dirname(full))
        lock = FileLock(full, self._disk)
        if not lock.try_lock():
            pid = lock.holder_pid()
            lock.unlock_and_close()
            by = f" by process {pid}" if pid else ""
            raise OptionError(f"{self.path} is being written{by}: wait for it, or choose another")
        try:
            yield
        finally:
            lock.unlock_and_close()

    def _full(self, path: str) -> str:
        return os.path.join(self.path, path) if path else self.path


def refuse_inside(target: str, paths: Sequence[str]) -> None:
    """Raise OptionError when a target is below one of the source's paths, or above one.

    Args:
        target: path of the target.
        paths: paths of the source.
    """
    real = os.path.realpath(target)
    for path in paths:
        source = os.path.realpath(path)
        if os.path.commonpath([source, real]) in (source, real):
            raise OptionError(f"the target {target} and the source {path} are inside each other")
