"""Limit the memory that threads and processes use for large batches at the same time.

A single large batch may take all the memory that the process has for batches, so several threads
must not decode one each. A thread waits at the gate until there is room. A thread that holds room
already passes at once, and so does the one whose results the caller of several threads takes next: those
with room wait for it. All other waits are bounded, because a thread with room may itself wait for a thread
at the gate. Forked processes that work together share the room (`SharedRoom`).
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol, Self

from engine.budgets import MiB

LARGE = 4 * MiB
"""Largest batch or record, in bytes, that passes without a gate."""
PATIENCE = 10.0


class _Thread(threading.local):
    """Of each thread, whether its results are those that are taken next."""

    is_next: Callable[[], bool] = staticmethod(lambda: False)


_thread = _Thread()


@contextmanager
def passing(is_next: Callable[[], bool]) -> Iterator[None]:
    """Let this thread pass all gates at once while `is_next()`; who changes that calls `wake`."""
    _thread.is_next = is_next
    try:
        yield
    finally:
        del _thread.is_next


class _Used(Protocol):
    """The bytes in use."""

    pause: float
    """Most seconds to wait before the next attempt to take room."""

    def take(self, size: int, most: int | None) -> bool:
        """Count bytes as used, unless that makes more than `most` and others are in use; return whether."""

    def give(self, size: int) -> None:
        """Count bytes as free again."""


class _OwnUse(_Used):
    """Bytes that the threads of one process use; the caller holds a lock."""

    pause = PATIENCE

    def __init__(self) -> None:
        self._used = 0

    def take(self, size: int, most: int | None) -> bool:
        if most is not None and self._used and self._used + size > most:
            return False
        self._used += size
        return True

    def give(self, size: int) -> None:
        self._used -= size


class _SharedUse(_Used):
    """Bytes that several processes use: a number in a file, locked by byte range. A killed process keeps its part."""

    pause = 0.02
    _WIDTH = 8

    def __init__(self, fd: int, number: int) -> None:
        self._fd = fd
        self._position = number * self._WIDTH

    def take(self, size: int, most: int | None) -> bool:
        fcntl.lockf(self._fd, fcntl.LOCK_EX, self._WIDTH, self._position)
        try:
            used = int.from_bytes(os.pread(self._fd, self._WIDTH, self._position), "little")
            if most is not None and used and used + size > most:
                return False
            data = (used + size).to_bytes(self._WIDTH, "little")
            os.pwrite(self._fd, data, self._position)
            return True
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, self._WIDTH, self._position)

    def give(self, size: int) -> None:
        self.take(-size, None)


class MemoryGate:
    """Lets threads use `most` bytes together; a single thread may use more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.count_in(_OwnUse())

    def count_in(self, used: _Used) -> None:
        """Begin anew, as in a new process, with the bytes that others have in use."""
        self._used = used
        self._held: dict[int, list[int]] = {}
        self._changed = threading.Condition()  # a forked one may belong to a thread that is gone

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Wait for room for `size` bytes, released on exit; a small size costs nothing."""
        if size <= LARGE:
            yield
            return
        own = self.enter(size)
        try:
            yield
        finally:
            self.leave(own, size)

    def enter(self, size: int) -> int:
        """Wait for room, at most PATIENCE seconds; return the value to pass to `leave`."""
        own = threading.get_ident()
        end = monotonic() + PATIENCE
        with self._changed:
            while True:
                left = end - monotonic()
                is_free = own in self._held or left <= 0 or _thread.is_next()
                if self._used.take(size, None if is_free else self._most):
                    break
                self._changed.wait(min(left, self._used.pause))
            self._held.setdefault(own, []).append(size)
        return own

    def wake(self) -> None:
        """Let the threads that wait see whether they may pass."""
        with self._changed:
            self._changed.notify_all()

    def leave(self, own: int, size: int) -> None:
        """Release the room; may be called by another thread."""
        with self._changed:
            sizes = self._held[own]
            sizes.remove(size)
            if not sizes:
                del self._held[own]
            self._used.give(size)
            self._changed.notify_all()


batches_read = MemoryGate(64 * MiB)
"""Gate for the bytes of batches as on disk."""
DECODED = 64 * MiB
"""Bytes that count for one decoded large batch."""
batches_decoded = MemoryGate(DECODED)
"""Gate for decoded batches; a thread passes it after `batches_read`."""
_GATES = (batches_read, batches_decoded)


def wake() -> None:
    """Let the threads that wait at the gates see whether they may pass."""
    for gate in _GATES:
        gate.wake()


class SharedRoom:
    """The room at the gates for processes together: made before the fork, joined by each process after it."""

    def __init__(self) -> None:
        self._fd = os.memfd_create("kafkafs-room")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def join(self) -> None:
        """Count the use of this process at every gate with that of the others."""
        for number, gate in enumerate(_GATES):
            gate.count_in(_SharedUse(self._fd, number))
