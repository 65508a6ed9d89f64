"""Work in the background: generators that yield how far they are, and can be stopped between two steps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from engine.errors import KafkaStorageError
from kafkafs.tree.errors import KafkaFsError

Result = TypeVar("Result")
Steps: TypeAlias = Generator[str, None, Result]
READ_ERRORS = (OSError, KafkaStorageError, KafkaFsError)


class Job:
    """Work that was started.

    Attributes:
        note: how far it is.
        is_over: whether it has ended, was stopped or failed.
        error: what went wrong; None for nothing.
    """

    def __init__(self) -> None:
        self.note = ""
        self.is_over = False
        self.error: Exception | None = None
        self._is_stopped = False

    def stop(self) -> None:
        """End the work before its next step; its result is dropped."""
        self._is_stopped = True
        self.is_over = True

    def run(self, steps: Steps[Result]) -> list[Result]:
        """Do the work; return its result in a list, which is empty if it was stopped or failed."""
        try:
            while not self._is_stopped:
                self.note = next(steps)
        except StopIteration as end:
            return [] if self._is_stopped else [end.value]
        except READ_ERRORS as error:
            self.error = error
        finally:
            steps.close()
        return []


class Runner(Protocol):
    """Does work."""

    def start(self, steps: Steps[Result], then: Callable[[Result], None]) -> Job:
        """Start work; `then` gets the result, in the thread of the screen."""


class AtOnce:
    """Does work when it is started: for tests, and for one screen without a terminal."""

    def start(self, steps: Steps[Result], then: Callable[[Result], None]) -> Job:
        """Do the work now."""
        job = Job()
        results = job.run(steps)
        job.is_over = True
        for result in results:
            then(result)
        return job


class InThreads:
    """Does work in a thread of its own.

    Args:
        wake: called in that thread when it ends.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._done: deque[tuple[Job, Callable[[], None]]] = deque()

    def start(self, steps: Steps[Result], then: Callable[[Result], None]) -> Job:
        """Start a thread."""
        job = Job()

        def work() -> None:
            results = job.run(steps)
            if results:
                self._done.append((job, partial(then, results[0])))
            else:
                job.is_over = True
            self._wake()

        threading.Thread(target=work, name="browse", daemon=True).start()
        return job

    def deliver(self) -> None:
        """Hand over the results that came since the last call."""
        while self._done:
            job, then = self._done.popleft()
            if not job.is_over:
                job.is_over = True
                then()
