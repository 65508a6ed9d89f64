"""The .lock of a log dir: its holder, a broker or this library, is the only writer there.

The lock is the fcntl lock over the whole file that Java's FileChannel takes, but owned by the open
file instead of the process. It excludes processes that lock as Java does, and is not dropped when
another part of this process opens and closes the file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading

from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import DirectoryLockedError
from engine.files.lock_holder import FLOCK

_held: dict[tuple[int, int], FileLock] = {}
_held_guard = threading.Lock()


class FileLock:
    """A lock on a file, which is created if missing; one holder at a time, also within this process.

    Args:
        path: path of the file; its folder must exist.
        disk: disk to open and remove the file.

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
        """Return the process that holds the lock; None without one, or if the system does not know the process."""
        if self._identity in _held:
            return os.getpid()
        pid: int = FLOCK.unpack(self._fcntl(fcntl.F_OFD_GETLK, fcntl.F_WRLCK))[4]
        return pid if pid > 0 else None

    def try_lock(self) -> bool:
        """Take the lock unless it is held, by this object or another; return whether it was taken. Raises OSError."""
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
        """Take the lock, waiting while another process holds it.

        Raises DirectoryLockedError if this process already holds it, and OSError.
        """
        if not self.try_lock():
            self._refuse_own()
            self._fcntl(fcntl.F_OFD_SETLKW, fcntl.F_WRLCK)
            with _held_guard:
                _held[self._identity] = self

    def unlock(self) -> None:
        """Release the lock if this object holds it."""
        with _held_guard:
            if self.is_held:
                self._fcntl(fcntl.F_OFD_SETLK, fcntl.F_UNLCK)
                del _held[self._identity]

    def destroy(self) -> None:
        """Release the lock, remove and close the file. May be called twice."""
        if self._file.is_closed:
            return
        self.unlock()
        self._disk.remove(self.path, missing_ok=True)
        self._file.close()

    def unlock_and_close(self) -> None:
        """Release the lock and close the file, which stays. May be called twice."""
        if not self._file.is_closed:
            self.unlock()
            self._file.close()

    def _refuse_own(self) -> None:
        if self._identity in _held:
            raise DirectoryLockedError(f"{self.path} is locked by this process", os.getpid())

    def _fcntl(self, command: int, kind: int) -> bytes:
        question = FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
        return fcntl.fcntl(self._file.fileno(), command, question)
