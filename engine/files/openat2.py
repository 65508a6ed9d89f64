"""Call openat2(2): open a path that must not lead out of a folder."""

from __future__ import annotations

import ctypes
import errno
import os

NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x01, 0x02, 0x04, 0x08

_SYS_OPENAT2 = 437
_LOOK = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


class _OpenHow(ctypes.Structure):
    """struct open_how of linux/openat2.h."""

    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_HOW_SIZE = ctypes.sizeof(_OpenHow)
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def openat2(folder: int, path: bytes, flags: int, resolve: int) -> int:
    """Return the descriptor. Raises OSError as os.open does."""
    how = _OpenHow(flags, 0, resolve)
    while True:
        fd: int = _syscall(_SYS_OPENAT2, folder, path, ctypes.byref(how), _HOW_SIZE)
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code), os.fsdecode(path))


def openat2_works(folder: int) -> bool:
    """Return whether this kernel and sandbox allow openat2."""
    try:
        os.close(openat2(folder, b".", _LOOK, BENEATH))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            return False
        raise
    return True
