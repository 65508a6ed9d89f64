"""A limit on the bytes that all connections hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

_SMALL = 16 * 1024
"""Bytes that no task waits for: the number of connections bounds their sum."""


class ByteBudget:
    """Lets tasks hold `most` bytes together, and those of one owner half of them; others wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[str] = Counter()
        self._sum = 0
        self._turns: dict[str, trio.Lock] = {}
        self._freed = trio.Condition()

    @asynccontextmanager
    async def room(self, size: int, owner: str) -> AsyncIterator[None]:
        """Wait for room for `size` bytes, at most `most`; release it on exit.

        Args:
            size: number of bytes; a few need no room.
            owner: who holds them: one owner leaves room for others.
        """
        if size <= min(_SMALL, self._most // 2):
            yield
            return
        # One of an owner waits for room, the others for it: each release wakes few tasks.
        turn = self._turns.setdefault(owner, trio.Lock())
        async with turn, self._freed:
            while self._is_full(size, owner):
                await self._freed.wait()
            self._held[owner] += size
            self._sum += size
        try:
            yield
        finally:
            self._held[owner] -= size
            self._sum -= size
            if not self._held[owner]:
                del self._held[owner]
                if not turn.locked():
                    self._turns.pop(owner, None)
            with trio.CancelScope(shield=True):
                async with self._freed:
                    self._freed.notify_all()

    def _is_full(self, size: int, owner: str) -> bool:
        held = self._held.get(owner, 0)
        return bool(self._sum and self._sum + size > self._most) or bool(
            held and held + size > self._most // 2
        )
