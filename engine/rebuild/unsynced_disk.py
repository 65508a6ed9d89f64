"""A disk without syncs, for a folder that is not used before all of it is synced at once.

Loading a log syncs each of its files several times, as a broker does, against crashes. A staged log
dir is not used after a crash: `staging.sync_tree` syncs every file and folder once, before the log
dir gets its name.
"""

from __future__ import annotations

import os

from engine.writing.disk import Bytes, Disk, DiskUsage, StrPath, WritableFile


class UnsyncedFile(WritableFile):
    """A file of another disk; `sync` does nothing.

    Args:
        file: file of the other disk.
    """

    def __init__(self, file: WritableFile) -> None:
        self._file = file
        super().__init__(file.fileno(), file.path, writable=file.writable)

    def fileno(self) -> int:
        """Return the descriptor. Raises ValueError when closed."""
        return self._file.fileno()

    def size(self) -> int:
        """Return the file's current length in bytes."""
        return self._file.size()

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only at the end of the file."""
        return self._file.read_at(position, size)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill `buffer` from `position`; return the number of bytes read."""
        return self._file.read_into(buffer, position)

    def write_at(self, position: int, data: Bytes) -> None:
        """Write all of `data` from `position` on."""
        self._file.write_at(position, data)

    def truncate(self, size: int) -> None:
        """Make the file `size` bytes long."""
        self._file.truncate(size)

    def sync(self) -> None:
        """Do nothing: see the module's docstring."""

    def close(self) -> None:
        """Close now. May be called twice."""
        self._fd = -1
        self._file.close()


class UnsyncedDisk(Disk):
    """Wrapper of another disk, without syncs.

    Args:
        disk: disk to wrap.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def open(
        self,
        path: StrPath,
        *,
        create: bool = False,
        exclusive: bool = False,
        writable: bool = True,
    ) -> WritableFile:
        """Return a regular file; see `Disk.open`."""
        file = self._disk.open(path, create=create, exclusive=exclusive, writable=writable)
        return UnsyncedFile(file)

    def exists(self, path: StrPath) -> bool:
        """Return whether a path exists."""
        return self._disk.exists(path)

    def is_dir(self, path: StrPath) -> bool:
        """Return whether a folder exists."""
        return self._disk.is_dir(path)

    def list(self, folder: StrPath) -> list[str]:
        """Return the names in a folder, sorted."""
        return self._disk.list(folder)

    def size(self, path: StrPath) -> int:
        """Return a file's length in bytes."""
        return self._disk.size(path)

    def mtime_ms(self, path: StrPath) -> int:
        """Return a file's modification time, in ms since 1970."""
        return self._disk.mtime_ms(path)

    def set_mtime_ms(self, path: StrPath, milliseconds: int) -> None:
        """Set a file's modification time."""
        self._disk.set_mtime_ms(path, milliseconds)

    def make_read_only(self, path: StrPath) -> None:
        """Remove all write permissions of a file."""
        self._disk.make_read_only(path)

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Rename a file or folder atomically."""
        self._disk.rename(old, new)

    def rename_new(self, old: StrPath, new: StrPath) -> None:
        """Rename a file or folder to a name that must not exist."""
        self._disk.rename_new(old, new)

    def set_access(self, path: StrPath, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Set mode and owner of a file or folder."""
        self._disk.set_access(path, mode, owner)

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        """Remove a file; return whether it existed."""
        return self._disk.remove(path, missing_ok)

    def remove_folder(self, path: StrPath) -> None:
        """Remove an empty folder."""
        self._disk.remove_folder(path)

    def remove_tree(self, path: StrPath) -> None:
        """Remove a file, or a folder with its content."""
        self._disk.remove_tree(path)

    def make_folder(self, path: StrPath) -> None:
        """Create a folder and its missing parents; an existing folder is fine."""
        above = os.path.dirname(os.path.abspath(path))
        if not self.is_dir(path):
            self.make_folder(above)
            self.make_new_folder(path)

    def make_new_folder(self, path: StrPath) -> None:
        """Create a new folder in an existing one."""
        self._disk.make_new_folder(path)

    def sync_folder(self, path: StrPath) -> None:
        """Do nothing: see the module's docstring."""

    def stat_usage(self, path: StrPath) -> DiskUsage:
        """Return the size of the file system, and the space left for this user."""
        return self._disk.stat_usage(path)
