"""The table of errno values."""

from __future__ import annotations

import errno

import pytest

from engine.errors import (
    CorruptRecordError,
    InvalidNameError,
    LimitExceededError,
    OffsetOutOfRangeError,
    SourceRefusedError,
    UnsupportedCodecError,
)
from kafkafs.fuse.errnos import errno_of
from kafkafs.tree.errors import Cancelled, ChangedFileError, NotADirectory, NotFound

TABLE = [
    (NotFound("orders-0/offset/99"), errno.ENOENT),
    (NotADirectory("README.txt"), errno.ENOTDIR),
    (Cancelled(), errno.EINTR),
    (OffsetOutOfRangeError(), errno.ENOENT),
    (InvalidNameError(), errno.ENOENT),
    (UnsupportedCodecError("zstd"), errno.EOPNOTSUPP),
    (CorruptRecordError("crc"), errno.EIO),
    (LimitExceededError("large", limit="batch_bytes"), errno.EIO),
    (ChangedFileError("cut"), errno.EIO),
    (SourceRefusedError("a link", "orders-0/x"), errno.EIO),
    (MemoryError(), errno.ENOMEM),
    (FileNotFoundError(errno.ENOENT, ""), errno.ENOENT),
    (PermissionError(errno.EACCES, ""), errno.EACCES),
    (OSError(errno.EMFILE, ""), errno.EMFILE),
    (OSError(errno.EIO, ""), errno.EIO),
    (TimeoutError(errno.ETIMEDOUT, ""), errno.ETIMEDOUT),
    (OSError(errno.ENOSYS, ""), errno.EIO),
    (OSError(errno.ENOTCONN, ""), errno.EIO),
    (OSError(errno.EAGAIN, ""), errno.EIO),
    (OSError("no number"), errno.EIO),
    (KeyError("x"), None),
    (RecursionError(), None),
    (SystemExit(), None),
]


@pytest.mark.parametrize(("error", "expected"), TABLE, ids=lambda value: repr(value)[:40])
def test_errors_have_their_errno(error: BaseException, expected: int | None) -> None:
    assert errno_of(error) == expected


def test_no_oserror_is_passed_on_that_means_something_to_the_kernel() -> None:
    # ENOSYS switches an operation off for the whole mount.
    for number in range(1, 140):
        answer = errno_of(OSError(number, ""))
        assert answer not in (None, errno.ENOSYS)
