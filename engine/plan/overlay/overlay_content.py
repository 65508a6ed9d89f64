"""The content of a file on an overlay: the source's bytes, perhaps truncated, or a copy of them.

A truncation only sets a size. The first write makes a copy: a small one in memory, a larger one in an anonymous
temporary file, which is gone with the process.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections import OrderedDict
from typing import NamedTuple

from engine.files.source_files import SourceFile, SourceRoot

_COPY_CHUNK = 1 << 20
_IN_MEMORY = 64 << 10
"""Largest copy in memory, without the zeros at its end."""


class OverlayBudget:
    """Limit of the bytes in copies: in memory first, then in temporary files.

    Args:
        memory_bytes: limit in memory.
        file_bytes: limit in temporary files.

    Attributes:
        used: bytes in use.
    """

    def __init__(self, memory_bytes: int = 64 << 20, file_bytes: int = 4 << 30) -> None:
        self.memory_bytes = memory_bytes
        self.file_bytes = file_bytes
        self.used = 0

    def take(self, size: int, path: str) -> None:
        """Count bytes as used. Raises OSError (ENOSPC) above the limit."""
        if size > 0 and self.used + size > self.memory_bytes + self.file_bytes:
            raise OSError(errno.ENOSPC, "the changes exceed the limit of an overlay", path)
        self.used += size

    def has_memory(self, size: int) -> bool:
        """Return whether `size` more bytes fit in memory."""
        return self.used + size <= self.memory_bytes

    def make_file(self, size: int) -> int:
        """Open an anonymous temporary file of about `size` bytes; return its descriptor."""
        if self.has_memory(size):
            return os.memfd_create("overlay", os.MFD_CLOEXEC)
        with tempfile.TemporaryFile(prefix="overlay-") as file:
            return os.dup(file.fileno())


class SourcePlace(NamedTuple):
    """A file of a source: its path, its size at the first use, and its device and inode."""

    root: SourceRoot
    relative: str
    size: int
    identity: tuple[int, int]


class OpenSources:
    """Cache of open source files: those used last.

    Args:
        limit: most open files.
    """

    def __init__(self, limit: int = 64) -> None:
        self._limit = limit
        self._files: OrderedDict[SourcePlace, SourceFile] = OrderedDict()

    def get(self, place: SourcePlace) -> SourceFile:
        """Return the open file. Raises OSError, also if another file has its name now."""
        file = self._files.get(place)
        if file is not None:
            self._files.move_to_end(place)
            return file
        try:
            file = place.root.open_fresh(place.relative)
        except FileNotFoundError:
            raise _gone(place) from None
        if file.identity != place.identity:
            raise _gone(place)
        self._files[place] = file
        if len(self._files) > self._limit:
            self._files.popitem(last=False)
        return file

    def clear(self) -> None:
        """Close all files."""
        self._files.clear()


class OverlayContent:
    """Content of a file, shared by all its names and open handles.

    Args:
        place: file of a source; None for a new, empty file.
        sources: cache that opens the source's file.
        budget: limit of copies.
        path: path for messages.

    Attributes:
        mtime_ms: modification time; None for that of the source, or now.
        read_only: whether the file may not be opened for writing.
    """

    def __init__(
        self,
        place: SourcePlace | None,
        sources: OpenSources,
        budget: OverlayBudget,
        path: str,
    ) -> None:
        self.place = place
        self.path = path
        self.mtime_ms: int | None = None
        self.read_only = False
        self._sources = sources
        self._budget = budget
        self._size = 0 if place is None else place.size
        self._data = bytearray() if place is None else None
        """The copy in memory, without the zeros at its end; None if the bytes are in the source or in a file."""
        self._fd = -1
        self._counted = 0

    def __del__(self) -> None:
        self.release()

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._size if self._fd < 0 else os.fstat(self._fd).st_size

    @property
    def is_own(self) -> bool:
        """Whether the bytes are a copy."""
        return self._fd >= 0 or self._data is not None

    @property
    def is_changed(self) -> bool:
        """Whether the bytes are a copy, or the file has another size than the source's."""
        return self.is_own or (self.place is not None and self._size != self.place.size)

    @property
    def is_in_memory(self) -> bool:
        """Whether the bytes are a copy in memory."""
        return self._data is not None

    def fileno(self) -> int:
        """Return a descriptor to read from with pread, up to `size`; valid until the next call of a method.

        Until the first write it is that of the source's file.
        """
        if self.place is None or self.is_own:
            return self.own_file()
        return self._sources.get(self.place).fd

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only at the end of the file. Raises OSError for negative numbers."""
        if position < 0 or size < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        size = max(min(size, self.size - position), 0)
        if not size:
            return b""
        if self._data is not None:
            return bytes(self._data[position : position + size]).ljust(size, b"\0")
        if self._fd < 0 and self.place is not None:
            return self._sources.get(self.place).read_at(position, size)
        return _read(self._fd, position, size)

    def source_at(self, position: int, size: int) -> bytes:
        """Return the source's bytes from `position`, whatever was written since; none for a new file."""
        if self.place is None:
            return b""
        size = max(min(size, self.place.size - position), 0)
        return self._sources.get(self.place).read_at(position, size)

    def write_at(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write all of `data` into a copy. Raises OSError above the limit."""
        view = memoryview(data).cast("B")
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        self._own()
        if not view:
            return
        if self._has_room(position + len(view)):
            self._write_in_memory(position, view)
        else:
            fd = self.own_file()
            self._count(len(view))
            _write(fd, position, view)
        self.mtime_ms = None

    def truncate(self, size: int) -> None:
        """Set the length; added bytes are zeros. Truncating a source's file copies nothing."""
        if size < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        if self.is_own or size > self._size:
            self._own()
        if self._fd >= 0:
            os.ftruncate(self._fd, size)
        else:
            self._size = size
        if self._data is not None:
            del self._data[size:]
        self.mtime_ms = None

    def own_file(self) -> int:
        """Return the descriptor of a copy in a file, which may be mapped."""
        self._own()
        if self._data is not None:
            fd = self._budget.make_file(len(self._data))
            try:
                _write(fd, 0, memoryview(self._data))
                os.ftruncate(fd, self._size)
            except BaseException:
                os.close(fd)
                raise
            self._fd, self._data = fd, None
        return self._fd

    def release(self) -> None:
        """Free the copy of a file that is no longer used."""
        fd, self._fd = getattr(self, "_fd", -1), -1
        if fd >= 0:
            os.close(fd)
        self._budget.used -= self._counted
        self._counted = 0

    def _own(self) -> None:
        """Copy the source's bytes: into memory if they are few, else into a file."""
        if self.is_own or self.place is None:
            return
        size = self._size
        if size <= _IN_MEMORY and self._budget.has_memory(size):
            data = self._sources.get(self.place).read_at(0, size) if size else b""
            self._count(len(data))
            self._data, self._size = bytearray(data), len(data)
            return
        fd = self._budget.make_file(size)
        try:
            os.ftruncate(fd, size)
            self._copy(self._sources.get(self.place), fd, size)
        except BaseException:
            os.close(fd)
            self._budget.used -= self._counted
            self._counted = 0
            raise
        self._fd = fd

    def _has_room(self, end: int) -> bool:
        """Return whether a copy in memory may grow to `end`."""
        data = self._data
        if data is None:
            return False
        return end <= _IN_MEMORY and self._budget.has_memory(max(end - len(data), 0))

    def _write_in_memory(self, position: int, view: memoryview) -> None:
        data = self._data
        assert data is not None
        end = position + len(view)
        if end > len(data):
            self._count(end - len(data))
            data.extend(bytes(end - len(data)))
        data[position:end] = view
        self._size = max(self._size, end)

    def _copy(self, source: SourceFile, fd: int, size: int) -> None:
        """Copy the chunks that are not all zeros; the file has holes for the others."""
        position = 0
        while position < size:
            chunk = source.read_at(position, min(_COPY_CHUNK, size - position))
            if not chunk:  # it has become shorter meanwhile
                os.ftruncate(fd, position)
                return
            if chunk.count(0) < len(chunk):
                self._count(len(chunk))
                os.pwrite(fd, chunk, position)
            position += len(chunk)

    def _count(self, size: int) -> None:
        self._budget.take(size, self.path)
        self._counted += size


def _gone(place: SourcePlace) -> OSError:
    path = place.root.display(place.relative)
    return OSError(errno.ESTALE, "the file was replaced while it was read", path)


def _write(fd: int, position: int, view: memoryview) -> None:
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], position + done)


def _read(fd: int, position: int, size: int) -> bytes:
    parts = []
    while size:
        data = os.pread(fd, size, position)
        if not data:
            break
        parts.append(data)
        position += len(data)
        size -= len(data)
    return b"".join(parts)
