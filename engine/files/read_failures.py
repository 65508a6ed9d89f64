"""Words for read errors: the reason, and advice for the operator."""

from __future__ import annotations

import errno
import os

from engine.errors import (
    STORE_FAILURES,
    SourceGoneError,
    SourceRefusedError,
    UnreadableError,
)
from engine.files.unreadable import MEDIA_ERRORS

REFUSED = "refused"
"""Name of an error for an entry that we refuse to read: a link, a device, another file system."""
IMAGE_FIRST = (
    "The disk fails: image it first (ddrescue -d DEVICE IMAGE MAPFILE), then work on the image;"
    " each further read may cost more of it."
)
"""Advice before all other advice when a device cannot read some bytes."""
_RUN_AS_OWNER = "run as the owner of the files, or as root"
_OF_DEVICES = frozenset(map(errno.errorcode.get, MEDIA_ERRORS - STORE_FAILURES.keys()))
_WAYS_OUT = {
    "EACCES": _RUN_AS_OWNER,
    "EPERM": _RUN_AS_OWNER,
    "ENOENT": "something deletes or moves files there; run the command again",
    "ESTALE": "the file system went away; mount it again",
    "EMFILE": "raise the limit of open files: ulimit -n",
    "ENFILE": "raise the limit of open files: sysctl fs.file-max",
    "EREMCHG": "run the command again",
    "ENOMEDIUM": "run the command again",
    "EKEYREJECTED": "the credentials need the right to get objects",
    "ENONET": "restore it first",
    "EUSERS": "run the command again later",
    "ENOLINK": "check the network and the endpoint, then run the command again",
    "ECOMM": "run the command again later",
    "ENOSR": "TMPDIR names another folder",
    REFUSED: "use its target as the source",
}


def reason_of(error: Exception) -> str:
    """Return why something could not be read, without its path."""
    if isinstance(error, SourceRefusedError | SourceGoneError | UnreadableError):
        return error.reason
    if isinstance(error, OSError) and error.errno is not None:
        return STORE_FAILURES.get(error.errno) or os.strerror(error.errno)
    return str(error)


def failure_text(error: Exception) -> str:
    """Return why something could not be read, with its path and advice if known."""
    text = str(error)
    if isinstance(error, OSError) and not isinstance(error, SourceRefusedError) and error.errno:
        is_named = isinstance(error.filename, str)  # not the number of a descriptor
        text = f"{error.filename}: {reason_of(error)}" if is_named else reason_of(error)
    hint = way_out(error_name(error))
    return f"{text} ({hint})" if hint else text


def error_name(error: Exception) -> str:
    """Return the errno's name, such as EACCES; REFUSED for entries that we refuse to read; "" for other errors."""
    if isinstance(error, SourceRefusedError):
        return REFUSED
    return errno_name(error.errno) if isinstance(error, OSError) else ""


def errno_name(number: int | None) -> str:
    """Return the name of an errno; "" for an unknown one."""
    return errno.errorcode.get(number or 0, "")


def is_of_device(name: str) -> bool:
    """Return whether this errno means that the device fails."""
    return name in _OF_DEVICES


def way_out(name: str) -> str:
    """Return advice for an errno; "" without any."""
    return _WAYS_OUT.get(name, "")
