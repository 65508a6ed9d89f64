"""Check that the folder of a source is still at the operator's path.

A descriptor alone would show a deleted folder as empty, and an unmounted one as it was.
"""

from __future__ import annotations

import errno
import os

from engine.errors import SourceGoneError
from engine.files.tries import tried

_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errnos for a path that leads to no folder."""
_LOST = (errno.ESTALE, errno.EIO, errno.ENOTCONN, errno.ENODEV, errno.ENXIO, errno.ECONNABORTED)
"""Errnos of a file system that lost the storage below it."""
NO_ANSWER = frozenset(_LOST) - {errno.EIO}
"""Errnos of `_LOST` without EIO, which one bad block of a folder gives, too."""
_OF_A_PROCESS = ("/proc/", "/dev/fd/")
"""Paths with another meaning in another process."""
_HINT = "it is served again when the same folder is back; to serve another folder, mount again"


def check_there(fd: int, path: str) -> None:
    """Check that a path leads to the folder that was opened there.

    Args:
        fd: the folder's descriptor.
        path: the operator's path, absolute.

    Raises:
        SourceGoneError: the path leads elsewhere, or the file system does not answer.
    """
    try:
        own = tried(lambda: os.fstat(fd), path)
        if own.st_nlink == 0:
            raise gone("the source folder was deleted", path)
        if path.startswith(_OF_A_PROCESS):
            return
        there = tried(lambda: os.stat(path), path)
    except SourceGoneError:
        raise
    except OSError as error:
        if error.errno in _LOST:
            raise no_answer(error.errno, path) from None
        if error.errno in _NO_FOLDER:
            raise gone("the source folder no longer exists", path) from None
        return  # the path may be closed to this user, but the folder is open
    if (own.st_dev, own.st_ino) != (there.st_dev, there.st_ino):
        raise gone("another folder has replaced the source folder", path)


def no_answer(number: int, path: str) -> SourceGoneError:
    """Return the error for a file system that lost the storage below it and fails with errno `number`."""
    reason = f"the file system of the source does not answer: {os.strerror(number)}"
    return gone(reason, path, errno.ESTALE if number == errno.ESTALE else errno.EIO)


def gone(reason: str, path: str, number: int = errno.ESTALE) -> SourceGoneError:
    """Return the error for a folder that is gone, with advice."""
    return SourceGoneError(number, f"{reason}; {_HINT}", path)
