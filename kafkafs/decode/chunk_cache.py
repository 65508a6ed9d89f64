"""A cache for decoded text, shared by all streams and bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeAlias

Text: TypeAlias = bytes | memoryview
"""Decoded text; a view is on memory that is used again when the last view is gone."""


class _Pending:
    """A chunk that a thread is making."""

    __slots__ = ("callbacks", "done", "text")

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], object]] = []
        self.done = threading.Event()
        self.text: Text | None = None


class ChunkCache:
    """Chunks of text by key; the least recently used are dropped. Thread-safe.

    If two threads want the same missing chunk, it is made once. A chunk larger than the whole cache is returned but
    not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._chunks: OrderedDict[Hashable, Text] = OrderedDict()
        self._pending: dict[Hashable, _Pending] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._chunks)

    def peek(self, key: Hashable) -> Text | None:
        """Return the chunk if it is cached; counts as a use."""
        with self._lock:
            text = self._chunks.get(key)
            if text is not None:
                self.hits += 1
                self._chunks.move_to_end(key)
            return text

    def __contains__(self, key: Hashable) -> bool:
        """Whether the chunk is cached or being made."""
        return key in self._chunks or key in self._pending

    def notify(self, key: Hashable, callback: Callable[[], object]) -> bool:
        """Call `callback` from another thread when the chunk is made, or failed. Return False if it is not being made."""
        with self._lock:
            pending = self._pending.get(key)
            if pending is not None:
                pending.callbacks.append(callback)
        return pending is not None

    def get(self, key: Hashable, make: Callable[[], Text]) -> Text:
        """Return the chunk; call `make` if it is missing. Raises what `make` raises."""
        while True:
            with self._lock:
                text = self._chunks.get(key)
                if text is not None:
                    self.hits += 1
                    self._chunks.move_to_end(key)
                    return text
                pending = self._pending.get(key)
                if pending is None:
                    mine = self._pending[key] = _Pending()
                    self.misses += 1
                    break
            pending.done.wait()
            if pending.text is not None:
                return pending.text
            # The other thread failed: retry here, so that this thread raises its own error.
        try:
            mine.text = make()
            self._keep(key, mine.text)
        finally:
            with self._lock:
                del self._pending[key]
            mine.done.set()
            for callback in mine.callbacks:
                callback()
        return mine.text

    def _keep(self, key: Hashable, text: Text) -> None:
        size = len(text)
        if size > self.max_bytes:
            return
        with self._lock:
            old = self._chunks.pop(key, None)
            self.bytes += size - (len(old) if old is not None else 0)
            self._chunks[key] = text
            while self.bytes > self.max_bytes:
                _, dropped = self._chunks.popitem(last=False)
                self.bytes -= len(dropped)

    def drop(self, key: Hashable) -> None:
        """Remove a chunk."""
        with self._lock:
            text = self._chunks.pop(key, None)
            if text is not None:
                self.bytes -= len(text)
