"""A file that the system does not let us open, as a file of which no byte can be read."""

from __future__ import annotations

import os
from time import monotonic

from engine.errors import UnreadableError
from engine.files.source_files import SourceFile
from engine.files.unreadable import Stretch


class UnopenedFile(SourceFile):
    """A file of another owner, or one that the device does not find: its name and status, and an error for its bytes.

    Attributes:
        errno: why it could not be opened.
        since: when that was tried, by the monotonic clock.
    """

    __slots__ = ("_status", "errno", "since")

    def __init__(self, path: str, status: os.stat_result, errno: int) -> None:
        super().__init__(-1, path, status)
        self._status = status
        self.errno = errno
        self.since = monotonic()

    def stat(self) -> os.stat_result:
        """Return its status when it was tried to open it."""
        return self._status

    def size(self) -> int:
        """Return its length then."""
        return self._status.st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Nothing behind its end. Raises UnreadableError for bytes that it has."""
        if size > 0 and 0 <= position < self.size():
            raise self.error
        return b""

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """As `read_at`."""
        return len(self.read_at(position, len(buffer)))

    def unreadable_in(self, position: int, end: int) -> Stretch | None:
        """Return all of it."""
        size = self.size()
        return Stretch(0, size, self.errno) if position < min(end, size) else None

    @property
    def error(self) -> UnreadableError:
        """What a read of it raises."""
        return UnreadableError(self.errno, self.path, 0, self.size())
