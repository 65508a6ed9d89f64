"""Open a writable index at its first use: most segments of a log are never searched."""

from __future__ import annotations

import os
import threading
from typing import Any, Generic, TypeVar

from engine.disk.disk import DISK, Disk, StrPath
from engine.units import Offset
from engine.writing.index.writable_index import WritableIndex

Index = TypeVar("Index", bound=WritableIndex[Any])


class LazyWritableIndex(Generic[Index]):
    """Opens the index once, also with several threads; a failed open is tried again.

    Before that, renames and removals affect only the file, and closing does nothing.

    Args:
        kind: class of the index.
        path, base_offset, max_index_size, disk: arguments of `kind`.
    """

    def __init__(
        self,
        kind: type[Index],
        path: StrPath,
        base_offset: Offset,
        max_index_size: int = -1,
        *,
        disk: Disk = DISK,
    ) -> None:
        self._kind = kind
        self._path = os.fspath(path)
        self._base_offset = base_offset
        self._max_index_size = max_index_size
        self._disk = disk
        self._lock = threading.Lock()
        self._index: Index | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the index is open."""
        return self._index is not None

    @property
    def path(self) -> str:
        """Current path of the file, which may not exist yet."""
        index = self._index
        return self._path if index is None else index.path

    def get(self) -> Index:
        """Return the index, opened if needed. Raises the errors of opening."""
        index = self._index
        if index is not None:
            return index
        with self._lock:
            if self._index is None:
                self._index = self._kind(
                    self._path, self._base_offset, self._max_index_size, disk=self._disk
                )
            return self._index

    def rename_to(self, path: StrPath) -> None:
        """Rename the file; without an opened index it need not exist.

        Raises OSError; then the old name stays.
        """
        with self._lock:
            if self._index is not None:
                self._index.rename_to(path)
            elif self._disk.exists(self._path):
                self._disk.rename(self._path, path)
            self._path = os.fspath(path)

    def update_parent_dir(self, folder: StrPath) -> None:
        """Update the path after the folder was renamed."""
        with self._lock:
            self._path = os.path.join(folder, os.path.basename(self._path))
            if self._index is not None:
                self._index.update_parent_dir(folder)

    def delete_if_exists(self) -> bool:
        """Close the index and remove its file; return whether it existed."""
        with self._lock:
            if self._index is not None:
                return self._index.delete_if_exists()
            return self._disk.remove(self._path, missing_ok=True)

    def close(self) -> None:
        """Trim and close the index, if it is open."""
        with self._lock:
            if self._index is not None:
                self._index.close()

    def close_handler(self) -> None:
        """Close the index without trimming, if it is open."""
        with self._lock:
            if self._index is not None:
                self._index.close_handler()
