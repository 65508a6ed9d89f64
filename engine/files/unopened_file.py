"""A file that the system refuses to open, shown as a file without a readable byte."""

from __future__ import annotations

import os
import stat
from time import monotonic

from engine.errors import SourceGoneError, SourceRefusedError, UnreadableError
from engine.files.source_files import SourceFile, SourceRoot
from engine.files.unreadable import MEDIA_ERRORS, Stretch, Stretches

UNKNOWN_SIZE = 1
"""Size of a file whose inode cannot be read: it must not look empty."""


def unknown_status() -> os.stat_result:
    """Return a status for a regular file whose inode cannot be read."""
    times = {f"st_{name}time_ns": 0 for name in "amc"}
    return os.stat_result((stat.S_IFREG | 0o444, 0, 0, 1, 0, 0, UNKNOWN_SIZE, 0, 0, 0), times)


def known_status(root: SourceRoot, path: str, opened: SourceFile | None) -> os.stat_result:
    """Return lstat of a file; if the device cannot read the inode, that of the open file, or an unknown one.

    Raises FileNotFoundError, other OSError, SourceRefusedError.
    """
    try:
        return root.stat(path)
    except (SourceGoneError, SourceRefusedError):
        raise
    except OSError as error:
        if error.errno not in MEDIA_ERRORS:
            raise
    return unknown_status() if opened is None else opened.stat()


class UnopenedFile(SourceFile):
    """A file that may not be opened or cannot be found on the device: name and status, but no bytes.

    Attributes:
        errno: errno of the failed open.
        since: time of the failed open, by the monotonic clock.
    """

    __slots__ = ("_status", "errno", "since")

    def __init__(self, path: str, status: os.stat_result, errno: int) -> None:
        super().__init__(-1, path, status)
        self._status = status
        self.errno = errno
        self.since = monotonic()
        self.unreadable = Stretches()
        self.unreadable.add(Stretch(0, status.st_size, errno))

    def stat(self) -> os.stat_result:
        """Return the file's status at the time of the failed open."""
        return self._status

    def size(self) -> int:
        """Return the file's length at the time of the failed open."""
        return self._status.st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Return b"" after the end. Raises UnreadableError for any byte of the file."""
        if size > 0 and 0 <= position < self.size():
            raise self.error
        return b""

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill nothing after the end. Raises UnreadableError for any byte of the file."""
        return len(self.read_at(position, len(buffer)))

    @property
    def error(self) -> UnreadableError:
        """Error that a read raises."""
        return UnreadableError(self.errno, self.path, 0, self.size())
