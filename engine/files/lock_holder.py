"""Ask which process holds an fcntl lock on a file, without taking one."""

from __future__ import annotations

import fcntl
import os
import struct

FLOCK = struct.Struct("@hhqqi4x")
"""struct flock of fcntl.h: type, whence, start, length, pid."""


def lock_holder(fd: int) -> int | None:
    """Return the process that holds a POSIX lock on an open file; None without a lock, or if the system does not say.

    0 for a holder without a process id here (another pid namespace, another host). A lock held by
    this very process is not seen.
    """
    question = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, question)
    except OSError:
        return None
    kind, _, _, _, pid = FLOCK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else max(pid, 0)
