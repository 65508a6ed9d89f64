"""Locks that a thread may hold while it waits for a disk that does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

PATIENCE = 1.0
"""Seconds that a reader waits for another one's look at the files, if it can go on with what is known."""

_HELD_UP: set[int] = set()
"""The ids of locks that a reader did not get."""


@contextmanager
def unless_held_up(lock: Lock, *, must_wait: bool) -> Iterator[bool]:
    """Take a lock and yield True; yield False without it if another thread holds it for longer than PATIENCE.

    Only the first such reader waits so long; the next ones do not wait until the lock was free again.
    With `must_wait` wait for as long as it takes: nothing is known yet that the caller could go on with.
    """
    patience = 0.0 if id(lock) in _HELD_UP else PATIENCE
    is_mine = lock.acquire(timeout=-1 if must_wait else patience)
    if not is_mine:
        _HELD_UP.add(id(lock))
    elif _HELD_UP:
        _HELD_UP.discard(id(lock))
    try:
        yield is_mine
    finally:
        if is_mine:
            lock.release()
