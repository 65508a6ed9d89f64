"""Writing a folder that nobody relies on before all of it is synced at once.

A log that is loaded syncs each of its files several times, as a broker does, so that a crash costs nothing. Of a
staged log dir a crash leaves nothing to be used: `staging.sync_tree` syncs every file and folder once, before the
log dir gets its name.
"""

from __future__ import annotations

import os

from engine.writing.disk import Bytes, Disk, DiskUsage, StrPath, WritableFile


class UnsyncedFile(WritableFile):
    """A file of another disk; `sync` does nothing.

    Args:
        file: the other disk's.
    """

    def __init__(self, file: WritableFile) -> None:
        self._file = file
        super().__init__(file.fileno(), file.path, writable=file.writable)

    def fileno(self) -> int:
        """Return the descriptor. Raises ValueError when closed."""
        return self._file.fileno()

    def size(self) -> int:
        """Return the file's length in bytes at this moment."""
        return self._file.size()

    def read_at(self, position: int, size: int) -> bytes:
        """`size` bytes from `position`, fewer only where the file ends."""
        return self._file.read_at(position, size)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill `buffer` from `position`; the number of bytes read."""
        return self._file.read_into(buffer, position)

    def write_at(self, position: int, data: Bytes) -> None:
        """Write all of `data` from `position` on."""
        self._file.write_at(position, data)

    def truncate(self, size: int) -> None:
        """Make the file `size` bytes long."""
        self._file.truncate(size)

    def sync(self) -> None:
        """Nothing: see the module's text."""

    def close(self) -> None:
        """Close now; a second call does nothing."""
        self._fd = -1
        self._file.close()


class UnsyncedDisk(Disk):
    """Does what another disk does, but for the syncing.

    Args:
        disk: the other one.
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
        """Return whether something is there."""
        return self._disk.exists(path)

    def is_dir(self, path: StrPath) -> bool:
        """Return whether a folder is there."""
        return self._disk.is_dir(path)

    def list(self, folder: StrPath) -> list[str]:
        """Return the names in a folder, sorted."""
        return self._disk.list(folder)

    def size(self, path: StrPath) -> int:
        """Return a file's length in bytes."""
        return self._disk.size(path)

    def mtime_ms(self, path: StrPath) -> int:
        """When a file was last modified, in ms since 1970."""
        return self._disk.mtime_ms(path)

    def set_mtime_ms(self, path: StrPath, milliseconds: int) -> None:
        """Say when a file was last modified."""
        self._disk.set_mtime_ms(path, milliseconds)

    def make_read_only(self, path: StrPath) -> None:
        """Take the right to write a file from everybody."""
        self._disk.make_read_only(path)

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Give a file or folder another name, in one step."""
        self._disk.rename(old, new)

    def rename_new(self, old: StrPath, new: StrPath) -> None:
        """Give a file or folder a name that nothing has."""
        self._disk.rename_new(old, new)

    def set_access(self, path: StrPath, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Say who may do what with a file or folder, and whose it is."""
        self._disk.set_access(path, mode, owner)

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        """Remove a file; whether it was there."""
        return self._disk.remove(path, missing_ok)

    def remove_folder(self, path: StrPath) -> None:
        """Remove an empty folder."""
        self._disk.remove_folder(path)

    def remove_tree(self, path: StrPath) -> None:
        """Remove a folder with all that is in it, or a file."""
        self._disk.remove_tree(path)

    def make_folder(self, path: StrPath) -> None:
        """Make a folder and those above it that are missing; one that is there is fine."""
        above = os.path.dirname(os.path.abspath(path))
        if not self.is_dir(path):
            self.make_folder(above)
            self.make_new_folder(path)

    def make_new_folder(self, path: StrPath) -> None:
        """Make a folder that is not there, in one that is."""
        self._disk.make_new_folder(path)

    def sync_folder(self, path: StrPath) -> None:
        """Nothing: see the module's text."""

    def stat_usage(self, path: StrPath) -> DiskUsage:
        """How much space there is, and how much is left for us."""
        return self._disk.stat_usage(path)
