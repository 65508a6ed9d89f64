"""The one module that writes: files, folders and mmaps of our own index files.

Every class that writes takes a `disk`, so that tests can record each call, make it fail, or build
the state after a crash. Nothing is written through an mmap: on a full disk that kills the process,
while a write raises OSError. A write to the file is visible in the mmap at once.

Paths are str or path-like. Failures raise OSError; a closed file raises ValueError.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import errno
import mmap
import os
import stat
from collections import OrderedDict
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]
Bytes: TypeAlias = bytes | bytearray | memoryview

_FLAGS = os.O_CLOEXEC | os.O_NOCTTY
_MODE = 0o644
_CLOSED, _LET_GO = -1, -2
_LARGE_READ = 1 << 20
_LARGEST_COPY = 1 << 30
TEMPORARY_SUFFIX = ".tmp"
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
_libc = ctypes.CDLL(None, use_errno=True)


class DiskUsage(NamedTuple):
    """Bytes of a path's file system."""

    total: int
    free: int


class FewDescriptors:
    """Bounds the descriptors of files: of more files, those used least lately are opened again when they are used.

    For one thread: a descriptor is valid until as many other files were used.

    Args:
        most: most descriptors.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._files: OrderedDict[WritableFile, None] = OrderedDict()

    def use(self, file: WritableFile) -> None:
        """Note that a file with a descriptor is used; close the descriptors above the bound."""
        self._files[file] = None
        self._files.move_to_end(file)
        while len(self._files) > self._most:
            self._files.popitem(last=False)[0].let_go()

    def drop(self, file: WritableFile) -> None:
        """Forget a file, which is closed."""
        self._files.pop(file, None)


class WritableFile:
    """An open file: positioned reads and writes, no cursor.

    Attributes:
        path: current path, for messages; must be updated after a rename.
        writable: whether it was opened for writing.
        syncs: whether `sync` syncs; see `Disk`.
        among: the files that share a number of descriptors with it; None if it has its own.
    """

    syncs = True
    among: FewDescriptors | None = None

    def __init__(self, fd: int, path: str, *, writable: bool = True) -> None:
        self._fd = fd
        self.path = path
        self.writable = writable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        """Whether the file is closed."""
        return self._fd == _CLOSED

    def fileno(self) -> int:
        """Return the descriptor. Raises ValueError when closed."""
        if self._fd < 0:
            if self._fd == _CLOSED:
                raise ValueError(f"{self.path} is closed")
            self._fd = os.open(self.path, _FLAGS | (os.O_RDWR if self.writable else os.O_RDONLY))
        if self.among is not None:
            self.among.use(self)
        return self._fd

    def let_go(self) -> None:
        """Close the descriptor; the next use opens the file again by its path."""
        fd, self._fd = self._fd, _LET_GO
        os.close(fd)

    def size(self) -> int:
        """Return the file's current length in bytes."""
        return os.fstat(self.fileno()).st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only at the end of the file; never allocates more than that."""
        fd = self.fileno()
        if size > _LARGE_READ:
            size = max(min(size, os.fstat(fd).st_size - position), 0)
        data = os.pread(fd, size, position) if size else b""
        while data and len(data) < size:
            more = os.pread(fd, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill `buffer` from `position`; return the number of bytes read, fewer only at the end of the file."""
        fd = self.fileno()
        view = memoryview(buffer).cast("B")
        got = 0
        while got < len(view):
            count = os.preadv(fd, [view[got:]], position + got)
            if count == 0:
                break
            got += count
        return got

    def write_at(self, position: int, data: Bytes) -> None:
        """Write all of `data` from `position` on; after an error some of it may have been written."""
        fd = self._fd
        if fd < 0 or self.among is not None:
            fd = self.fileno()
        try:
            done = os.pwrite(fd, data, position)
            if done < len(data):
                view = memoryview(data).cast("B")
                while done < len(view):
                    done += os.pwrite(fd, view[done:], position + done)
        except OSError as error:
            error.filename = self.path
            raise

    def truncate(self, size: int) -> None:
        """Set the file's length to `size` bytes; added bytes are zeros that take no space yet."""
        fd = self.fileno()
        try:
            os.ftruncate(fd, size)
        except OSError as error:
            error.filename = self.path
            raise

    def sync(self) -> None:
        """Sync content and length to the device."""
        fd = self.fileno()
        if not self.syncs:
            return
        try:
            os.fsync(fd)
        except OSError as error:
            error.filename = self.path
            raise

    def close(self) -> None:
        """Close now. May be called twice."""
        fd, self._fd = self._fd, _CLOSED
        if self.among is not None:
            self.among.drop(self)
        if fd >= 0:
            os.close(fd)

    def map(self, size: int) -> Mapping:
        """Return an mmap of the first `size` bytes, which must exist; the file must not shrink below them."""
        if size > self.size():
            raise ValueError(f"{self.path} is shorter than {size} bytes")
        return Mapping(self, size) if self.among is None else _BriefMapping(self, size)


