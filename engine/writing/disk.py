"""The one module that writes: files, folders and maps of our own index files.

Every class that writes takes a `disk`, so that tests can see each call in its order, make it fail, or
build what a crash would leave. Nothing is written through a map: on a full disk that kills the process,
where a write raises OSError. Whoever reads the map sees what was written to the file at once.

Paths are str or path-like. What fails raises OSError; a closed file raises ValueError.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import stat
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

StrPath: TypeAlias = str | os.PathLike[str]
Bytes: TypeAlias = bytes | bytearray | memoryview

_FLAGS = os.O_CLOEXEC | os.O_NOCTTY
_MODE = 0o644
_LARGE_READ = 1 << 20
TEMPORARY_SUFFIX = ".tmp"
_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
_libc = ctypes.CDLL(None, use_errno=True)


class DiskUsage(NamedTuple):
    """Bytes of the file system that holds a path."""

    total: int
    free: int


class WritableFile:
    """An open file: positioned reads and writes, no cursor.

    Attributes:
        path: where it is, for people; whoever renames it says so here.
        writable: whether it was opened to be written.
    """

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
        """Whether `close` was called."""
        return self._fd < 0

    def fileno(self) -> int:
        """Return the descriptor. Raises ValueError when closed."""
        fd = self._fd
        if fd < 0:
            raise ValueError(f"{self.path} is closed")
        return fd

    def size(self) -> int:
        """Return the file's length in bytes at this moment."""
        return os.fstat(self.fileno()).st_size

    def read_at(self, position: int, size: int) -> bytes:
        """`size` bytes from `position`, fewer only where the file ends; never allocates more than there is."""
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
        """Fill `buffer` from `position`; the number of bytes read, fewer where the file ends."""
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
        """Write all of `data` from `position` on; when that raises, some of it may have been written."""
        fd = self._fd
        if fd < 0:
            raise ValueError(f"{self.path} is closed")
        done = os.pwrite(fd, data, position)
        if done < len(data):
            view = memoryview(data).cast("B")
            while done < len(view):
                done += os.pwrite(fd, view[done:], position + done)

    def truncate(self, size: int) -> None:
        """Make the file `size` bytes long; what is added is zeros that take no space yet."""
        os.ftruncate(self.fileno(), size)

    def sync(self) -> None:
        """Return when content and length are on the device."""
        os.fsync(self.fileno())

    def close(self) -> None:
        """Close now; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def map(self, size: int) -> Mapping:
        """Return a map of the first `size` bytes, which must be there; the file must not shrink under it."""
        if size > self.size():
            raise ValueError(f"{self.path} is shorter than {size} bytes")
        return Mapping(self, size)


class Mapping:
    """First bytes of an open file, for searches; what is written to the file shows up in it.

    Attributes:
        file: what is mapped; it belongs to whoever opened it.
        size: in bytes.
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
        """Whether `close` was called."""
        return self._view is None

    @property
    def buffer(self) -> memoryview:
        """Mapped bytes, to be read. Raises ValueError when closed."""
        view = self._view
        if view is None:
            raise ValueError(f"the map of {self.file.path} is closed")
        return view

    def read(self, position: int, size: int) -> bytes:
        """Return a copy of some of the bytes, fewer where the map ends."""
        return bytes(self.buffer[position : position + size])

    def write(self, position: int, data: Bytes) -> None:
        """Write into the mapped part of the file. Raises ValueError outside of it."""
        if self._view is None or not 0 <= position <= self.size - len(data):
            raise ValueError(
                f"{len(data)} bytes at {position} are outside the map of {self.file.path}"
            )
        self.file.write_at(position, data)

    def sync(self) -> None:
        """Return when what was written is on the device."""
        if self._view is None:
            raise ValueError(f"the map of {self.file.path} is closed")
        self.file.sync()

    def close(self) -> None:
        """Unmap when the last view of `buffer` is gone; the file stays open. Twice does nothing."""
        view, self._view = self._view, None
        if view is not None:
            with contextlib.suppress(BufferError):
                view.release()


