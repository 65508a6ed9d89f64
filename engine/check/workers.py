"""Parallel work in threads, with results in order and a bound on the work under way.

The kernel releases the GIL while it decodes, so threads use all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Semaphore
from typing import Self, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_AHEAD = 2
"""Number of finished results that may wait, besides one per thread."""
_MOST_AHEAD = 16


class Workers:
    """Threads that check runs of batches; with one job the calling thread does all work.

    Args:
        jobs: number of threads.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = max(jobs, 1)
        self._pool = ThreadPoolExecutor(self.jobs, "check") if self.jobs > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Result]]:
        """Yield each item with its result, in the items' order; items are taken on demand."""
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
    """Yield items with their results. Another thread takes the items, up to `ahead` results before the caller."""
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