class Mapping:
    """An mmap of the first bytes of an open file, for searches; writes to the file are visible in it.

    Attributes:
        file: mapped file, which the caller closes.
        size: size in bytes.
    """

    __slots__ = ("_view", "file", "size")

    def __init__(self, file: WritableFile, size: int) -> None:
        self.file = file
        self.size = size
        # An empty file cannot be mapped.
        self._view: memoryview | None = memoryview(
            mmap.mmap(file.fileno(), size, mmap.MAP_SHARED, mmap.PROT_READ) if size else b""
        )

    @property
    def is_closed(self) -> bool:
        """Whether the mmap is closed."""
        return self._view is None

    @property
    def buffer(self) -> memoryview:
        """Mapped bytes, read-only. Raises ValueError when closed."""
        view = self._view
        if view is None:
            raise ValueError(f"the map of {self.file.path} is closed")
        return view

    def read(self, position: int, size: int) -> bytes:
        """Return a copy of some of the bytes, fewer at the end of the mmap."""
        return bytes(self.buffer[position : position + size])

    def write(self, position: int, data: Bytes) -> None:
        """Write into the mapped part of the file. Raises ValueError outside of it."""
        if self._view is None or not 0 <= position <= self.size - len(data):
            raise ValueError(
                f"{len(data)} bytes at {position} are outside the map of {self.file.path}"
            )
        self.file.write_at(position, data)

    def sync(self) -> None:
        """Sync the written bytes to the device."""
        if self._view is None:
            raise ValueError(f"the map of {self.file.path} is closed")
        self.file.sync()

    def close(self) -> None:
        """Unmap when the last view of `buffer` is gone; the file stays open. May be called twice."""
        view, self._view = self._view, None
        if view is not None:
            with contextlib.suppress(BufferError):
                view.release()


class _BriefMapping(Mapping):
    """An mmap that lasts for one search, since each holds a descriptor."""

    __slots__ = ()

    def __init__(self, file: WritableFile, size: int) -> None:
        super().__init__(file, 0)
        self.size = size

    @property
    def buffer(self) -> memoryview:
        if self.is_closed:
            return super().buffer
        return Mapping(self.file, self.size).buffer

    def read(self, position: int, size: int) -> bytes:
        if self.is_closed:
            return super().read(position, size)
        return self.file.read_at(position, max(min(size, self.size - position), 0))


