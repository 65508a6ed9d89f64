"""Deadlines of groups and members, all kept by one task that sleeps until the next one."""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable, Hashable

import trio

logger = logging.getLogger(__name__)

_SLACK = 64


class Timers:
    """At most one deadline for each key; a new one replaces it."""

    def __init__(self) -> None:
        self._actions: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._queued: dict[Hashable, float] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._number = 0
        self._earlier = trio.Event()

    def __len__(self) -> int:
        return len(self._actions)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._actions

    def schedule(self, key: Hashable, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` in `seconds` from now, unless the key is scheduled again or cancelled before."""
        due = trio.current_time() + seconds
        self._actions[key] = due, action
        if due < self._queued.get(key, math.inf):
            self._queue(due, key)
            if self._heap[0][2] == key:
                self._earlier.set()

    def cancel(self, key: Hashable) -> None:
        """Drop the deadline of a key, if there is one."""
        self._actions.pop(key, None)

    async def run(self) -> None:
        """Call the actions when they are due, for ever."""
        while True:
            self._call_due()
            self._earlier = trio.Event()
            with trio.move_on_at(self._heap[0][0] if self._heap else math.inf):
                await self._earlier.wait()

    def _queue(self, due: float, key: Hashable) -> None:
        if len(self._heap) > 2 * len(self._actions) + _SLACK:
            self._heap = [entry for entry in self._heap if self._queued.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        self._queued[key] = due
        self._number += 1
        heapq.heappush(self._heap, (due, self._number, key))

    def _call_due(self) -> None:
        now = trio.current_time()
        while self._heap and self._heap[0][0] <= now:
            queued, _, key = heapq.heappop(self._heap)
            if self._queued.get(key) != queued:
                continue
            del self._queued[key]
            found = self._actions.get(key)
            if found is None:
                continue
            due, action = found
            if due > now:  # put off since
                self._queue(due, key)
                continue
            del self._actions[key]
            try:
                action()
            except Exception as error:
                # A bug in one group must not end the deadlines of all others.
                logger.exception("the deadline %s: %s", key, error)
