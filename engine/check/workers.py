"""Work spread over threads and taken back in order, with a bound on what is under way.

The kernel does not hold the interpreter's lock while it decodes, so threads use all cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 3
"""Pieces of work under way for each thread."""


class Workers:
    """Threads that check runs of batches; with one job everything is done by who asks.

    Args:
        jobs: how many threads.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = max(jobs, 1)
        self._pool = ThreadPoolExecutor(self.jobs, "check") if self.jobs > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result]]:
        """Each item with what `work` makes of it, in the items' order; items are taken as they are needed."""
        pool = self._pool
        if pool is None:
            for item in items:
                yield item, work(item)
            return
        under_way: deque[tuple[Item, Future[Result]]] = deque()
        try:
            for item in items:
                under_way.append((item, pool.submit(work, item)))
                if len(under_way) >= self.jobs * _AHEAD:
                    first, future = under_way.popleft()
                    yield first, future.result()
            while under_way:
                first, future = under_way.popleft()
                yield first, future.result()
        finally:
            for _, future in under_way:
                future.cancel()
