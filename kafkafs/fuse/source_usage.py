"""The numbers of statfs: those of the file systems that hold the source, as for a bind mount.

`df` and `umount` ask for them, and must not wait for a walk over 100,000 folders or for a disk that hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pyfuse3 import StatvfsData

from kafkafs.fuse.slow_work import SlowWork

REFRESH_SECONDS = 1.0
PATIENCE_SECONDS = 0.1
"""How long a caller waits for new numbers; without them it gets the last ones."""
LONGEST_NAME = 255
"""Bytes of a name in a folder, as statfs states it."""
_BLOCK = 4096


class Usage(NamedTuple):
    """Bytes and files of file systems; `available` is what users other than root may take of `free`."""

    size: int
    free: int
    available: int
    files: int
    free_files: int


class SourceUsage:
    """The usage of the source's file systems, measured on demand and at most once a second.

    Args:
        measure: may be slow; an OSError keeps the last numbers.
    """

    def __init__(self, measure: Callable[[], Usage], slow: SlowWork) -> None:
        self._measure = measure
        self._slow = slow
        self._known = Usage(0, 0, 0, 0, 0)
        self._known_until = 0.0
        self._is_measuring = False

    async def statvfs(self) -> StatvfsData:
        """Return the last numbers, after a short wait for new ones."""
        if not self._is_measuring and time.monotonic() >= self._known_until:
            self._is_measuring = True
            with suppress(OSError):
                await self._slow.run(self._refresh, seconds=PATIENCE_SECONDS)
        usage = self._known
        answer = StatvfsData()
        answer.f_bsize = answer.f_frsize = _BLOCK
        answer.f_blocks = usage.size // _BLOCK
        answer.f_bfree = usage.free // _BLOCK
        answer.f_bavail = usage.available // _BLOCK
        answer.f_files = usage.files
        answer.f_ffree = answer.f_favail = usage.free_files
        answer.f_namemax = LONGEST_NAME
        return answer

    def _refresh(self) -> None:
        try:
            self._known = self._measure()
        finally:
            self._known_until = time.monotonic() + REFRESH_SECONDS
            self._is_measuring = False
