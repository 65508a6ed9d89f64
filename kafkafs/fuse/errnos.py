"""The only table from errors to errno values; the tree and the engine have none.

A missing path is ENOENT, what a mask hides is EACCES, damage is EIO, a missing codec library is EOPNOTSUPP. ENOSYS is never used here: the kernel
would conclude that the mount lacks the operation, and stop sending it.
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
from kafkafs.tree.errors import Cancelled, MaskedError, NotADirectory, NotFound

_TABLE: tuple[tuple[type[BaseException], int], ...] = (
    (NotFound, errno.ENOENT),
    (NotADirectory, errno.ENOTDIR),
    (MaskedError, errno.EACCES),
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
"""errno values of OSErrors that are passed to the caller; any other becomes EIO."""

SILENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EINTR})
"""errno values that are not logged."""


def errno_of(error: BaseException) -> int | None:
    """Return the errno of an expected error; None for an unexpected one, which is EIO and a bug."""
    for kind, number in _TABLE:
        if isinstance(error, kind):
            return number
    if isinstance(error, OSError):
        return error.errno if error.errno in PASSED_ON else errno.EIO
    return None
