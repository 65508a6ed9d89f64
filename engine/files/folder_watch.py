"""Detect by one stat whether a folder may have changed since it was last listed."""

from __future__ import annotations

from engine.clock import SYSTEM_CLOCK
from engine.files.source_files import SourceRoot

_CONFIRM_AFTER = 0.05
_TICK_MS = 1000
"""A folder that was not changed for so long has a new mtime after its next change, by any clock tick."""
_LONG_AGO_MS = 24 * 3600 * 1000
"""A folder with an older mtime is not being changed, even by a file server with a wrong clock."""


class FolderWatch:
    """One folder to list again when it may have changed; used by one thread at a time.

    The mtime of a folder moves in ticks of some milliseconds. After a change the folder is therefore listed
    a second time, to see changes of the same tick.

    Attributes:
        replaced: whether the last `must_list` found another folder of the same name.
    """

    __slots__ = ("_confirm_at", "_folder", "_root", "_stamp", "replaced")

    def __init__(self, root: SourceRoot, folder: str) -> None:
        self._root = root
        self._folder = folder
        self._stamp: tuple[int, int, int] | None = None
        self._confirm_at: float | None = None
        self.replaced = False

    def must_list(self, now: float) -> bool:
        """Return whether to list the folder. `now` is a monotonic time in seconds.

        Raises FileNotFoundError, other OSError.
        """
        status = self._root.stat(self._folder)
        stamp = status.st_dev, status.st_ino, status.st_mtime_ns
        known, self._stamp = self._stamp, stamp
        self.replaced = known is not None and known[:2] != stamp[:2]
        if stamp != known:
            is_recent = SYSTEM_CLOCK.now_ms() - status.st_mtime_ns // 1_000_000 < _LONG_AGO_MS
            self._confirm_at = now + _CONFIRM_AFTER if is_recent else None
            return True
        if self._confirm_at is not None and now >= self._confirm_at:
            self._confirm_at = None
            return True
        return False

    def is_settled(self) -> bool:
        """Return whether the folder has not changed since the last `must_list`, nor shortly before it.

        Raises FileNotFoundError, other OSError.
        """
        status = self._root.stat(self._folder)
        age = SYSTEM_CLOCK.now_ms() - status.st_mtime_ns // 1_000_000
        return (status.st_dev, status.st_ino, status.st_mtime_ns) == self._stamp and age > _TICK_MS
