"""The system's calls by the names of pjdfstest, on paths that may be no address at all."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from typing import TypeAlias

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
_AT_EACCESS = 0x200
MODE = 0o644
BAD_ADDRESSES = (ctypes.c_void_p(0), ctypes.c_void_p(0xDEADC0DE))
Path: TypeAlias = str | bytes | ctypes.c_void_p
Call: TypeAlias = Callable[[Path], str]


def answer(name: str, *arguments: object) -> str:
    """Call a function of the C library; return the name of its error, "ok" if it has none."""
    chosen = [os.fsencode(each) if isinstance(each, str) else each for each in arguments]
    ctypes.set_errno(0)
    if getattr(LIBC, name)(*chosen) >= 0:
        return "ok"
    return errno.errorcode[ctypes.get_errno()]


def opened(path: Path, flags: int) -> str:
    """Open a path and close it again; return the name of the error."""
    chosen = os.fsencode(path) if isinstance(path, str) else path
    ctypes.set_errno(0)
    fd = LIBC.open(chosen, flags, MODE)
    if fd < 0:
        return errno.errorcode[ctypes.get_errno()]
    os.close(fd)
    return "ok"


def error_of(call: Callable[[], object]) -> str:
    """Return the name of the error of a call that raises it, "ok" if it has none."""
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def utimensat(path: Path, times: object = None, flags: int = 0) -> str:
    return answer("utimensat", AT_FDCWD, path, times, flags)


CREATING: dict[str, Call] = {
    "mkdir": lambda path: answer("mkdir", path, 0o755),
    "mkfifo": lambda path: answer("mkfifo", path, MODE),
    "mknod": lambda path: answer("mknod", path, MODE, ctypes.c_ulong(0)),
    "symlink": lambda path: answer("symlink", "test", path),
    "link-to": lambda path: answer("link", "file", path),
}
"""Calls that make a name."""
REMOVING: dict[str, Call] = {
    "unlink": lambda path: answer("unlink", path),
    "rmdir": lambda path: answer("rmdir", path),
    "rename": lambda path: answer("rename", path, "other"),
    "rename-to": lambda path: answer("rename", "file", path),
}
"""Calls that take a name away. On Linux they ask for the right to write before they look the last name up."""
CHANGING: dict[str, Call] = {
    "chmod": lambda path: answer("chmod", path, MODE),
    "chown": lambda path: answer("chown", path, 1, 1),
    "lchown": lambda path: answer("lchown", path, 1, 1),
    "truncate": lambda path: answer("truncate", path, ctypes.c_long(123)),
    "utimensat": utimensat,
    "link": lambda path: answer("link", path, "other"),
    "open": lambda path: opened(path, os.O_RDWR),
}
"""Calls that change what is at a name."""
READING: dict[str, Call] = {
    "open-read": lambda path: opened(path, os.O_RDONLY),
    "open-create": lambda path: opened(path, os.O_CREAT | os.O_RDONLY),
    "stat": lambda path: answer("stat", path, ctypes.create_string_buffer(256)),
    "lstat": lambda path: answer("lstat", path, ctypes.create_string_buffer(256)),
    "readlink": lambda path: answer("readlink", path, ctypes.create_string_buffer(256), 256),
    "access": lambda path: answer("faccessat", AT_FDCWD, path, os.R_OK, _AT_EACCESS),
    "chdir": lambda path: answer("chdir", path),
    "statfs": lambda path: answer("statfs", path, ctypes.create_string_buffer(256)),
    "getxattr": lambda path: answer("getxattr", path, "user.a", None, 0),
    "listxattr": lambda path: answer("listxattr", path, None, 0),
}
NOT_OF_FOLDERS = frozenset({"open", "truncate"})
WRITING = {**CREATING, **REMOVING, **CHANGING}
CALLS = {**CREATING, **REMOVING, **CHANGING, **READING}

TWO_PATHS = frozenset({"link", "link-to", "rename", "rename-to"})
"""Calls whose other path is in the current folder."""


def refusal(name: str, what: str) -> str:
    """Return the error with which a read-only file system refuses a call that writes, or any call on a wrong path.

    Args:
        name: of CALLS.
        what: is at the path: "file", "folder", "missing" (in a folder that is there), "too long" (a name), or "in a
            file" (a path that goes on behind a file).
    """
    if what == "in a file":
        return "ENOTDIR"
    if name in REMOVING:
        return "EROFS"
    if what == "too long":
        return "ENAMETOOLONG"
    if what == "missing":
        return "EROFS" if name in CREATING or name == "open-create" else "ENOENT"
    if name in CREATING:
        return "EEXIST"
    return "EISDIR" if what == "folder" and name in NOT_OF_FOLDERS else "EROFS"
