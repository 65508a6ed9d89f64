"""An open file of an overlay, and its mmap."""

from __future__ import annotations

import errno
import os

from engine.disk.disk import Bytes, Mapping, WritableFile
from engine.plan.overlay.overlay_content import OverlayContent
from engine.units import MAX_INT32

_MAX_FILE = 1 << 40
_SMALL_MAP = 64 << 10
"""Largest mmap in bytes that is searched as a copy in memory."""


class OverlayFile(WritableFile):
    """An open file of an overlay.

    `fileno` is for pread below `size`; any other call may change it.
    """

    def __init__(self, content: OverlayContent, path: str, *, writable: bool = True) -> None:
        super().__init__(-1, path, writable=writable)
        self._content: OverlayContent | None = content

    @property
    def is_closed(self) -> bool:
        """Whether the file is closed."""
        return self._content is None

    def fileno(self) -> int:
        """Return a descriptor to read from. Raises ValueError when closed."""
        return self._opened().fileno()

    def size(self) -> int:
        """Return the file's length in bytes."""
        return self._opened().size

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only at the end of the file."""
        return self._opened().read_at(position, size)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill `buffer` from `position`; return the number of bytes read, fewer only at the end of the file."""
        content, view = self._opened(), memoryview(buffer).cast("B")
        wanted = max(min(len(view), content.size - position), 0)
        if content.is_in_memory:
            view[:wanted] = content.read_at(position, wanted)
            return wanted
        fd, got = content.fileno() if wanted else -1, 0
        while got < wanted:
            count = os.preadv(fd, [view[got:wanted]], position + got)
            if count == 0:
                break
            got += count
        return got

    def write_at(self, position: int, data: Bytes) -> None:
        """Write all of `data` from `position` on."""
        self._to_write().write_at(position, data)

    def truncate(self, size: int) -> None:
        """Set the file's length to `size` bytes."""
        content = self._to_write(errno.EINVAL)
        if size > _MAX_FILE:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), self.path)
        content.truncate(size)

    def sync(self) -> None:
        """Do nothing: an overlay is never stored. Raises ValueError when closed."""
        self._opened()

    def close(self) -> None:
        """Close now. May be called twice."""
        self._content = None

    def map(self, size: int) -> Mapping:
        """Return an mmap of the first `size` bytes of a copy: a source's file may shrink, which kills the process.

        Raises ValueError if the file is shorter, or if `size` is more than Java maps.
        """
        content = self._opened()
        if size > MAX_INT32:
            raise ValueError(
                f"{self.path} has {size} bytes, more than the {MAX_INT32} that Java maps"
            )
        if size > content.size:
            raise ValueError(f"{self.path} is shorter than {size} bytes")
        return _OverlayMapping(self, size, content)

    def _opened(self) -> OverlayContent:
        content = self._content
        if content is None:
            raise ValueError(f"{self.path} is closed")
        return content

    def _to_write(self, error: int = errno.EBADF) -> OverlayContent:
        content = self._opened()
        if not self.writable:
            raise OSError(error, os.strerror(error), self.path)
        return content


class _OverlayMapping(Mapping):
    """An mmap of a copy; a small one is searched in memory and needs no descriptor."""

    __slots__ = ("_content", "_mapped")

    def __init__(self, file: OverlayFile, size: int, content: OverlayContent) -> None:
        super().__init__(file, 0)
        self.size = size
        self._content = content
        self._mapped: Mapping | None = None

    @property
    def buffer(self) -> memoryview:
        """Bytes for a search; later writes may not be visible in them. Raises ValueError when closed."""
        if self._mapped is not None:
            return self._mapped.buffer
        if self.is_closed or not self.size:
            return super().buffer
        if self.size <= _SMALL_MAP:
            return memoryview(self._content.read_at(0, self.size))
        self._mapped = Mapping(_Mapped(self._content.own_file()), self.size)
        return self._mapped.buffer

    def read(self, position: int, size: int) -> bytes:
        if self.is_closed:
            raise ValueError(f"the map of {self.file.path} is closed")
        return self._content.read_at(position, max(min(size, self.size - position), 0))

    def close(self) -> None:
        super().close()
        mapped, self._mapped = self._mapped, None
        if mapped is not None:
            mapped.close()


class _Mapped(WritableFile):
    """A descriptor to map; closing leaves it open for its owner."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "")

    def close(self) -> None:
        """Forget the descriptor."""
        self._fd = -1
