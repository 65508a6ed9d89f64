"""The one table from errors to errno values; the tree and the engine know none.

Rules: what is not there is ENOENT, what is damaged is EIO, a codec that is not installed is EOPNOTSUPP.
ENOSYS is never an answer here: the kernel takes it for «this mount has no such operation» and stops asking.
"""

from __future__ import annotations

import errno

from engine.errors import (
    DamagedFileError,
    InvalidNameError,
    OffsetOutOfRangeError,
    SourceRefusedError,
    UnsupportedCodecError,
)
from kafkafs.tree.errors import Cancelled, NotADirectory, NotFound

_TABLE: tuple[tuple[type[BaseException], int], ...] = (
    (NotFound, errno.ENOENT),
    (NotADirectory, errno.ENOTDIR),
    (Cancelled, errno.EINTR),
    (OffsetOutOfRangeError, errno.ENOENT),
    (InvalidNameError, errno.ENOENT),
    (UnsupportedCodecError, errno.EOPNOTSUPP),
    (SourceRefusedError, errno.EIO),
    (DamagedFileError, errno.EIO),
    (MemoryError, errno.ENOMEM),
)

PASSED_ON = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EACCES,
        errno.EPERM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EINTR,
        errno.EIO,
        errno.ESTALE,
        errno.ENAMETOOLONG,
        errno.ETIMEDOUT,
        errno.EINVAL,
    }
)
"""What an OSError from the source means to the caller as well; any other of them is EIO."""

SILENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EINTR})
"""Answers that are no news for the log."""


def errno_of(error: BaseException) -> int | None:
    """The errno for an expected error; None for one that nobody expects, which is EIO and a bug."""
    for kind, number in _TABLE:
        if isinstance(error, kind):
            return number
    if isinstance(error, OSError):
        return error.errno if error.errno in PASSED_ON else errno.EIO
    return None
