"""A scheduler for a broker that is only thought of: what is due runs at once, the rest is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine.writing.scheduler import NEVER_AGAIN


class LaterTask(NamedTuple):
    """What would be done later; `cancel` is of no use for it, since nothing is."""

    name: str
    task: Callable[[], object]
    delay_ms: int

    def cancel(self) -> None:
        """Nothing: it is not going to run."""


class DueTaskScheduler:
    """See Scheduler.

    Attributes:
        later: what was not due, in the order it came.
    """

    def __init__(self) -> None:
        self.later: list[LaterTask] = []

    def schedule(
        self,
        name: str,
        task: Callable[[], object],
        delay_ms: int = 0,
        period_ms: int = NEVER_AGAIN,
    ) -> LaterTask:
        """Run a task now, or keep it."""
        made = LaterTask(name, task, delay_ms)
        if delay_ms <= 0:
            task()
        else:
            self.later.append(made)
        return made
