"""Detect by its status whether a file or folder may have changed since it was last read."""

from __future__ import annotations

import os

from engine.clock import SYSTEM_CLOCK
from engine.files.source_files import SourceRoot

_TICK = 0.05
_COARSE_TICK = 2.05
"""Of a file system that keeps whole seconds, some only every second one."""
_SETTLED_MS = 1000
"""A folder that was not changed for so long has new times after its next change, by any tick of a kernel's clock."""
_LONG_AGO_MS = 24 * 3600 * 1000
"""What has older times is not being changed, even by a file server with a wrong clock."""


class ChangeWatch:
    """One file or folder to read again when it may have changed; used by one thread at a time.

    Its times move in ticks: some milliseconds, or seconds on some file systems. A change in the same tick as the last
    one does not show. So it counts as changed until a tick has passed since its times were first seen, and once more
    after that.

    Attributes:
        replaced: whether the last status was that of another file or folder of the same name.
    """

    __slots__ = ("_settled_at", "_stamp", "replaced")

    def __init__(self) -> None:
        self._stamp: tuple[int, ...] | None = None
        self._settled_at: float | None = None
        self.replaced = False

    def has_changed(self, status: os.stat_result, now: float) -> bool:
        """Return whether to read it again. `status` is from before that read, `now` a monotonic time in seconds."""
        changed, modified = status.st_ctime_ns, status.st_mtime_ns
        stamp = _stamp_of(status)
        known = self._stamp
        if stamp != known:
            self._stamp = stamp
            self.replaced = known is not None and known[:2] != stamp[:2]
            is_recent = SYSTEM_CLOCK.now_ms() - max(changed, modified) // 1_000_000 < _LONG_AGO_MS
            is_coarse = not changed % 1_000_000_000 and not modified % 1_000_000_000
            self._settled_at = now + (_COARSE_TICK if is_coarse else _TICK) if is_recent else None
            return True
        self.replaced = False
        if self._settled_at is None:
            return False
        if now >= self._settled_at:
            self._settled_at = None
        return True


class FolderWatch(ChangeWatch):
    """One folder to list again when it may have changed; used by one thread at a time."""

    __slots__ = ("_folder", "_root")

    def __init__(self, root: SourceRoot, folder: str) -> None:
        super().__init__()
        self._root = root
        self._folder = folder

    def must_list(self, now: float) -> bool:
        """Return whether to list the folder. `now` is a monotonic time in seconds.

        Raises FileNotFoundError, other OSError.
        """
        return self.has_changed(self._root.stat(self._folder), now)

    def is_settled(self) -> bool:
        """Return whether the folder has not changed since the last `must_list`, nor shortly before it.

        Raises FileNotFoundError, other OSError.
        """
        status = self._root.stat(self._folder)
        age = SYSTEM_CLOCK.now_ms() - status.st_mtime_ns // 1_000_000
        return _stamp_of(status) == self._stamp and age > _SETTLED_MS


def _stamp_of(status: os.stat_result) -> tuple[int, ...]:
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times
