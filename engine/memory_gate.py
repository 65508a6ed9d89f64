"""A bound on the memory that threads use for large batches at the same time.

A large batch takes as much memory as a process may have for it; several threads that decode one each would take
a multiple. So a thread waits at the gate until there is room. A thread that is in the gate already is let
through, and nobody waits for ever: what holds up another thread may itself wait for that one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.budgets import MiB

LARGE = 4 * MiB
"""Batches and records up to this size do not go through a gate."""
PATIENCE = 10.0


class MemoryGate:
    """Lets threads use `most` bytes together; one alone may use more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[int, list[int]] = {}
        self._changed = threading.Condition()

    @contextmanager
    def room(self, size: int) -> Iterator[None]:
        """Memory of that size is used within; a small size costs nothing."""
        if size <= LARGE:
            yield
            return
        own = self.enter(size)
        try:
            yield
        finally:
            self.leave(own, size)

    def enter(self, size: int) -> int:
        """Wait for room, at most PATIENCE seconds; what to give back to `leave`."""
        own = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: own in self._held or self._fits(size), PATIENCE)
            self._held.setdefault(own, []).append(size)
        return own

    def leave(self, own: int, size: int) -> None:
        """The memory is free again; may be called by another thread."""
        with self._changed:
            sizes = self._held[own]
            sizes.remove(size)
            if not sizes:
                del self._held[own]
            self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        used = sum(map(sum, self._held.values()))
        return not used or used + size <= self._most


batches_read = MemoryGate(64 * MiB)
"""For batches as they lie on disk."""
DECODED = 64 * MiB
"""What counts for one large batch that is decoded."""
batches_decoded = MemoryGate(DECODED)
"""For what is made of batches; a thread goes through it after the other one."""
