"""Log the problems of a daemon's source: each place once, when a look-up has found it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

import trio

from engine.errors import KafkaStorageError
from engine.log.segment.problems import ProblemEntry, place_of

SECONDS = 1.0
"""Time between two looks at the problems."""
MOST_TOLD = 100_000

_Place: TypeAlias = tuple[object, ...]


class ProblemLog:
    """The problems that were logged.

    Args:
        logger: receives a warning for each.
        problems: returns all problems of the source; called in a thread.
    """

    def __init__(
        self, logger: logging.Logger, problems: Callable[[], Sequence[ProblemEntry]]
    ) -> None:
        self._logger = logger
        self._problems = problems
        self._told: set[_Place] = set()

    async def follow(self) -> None:
        """Log what is found, until this task is cancelled."""
        while True:
            await trio.to_thread.run_sync(self.look, abandon_on_cancel=True)
            await trio.sleep(SECONDS)

    def look(self) -> None:
        """Log the problems that were found since the last look."""
        try:
            problems = self._problems()
        except (OSError, KafkaStorageError) as error:
            self._logger.warning("the source: %s", error)
            return
        for problem in problems:
            self._tell(problem)

    def _tell(self, problem: ProblemEntry) -> None:
        partition, kind, file = (problem.get(name) for name in ("partition", "kind", "file"))
        place = (partition, *place_of(problem))
        if place in self._told or len(self._told) > MOST_TOLD:
            return
        self._told.add(place)
        if len(self._told) > MOST_TOLD:
            self._logger.warning("%d problems were logged: no more are", MOST_TOLD)
            return
        where = file or partition or ""
        if partition and where != partition and not str(where).startswith(f"{partition}/"):
            where = f"{partition}/{where}"
        if problem.get("position") is not None:
            where = f"{where} at byte {problem['position']}"
        self._logger.warning("%s: %s: %s", kind, where, problem.get("reason"))