class Disk:
    """What the file system does for those who write."""

    def open(
        self,
        path: StrPath,
        *,
        create: bool = False,
        exclusive: bool = False,
        writable: bool = True,
    ) -> WritableFile:
        """Return a regular file.

        With `create` it is made, empty, when it is not there; with `exclusive` it must not be there.
        Raises FileExistsError, FileNotFoundError, IsADirectoryError and other OSErrors.
        """
        flags = _FLAGS | (os.O_RDWR if writable else os.O_RDONLY)
        if create or exclusive:
            flags |= os.O_CREAT
        if exclusive:
            flags |= os.O_EXCL
        return self._file(os.open(path, flags, _MODE), os.fspath(path), writable)

    def exists(self, path: StrPath) -> bool:
        """Return whether something is there. OSError when that cannot be said."""
        return _stat_or_none(path) is not None

    def is_dir(self, path: StrPath) -> bool:
        """Return whether a folder is there. OSError when that cannot be said."""
        status = _stat_or_none(path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def list(self, folder: StrPath) -> list[str]:
        """Return the names in a folder, sorted."""
        return sorted(os.listdir(folder))

    def size(self, path: StrPath) -> int:
        """Return a file's length in bytes."""
        return os.stat(path).st_size

    def mtime_ms(self, path: StrPath) -> int:
        """When a file was last modified, in ms since 1970."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: StrPath, milliseconds: int) -> None:
        """Say when a file was last modified."""
        nanoseconds = milliseconds * 1_000_000
        os.utime(path, ns=(nanoseconds, nanoseconds))

    def make_read_only(self, path: StrPath) -> None:
        """Take the right to write a file from everybody."""
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~0o222)

    def rename(self, old: StrPath, new: StrPath) -> None:
        """Give a file or folder another name, in one step; a file of that name is replaced."""
        os.replace(old, new)

    def rename_new(self, old: StrPath, new: StrPath) -> None:
        """Give a file or folder a name that nothing has. Raises FileExistsError when something has it."""
        rename_without_replacing(old, new)

    def set_access(self, path: StrPath, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Say who may do what with a file or folder, and whose it is: (user id, group id)."""
        if owner is not None:
            os.chown(path, *owner)
        os.chmod(path, mode)

    def remove(self, path: StrPath, missing_ok: bool = False) -> bool:
        """Remove a file; whether it was there. Raises FileNotFoundError unless `missing_ok`."""
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
        """Remove a folder with all that is in it, or a file; nothing there is fine. Links are not followed."""
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
        """Make a folder and those above it that are missing, names on the device; one that is there is fine."""
        missing = []
        folder = os.path.abspath(path)
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        os.makedirs(path, exist_ok=True)
        for folder in missing:
            self.sync_folder(os.path.dirname(folder))

    def make_new_folder(self, path: StrPath) -> None:
        """Make a folder that is not there, in one that is. Raises FileExistsError, FileNotFoundError."""
        os.mkdir(path)

    def sync_folder(self, path: StrPath) -> None:
        """Return when the names in a folder are on the device."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: StrPath) -> bytes:
        """Return a small file whole."""
        with self.open(path, writable=False) as file:
            return file.read_at(0, file.size())

    def replace_atomically(self, path: StrPath, data: Bytes) -> None:
        """Make `data` the content of a file, so that a crash leaves the old content or the new.

        The bytes are on the device before the name leads to them, and the name is when this returns.
        When it raises before the name leads to them, the old content is there as before.
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
        """How much space there is, and how much is left for us."""
        status = os.statvfs(path)
        return DiskUsage(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    def _file(self, fd: int, path: str, writable: bool) -> WritableFile:
        """Wrap a descriptor; a test's disk makes its own files here."""
        return WritableFile(fd, path, writable=writable)


def rename_without_replacing(old: StrPath, new: StrPath) -> None:
    """renameat2(2) with RENAME_NOREPLACE; where the file system has no such thing, look first, then rename."""
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
    """What is there. A disk that fails is not an empty one."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


DISK = Disk()
