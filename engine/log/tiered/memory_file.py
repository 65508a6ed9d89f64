"""Files of a source whose bytes are made: private, read-only files in memory."""

from __future__ import annotations

import fcntl
import os

from engine.files.source_files import SourceFile


class MemoryFile(SourceFile):
    """A private file in memory, with the status of the file that it stands for."""

    __slots__ = ()

    def stat(self) -> os.stat_result:
        """Return the status of the file that it stands for."""
        return self.opened_as


def memory_file(data: bytes, path: str, status: os.stat_result) -> MemoryFile:
    """Return a file with these bytes, which nobody can change.

    Args:
        data: its bytes.
        path: for messages.
        status: status of the file that it stands for, with the size of the data.
    """
    fd = os.memfd_create(os.path.basename(path)[:200], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(fd, left) :]
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK)
        return MemoryFile(fd, path, status)
    except BaseException:
        os.close(fd)
        raise
