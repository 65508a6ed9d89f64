"""The .lock of a log dir: who holds it is the only one that writes there, be it a broker or this library.

The lock is the one over the whole file that Java's FileChannel takes with fcntl, but owned by the open
file instead of the process: the system then still keeps out other processes that lock as Java does, and
does not drop the lock when some other part of this process closes the file after it looked at it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading

from engine.errors import DirectoryLockedError
from engine.writing.disk import DISK, Disk, StrPath

_FLOCK = struct.Struct("@hhqqi4x")
_held: dict[tuple[int, int], FileLock] = {}
_held_guard = threading.Lock()


class FileLock:
    """A lock on a file, which is made when it is not there; one holder at a time, also within this process.

    Args:
        path: its folder must be there.
        disk: what opens and removes the file.

    Raises OSError.
    """

    def __init__(self, path: StrPath, disk: Disk = DISK) -> None:
        self.path = os.fspath(path)
        self._disk = disk
        self._file = disk.open(self.path, create=True)
        status = os.fstat(self._file.fileno())
        self._identity = status.st_dev, status.st_ino

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return _held.get(self._identity) is self

    def holder_pid(self) -> int | None:
        """Return the process that holds the lock; None when nobody does, or when the system does not say which."""
        if self._identity in _held:
            return os.getpid()
        pid: int = _FLOCK.unpack(self._fcntl(fcntl.F_OFD_GETLK, fcntl.F_WRLCK))[4]
        return pid if pid > 0 else None

    def try_lock(self) -> bool:
        """Take the lock if nobody holds it, neither this object; whether it was taken. Raises OSError."""
        with _held_guard:
            if self._identity in _held:
                return False
            try:
                self._fcntl(fcntl.F_OFD_SETLK, fcntl.F_WRLCK)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    return False
                raise
            _held[self._identity] = self
            return True

    def lock(self) -> None:
        """Take the lock, after waiting for another process that holds it.

        Raises DirectoryLockedError when this process holds it already, and OSError.
        """
        if not self.try_lock():
            self._refuse_own()
            self._fcntl(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK)
            with _held_guard:
                _held[self._identity] = self

    def unlock(self) -> None:
        """Give the lock back if this object holds it."""
        with _held_guard:
            if self.is_held:
                self._fcntl(fcntl.F_OFD_SETLK, fcntl.F_UNLCK)
                del _held[self._identity]

    def destroy(self) -> None:
        """Give the lock back, remove and close the file; a second call does nothing."""
        if self._file.is_closed:
            return
        self.unlock()
        self._disk.remove(self.path, missing_ok=True)
        self._file.close()

    def unlock_and_close(self) -> None:
        """Give the lock back and close the file, which stays; a second call does nothing."""
        if not self._file.is_closed:
            self.unlock()
            self._file.close()

    def _refuse_own(self) -> None:
        if self._identity in _held:
            raise DirectoryLockedError(f"{self.path} is locked by this process", os.getpid())

    def _fcntl(self, command: int, kind: int) -> bytes:
        question = _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
        return fcntl.fcntl(self._file.fileno(), command, question)
