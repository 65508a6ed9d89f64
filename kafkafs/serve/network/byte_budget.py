"""A limit on the bytes that all connections hold together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class ByteBudget:
    """Lets tasks hold `most` bytes together; others wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._freed = trio.Condition()

    @asynccontextmanager
    async def room(self, size: int) -> AsyncIterator[None]:
        """Wait for room for `size` bytes, at most `most`; release it on exit."""
        async with self._freed:
            while self._held and self._held + size > self._most:
                await self._freed.wait()
            self._held += size
        try:
            yield
        finally:
            self._held -= size
            with trio.CancelScope(shield=True):
                async with self._freed:
                    self._freed.notify_all()
