"""The size of the source for statfs, measured at most every 30 seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyfuse3 import StatvfsData

from kafkafs.fuse.slow_work import SlowWork

REFRESH_SECONDS = 30.0
_BLOCK = 4096


class SourceUsage:
    """Bytes and number of files of the source.

    Args:
        measure: returns (bytes, files); may be slow.
    """

    def __init__(self, measure: Callable[[], tuple[int, int]], slow: SlowWork) -> None:
        self._measure = measure
        self._slow = slow
        self._known = (0, 0)
        self._known_until = 0.0

    async def statvfs(self) -> StatvfsData:
        """Return a file system of the source's size, with nothing free."""
        now = time.monotonic()
        if now >= self._known_until:
            self._known_until = now + REFRESH_SECONDS
            self._known = await self._slow.run(self._measure)
        size, files = self._known
        answer = StatvfsData()
        answer.f_bsize = answer.f_frsize = _BLOCK
        answer.f_blocks = -(-size // _BLOCK)
        answer.f_bfree = answer.f_bavail = 0
        answer.f_files = files
        answer.f_ffree = answer.f_favail = 0
        answer.f_namemax = 255
        return answer