class Disk:
    """The file system's operations for writers.

    Attributes:
        syncs: whether files and folders are synced to the device.
        open_files: bounds the descriptors of the files that it opens; None without a bound.
    """

    syncs = True
    open_files: FewDescriptors | None = None

    def with_few_files(self, most: int) -> Self:
        """Return a copy of the disk for one thread whose files have at most `most` descriptors together."""
        few = copy.copy(self)
        few.open_files = FewDescriptors(most)
        return few

    def without_syncs(self) -> Self:
        """Return a copy of the disk that syncs nothing, for files that are synced later, all at once."""
        unsynced = copy.copy(self)
        unsynced.syncs = False
        return unsynced

    def open(
        self,
        path: StrPath,
        *,
        create: bool = False,
        exclusive: bool = False,
        writable: bool = True,
    ) -> WritableFile:
        """Return a regular file.

        With `create` a missing file is created empty; with `exclusive` the file must not exist.
        Raises FileExistsError, FileNotFoundError, IsADirectoryError and other OSErrors.
        """
        flags = _FLAGS | (os.O_RDWR if writable else os.O_RDONLY)
        if create or exclusive:
            flags |= os.O_CREAT
        if exclusive:
            flags |= os.O_EXCL
        file = self._file(os.open(path, flags, _MODE), os.fspath(path), writable)
        file.syncs = self.syncs
        if self.open_files is not None:
            file.among = self.open_files
            file.among.use(file)
        return file

    def exists(self, path: StrPath) -> bool:
        """Return whether a path exists. Raises OSError if unknown."""
        return _stat_or_none(path) is not None

    def is_dir(self, path: StrPath) -> bool:
        """Return whether a folder exists. Raises OSError if unknown."""
        status = _stat_or_none(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def list(self, folder: StrPath) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(os.listdir(folder))

    def size(self, path: StrPath) -> int:
        """Return a file's length in bytes."""
        return os.stat(path).st_size

    def mtime_ms(self, path: StrPath) -> int:
        """Return a file's modification time, in ms since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: StrPath, milliseconds: int) -> None:
        """Set a file's modification time."""
        nanoseconds = milliseconds * 1_000_000
        os.utime(path, ns=(nanoseconds, nanoseconds))

    def make_read_only(self, path: StrPath) -> None:
        """Remove all write permissions of a file."""
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~0o222)

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Rename a file or folder atomically, replacing a file of that name."""
        os.replace(old, new)

    def rename_new(self, old: StrPath, new: StrPath) -> None:
        """Rename a file or folder. Raises FileExistsError if the new name exists."""
        rename_without_replacing(old, new)

    def set_access(self, path: StrPath, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Set mode and owner (user id, group id) of a file or folder."""
        if owner is not None:
            os.chown(path, *owner)
        os.chmod(path, mode)

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        """Remove a file; return whether it existed. Raises FileNotFoundError unless `missing_ok`."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            if not missing_ok:
                raise
            return False
        return True

    def remove_folder(self, path: StrPath) -> None:
        """Remove an empty folder."""
        os.rmdir(path)

    def remove_tree(self, path: StrPath) -> None:
        """Remove a file, or a folder with its content; a missing one is fine. Links are not followed."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(status.st_mode):
            self.remove(path, missing_ok=True)
            return
        for name in self.list(path):
            self.remove_tree(os.path.join(path, name))
        self.remove_folder(path)

    def make_folder(self, path: StrPath) -> None:
        """Create a folder and its missing parents, with the names on the device; an existing folder is fine."""
        missing = []
        folder = os.path.abspath(path)
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        os.makedirs(path, exist_ok=True)
        for folder in missing:
            self.sync_folder(os.path.dirname(folder))

    def make_new_folder(self, path: StrPath) -> None:
        """Create a new folder in an existing one. Raises FileExistsError, FileNotFoundError."""
        os.mkdir(path)

    def sync_folder(self, path: StrPath) -> None:
        """Sync the names in a folder to the device."""
        if not self.syncs:
            return
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: StrPath) -> bytes:
        """Return a small file whole."""
        with self.open(path, writable=False) as file:
            return file.read_at(0, file.size())

    def copy_new(self, source: StrPath, target: StrPath) -> None:
        """Copy a file to a new one, which shares its blocks if the file system can do that."""
        with self.open(source, writable=False) as old, self.open(target, exclusive=True) as new:
            position, size = 0, old.size()
            while position < size:
                part = min(size - position, _LARGEST_COPY)
                done = os.copy_file_range(old.fileno(), new.fileno(), part, position, position)
                if not done:
                    raise OSError(errno.EIO, "it became shorter while it was copied", old.path)
                position += done

    def replace_atomically(self, path: StrPath, data: Bytes) -> None:
        """Replace the content of a file, so that a crash leaves the old or the new content.

        The bytes are on the device before the rename, and the name is on return. After an error
        before the rename the old content stays.
        """
        target = os.fspath(path)
        temporary = target + TEMPORARY_SUFFIX
        self.remove(temporary, missing_ok=True)
        try:
            with self.open(temporary, exclusive=True) as file:
                file.write_at(0, data)
                file.sync()
            self.rename(temporary, target)
        except OSError:
            with contextlib.suppress(OSError):
                self.remove(temporary, missing_ok=True)
            raise
        self.sync_folder(os.path.dirname(target) or ".")

    def stat_usage(self, path: StrPath) -> DiskUsage:
        """Return the size of the file system, and the space left for this user."""
        status = os.statvfs(path)
        return DiskUsage(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        """Wrap a descriptor; tests override this to return their own files."""
        return WritableFile(fd, path, writable=writable)


def rename_without_replacing(old: StrPath, new: StrPath) -> None:
    """Call renameat2(2) with RENAME_NOREPLACE; if the file system does not support it, check first, then rename."""
    function = getattr(_libc, "renameat2", None)
    if function is not None:
        names = os.fsencode(old), os.fsencode(new)
        if function(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(code, os.strerror(code), os.fspath(old), None, os.fspath(new))
    if os.path.lexists(new):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(new))
    os.rename(old, new)


def _stat_or_none(path: StrPath) -> os.stat_result | None:
    """Return the status of a path, None if it does not exist. Other errors are raised: a failing disk is not empty."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


DISK = Disk()
