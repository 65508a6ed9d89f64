"""Open paths that must not lead out of a folder.

The system resolves a path from the folder's descriptor with openat2(2): no way out of the folder, no
symbolic link followed, no other mount entered. Where openat2 is missing (Linux < 5.6, some
sandboxes) the path is walked one component at a time with O_NOFOLLOW.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat as st
import sys
from functools import cache

from engine.files.tries import tried

_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08

_SYS_OPENAT2 = 437
_ENCODING, _ON_ERROR = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


def open_link(name: str, folder: int) -> int:
    """Return a descriptor of the file that a link of /proc leads to. Raises OSError."""
    return os.open(name, _READ, dir_fd=folder)


REFUSALS = {
    errno.ELOOP: "a symbolic link, not followed",
    errno.EXDEV: "on another file system, not entered",
    errno.ENXIO: "a socket or a device, not read",
}
"""Why a path that must not lead out of a folder is refused, by errno."""


def open_folder(path: str) -> int:
    """Return a descriptor of an operator's folder."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    return tried(lambda: os.open(path, flags), path)


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
# Without these types ctypes converts each argument at each call by trial.
_syscall.argtypes = (
    *(ctypes.c_long, ctypes.c_int, ctypes.c_char_p),
    *(ctypes.POINTER(_OpenHow), ctypes.c_size_t),
)


class Beneath:
    """Opens paths beneath a folder. Safe from several threads.

    Args:
        fd: descriptor of the folder, which stays the caller's.
        cross_device: enter other file systems mounted beneath the folder.
    """

    def __init__(self, fd: int, *, cross_device: bool) -> None:
        self._fd = fd
        self._cross_device = cross_device
        self._resolve = _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | (0 if cross_device else _NO_XDEV)
        self._device = os.fstat(fd).st_dev
        self._has_openat2 = _openat2_works(fd)

    def open(self, relative: str, flags: int) -> int:
        """Return a descriptor of a path, "" for the folder itself.

        Raises:
            OSError: as os.open; ELOOP for a symbolic link, EXDEV for another file system.
        """
        if not self._has_openat2:
            return self._walk(relative, flags)
        if flags & os.O_DIRECTORY:
            flags &= ~os.O_NOFOLLOW  # would report a link as ENOTDIR; links are not followed anyway
        path = (relative or ".").encode(_ENCODING, _ON_ERROR)
        return _openat2(self._fd, path, flags, self._resolve)

    def _walk(self, relative: str, flags: int) -> int:
        """Open like openat2, one component at a time."""
        folder = self._fd
        *above, last = relative.split("/") if relative else ["."]
        try:
            for name in above:
                below = self._step_down(folder, name)
                if folder != self._fd:
                    os.close(folder)
                folder = below
            if flags & os.O_DIRECTORY and last != ".":
                self._refuse_step(folder, last)
            return os.open(last, flags, dir_fd=folder)
        finally:
            if folder != self._fd:
                os.close(folder)

    def _step_down(self, folder: int, name: str) -> int:
        self._refuse_step(folder, name)
        return os.open(name, _STEP, dir_fd=folder)

    def _refuse_step(self, folder: int, name: str) -> None:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if st.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        # Folders only: on overlayfs a file's device differs from its folder's.
        if st.S_ISDIR(status.st_mode) and status.st_dev != self._device and not self._cross_device:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)


@cache
def _how(flags: int, resolve: int) -> _OpenHow:
    return _OpenHow(flags, 0, resolve)


def _openat2(folder: int, path: bytes, flags: int, resolve: int) -> int:
    how = _how(flags, resolve)
    while True:
        fd: int = _syscall(_SYS_OPENAT2, folder, path, how, _HOW_SIZE)
        if fd >= 0:
            return fd
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code), os.fsdecode(path))


def _openat2_works(folder: int) -> bool:
    """Return whether this kernel and sandbox allow openat2."""
    try:
        os.close(_openat2(folder, b".", _STEP, _BENEATH))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM, errno.EINVAL):
            return False
        raise
    return True
