"""Limit the memory that threads use for large batches at the same time.

A single large batch may take all the memory that the process has for batches, so several threads
must not decode one each. A thread waits at the gate until there is room. A thread that holds room
already passes at once. All waits are bounded, because a thread with room may itself wait for a thread
at the gate.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from engine.budgets import MiB

LARGE = 4 * MiB
"""Largest batch or record, in bytes, that passes without a gate."""
PATIENCE = 10.0


class MemoryGate:
    """Lets threads use `most` bytes together; a single thread may use more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[int, list[int]] = {}
        self._changed = threading.Condition()

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
        with self._changed:
            self._changed.wait_for(lambda: own in self._held or self._fits(size), PATIENCE)
            self._held.setdefault(own, []).append(size)
        return own

    def leave(self, own: int, size: int) -> None:
        """Release the room; may be called by another thread."""
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
"""Gate for the bytes of batches as on disk."""
DECODED = 64 * MiB
"""Bytes that count for one decoded large batch."""
batches_decoded = MemoryGate(DECODED)
"""Gate for decoded batches; a thread passes it after `batches_read`."""
