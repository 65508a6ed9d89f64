"""Temporary folders of unpacked sources: removed at the end of the last process that uses them.

A folder has a lock file. Forked processes share the lock; where all of them are gone, whoever unpacks next removes the
folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress

_PREFIX = "kafkafs-unpacked-"
_LOCK = ".in-use"
_LOCKS: dict[str, int] = {}


def new_folder() -> str:
    """Return a new folder. Raises OSError."""
    for abandoned in _folders():
        _remove_unused(abandoned)
    target = tempfile.mkdtemp(prefix=_PREFIX)
    lock = os.open(os.path.join(target, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not _LOCKS:
        atexit.register(let_go)
    _LOCKS[target] = lock
    return target


def is_used(target: str) -> bool:
    """Return whether a process still uses a folder; remove one that is no longer used."""
    _remove_unused(target)
    return os.path.exists(target)


def locks() -> tuple[int, ...]:
    """Return the descriptors that a daemon keeps open, so that its folders stay."""
    return tuple(_LOCKS.values())


def let_go(only: str | None = None) -> None:
    """Remove the folders, or one, but not those that a process forked from this one still uses."""
    for target in list(_LOCKS) if only is None else [only]:
        lock = _LOCKS.pop(target)
        with suppress(OSError):
            os.close(lock)
        _remove_unused(target)


def remove(target: str) -> None:
    """Remove a folder."""
    shutil.rmtree(target, ignore_errors=True)


def _remove_unused(target: str) -> None:
    with suppress(OSError):
        lock = os.open(os.path.join(target, _LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(target)
        finally:
            os.close(lock)


def _folders() -> Iterator[str]:
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            is_own = entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)
            if is_own and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                yield entry.path
