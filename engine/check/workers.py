"""Work spread over threads and taken back in order, with a bound on what is under way.

The kernel does not hold the interpreter's lock while it decodes, so threads use all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Semaphore
from types import TracebackType
from typing import Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2
"""Pieces of work that are ready beside one for each thread."""
_MOST_AHEAD = 16


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
        ahead = min(self.jobs + _AHEAD, _MOST_AHEAD)
        yield from _pipelined(items, lambda item: pool.submit(work, item), ahead)


def _pipelined(
    items: Iterable[Item], submit: Callable[[Item], Future[Result]], ahead: int
) -> Iterator[tuple[Item, Result]]:
    """Items with their results, the items taken in a thread of its own, so far ahead of who asks for the results."""
    room = Semaphore(ahead)
    under_way: SimpleQueue[tuple[Item, Future[Result]] | None] = SimpleQueue()
    is_closed = False

    def take() -> None:
        try:
            for item in items:
                room.acquire()
                if is_closed:
                    return
                under_way.put((item, submit(item)))
        finally:
            under_way.put(None)

    with ThreadPoolExecutor(1, "check-read") as reader:
        taking = reader.submit(take)
        try:
            while first := under_way.get():
                item, future = first
                yield item, future.result()
                room.release()
            taking.result()
        finally:
            is_closed = True
            room.release()
