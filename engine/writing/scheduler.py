"""Schedule later work: delayed deletion, periodic flush and retention; threads here, a mock clock in tests."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol, Self

logger = logging.getLogger(__name__)

NEVER_AGAIN = -1
"""Period of a task that runs once."""


class Task(Protocol):
    """A scheduled task."""

    def cancel(self) -> None:
        """Cancel this and further runs."""


class Scheduler(Protocol):
    """Protocol that runs tasks after a delay, once or periodically."""

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        delay_ms: int = 0,
        period_ms: int = NEVER_AGAIN,
    ) -> Task:
        """Run a task after `delay_ms`, then every `period_ms` if that is not negative."""


class ScheduledTask:
    """A task of a scheduler."""

    __slots__ = ("is_cancelled", "name", "period", "run")

    def __init__(self, name: str, run: Callable[[], object], period: float | None) -> None:
        self.name = name
        self.run = run
        self.period = period
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel this and further runs."""
        self.is_cancelled = True


class DeferredScheduler:
    """Scheduler that runs tasks without a delay at once, delayed ones in `run`, and periodic ones never."""

    def __init__(self) -> None:
        self._kept: list[ScheduledTask] = []

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        delay_ms: int = 0,
        period_ms: int = NEVER_AGAIN,
    ) -> ScheduledTask:
        """Run a task without a delay now; keep a delayed one for `run`."""
        made = ScheduledTask(name, task, None)
        if period_ms < 0 and delay_ms > 0:
            self._kept.append(made)
        elif period_ms < 0:
            task()
        return made

    def run(self) -> None:
        """Run the kept tasks in order, and the tasks that they schedule."""
        while self._kept:
            kept = self._kept.pop(0)
            if not kept.is_cancelled:
                kept.run()


class ThreadScheduler:
    """Daemon threads that run tasks when they are due; a context manager.

    A task that raises is logged and, if periodic, tried again at its next time.
    """

    def __init__(self, threads: int = 1) -> None:
        self._due: list[tuple[float, int, ScheduledTask]] = []
        self._serial = itertools.count()
        self._changed = threading.Condition()
        self._is_shut_down = False
        self._threads = [
            threading.Thread(target=self._work, name=f"scheduler-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        delay_ms: int = 0,
        period_ms: int = NEVER_AGAIN,
    ) -> ScheduledTask:
        """Run a task after `delay_ms`, then every `period_ms` if that is not negative.

        After `shutdown` nothing runs, and the returned task is cancelled.
        """
        scheduled = ScheduledTask(name, task, period_ms / 1000 if period_ms >= 0 else None)
        with self._changed:
            if self._is_shut_down:
                scheduled.cancel()
            else:
                self._push(time.monotonic() + delay_ms / 1000, scheduled)
        return scheduled

    def shutdown(self) -> None:
        """Drop tasks that are not due yet and wait for running ones."""
        with self._changed:
            self._is_shut_down = True
            self._due.clear()
            self._changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _push(self, when: float, task: ScheduledTask) -> None:
        heapq.heappush(self._due, (when, next(self._serial), task))
        self._changed.notify()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            try:
                task.run()
            except Exception:
                logger.exception("the task %s failed", task.name)
            if task.period is not None:
                with self._changed:
                    if not self._is_shut_down and not task.is_cancelled:
                        self._push(time.monotonic() + task.period, task)

    def _next(self) -> ScheduledTask | None:
        with self._changed:
            while not self._is_shut_down:
                if not self._due:
                    self._changed.wait()
                    continue
                wait = self._due[0][0] - time.monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
                task = heapq.heappop(self._due)[2]
                if not task.is_cancelled:
                    return task
        return None
