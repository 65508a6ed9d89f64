"""A clock that stands still until it is told, and a scheduler that lives by it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class MockClock:
    """Shows `ms`; each look moves it on by `auto_tick`. Tasks of its schedulers run inside `sleep`."""

    def __init__(self, ms: int = 1_700_000_000_000, auto_tick: int = 0) -> None:
        self.ms = ms
        self.auto_tick = auto_tick
        self.listeners: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        now = self.ms
        if self.auto_tick:
            self.sleep(self.auto_tick)
        return now

    def sleep(self, milliseconds: int) -> None:
        self.ms += milliseconds
        for listener in self.listeners:
            listener()

    def set_ms(self, ms: int) -> None:
        self.ms = ms


class MockTask:
    def __init__(self, name: str, run: Callable[[], object], period_ms: int) -> None:
        self.name = name
        self.run = run
        self.period_ms = period_ms
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class MockScheduler:
    """Runs what is due when its clock moves, in the caller's thread, in the order of the times."""

    def __init__(self, clock: MockClock) -> None:
        self.clock = clock
        self._due: list[tuple[int, int, MockTask]] = []
        self._serial = itertools.count()
        clock.listeners.append(self.tick)

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: int = 0, period_ms: int = -1
    ) -> MockTask:
        scheduled = MockTask(name, task, period_ms)
        heapq.heappush(self._due, (self.clock.ms + delay_ms, next(self._serial), scheduled))
        self.tick()
        return scheduled

    def clear(self) -> None:
        """What is left never runs."""
        self._due.clear()

    def shutdown(self) -> None:
        """What is left runs now, once."""
        while self._due:
            task = heapq.heappop(self._due)[2]
            if not task.is_cancelled:
                task.run()

    def tick(self) -> None:
        while self._due and self._due[0][0] <= self.clock.ms:
            when, _, task = heapq.heappop(self._due)
            if task.is_cancelled:
                continue
            task.run()
            if task.period_ms >= 0:
                heapq.heappush(self._due, (when + task.period_ms, next(self._serial), task))
