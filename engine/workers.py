"""Parallel work in threads, with results in order and a bound on the work under way.

The kernel releases the GIL while it decodes, so threads use all cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from queue import SimpleQueue
from threading import Semaphore
from typing import Generic, NamedTuple, Self, TypeVar

from engine.memory_gate import passing, wake

Item = TypeVar("Item")
Result = TypeVar("Result")
Promise = TypeVar("Promise")

_AHEAD = 2
"""Number of items under way, besides one per thread."""
_MOST_AHEAD = 32
_WAITING = 4
"""Results of one item that may wait to be taken."""


class Workers:
    """Threads that work on items such as runs of batches; with one job the calling thread does all work.

    Args:
        jobs: number of threads.
        name: of the threads.
    """

    def __init__(self, jobs: int, name: str = "check") -> None:
        self.jobs = max(jobs, 1)
        self._name = name
        self._ahead = min(self.jobs + _AHEAD, _MOST_AHEAD)
        self._pool = ThreadPoolExecutor(self.jobs, name) if self.jobs > 1 else None

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

        def submit(item: Item) -> tuple[Item, Future[Result]]:
            return item, pool.submit(work, item)

        with closing(_pipelined(items, submit, self._ahead, self._name)) as promises:
            for item, future in promises:
                yield item, future.result()

    def flat_map(
        self,
        work: Callable[[Item], Iterable[Result]],
        items: Iterable[Item],
        is_large: Callable[[Item], bool] = lambda _item: False,
    ) -> Iterator[Result]:
        """Yield the results of the items, in the items' order.

        A worker waits while some results of its item are not taken. No item is taken while a large one is worked on.
        """
        pool = self._pool
        if pool is None:
            for item in items:
                yield from work(item)
                del item  # free it before the next one is taken
            return
        streams: deque[_Stream[Result]] = deque()
        is_closed = False

        def submit(item: Item) -> Future[None] | None:
            streams.append(_Stream(lambda: is_closed))
            future = pool.submit(streams[-1].fill, work, item)
            return future if is_large(item) else None

        def settle(large: Future[None] | None) -> None:
            if large is not None:
                wait([large])

        promises = _pipelined(items, submit, self._ahead, self._name, settle)
        try:
            for _ in promises:
                streams[0].take_next()
                yield from streams[0]
                streams.popleft()
        finally:
            is_closed = True
            for stream in list(streams):
                stream.wake()
            promises.close()


class _End(NamedTuple):
    """The end of a stream, and why it ends early."""

    error: BaseException | None


class _Stream(Generic[Result]):
    """Results of one item, on their way from a worker to the caller.

    Args:
        is_closed: returns whether the caller takes no more.
    """

    def __init__(self, is_closed: Callable[[], bool]) -> None:
        self._is_closed = is_closed
        self._results: SimpleQueue[Result | _End] = SimpleQueue()
        self._room = Semaphore(_WAITING)
        self._is_next = False

    def take_next(self) -> None:
        """Note that the caller takes the results now: the worker waits for no memory that the others have."""
        self._is_next = True
        wake()

    def fill(self, work: Callable[[Item], Iterable[Result]], item: Item) -> None:
        """Put the results of the item."""
        error = None
        try:
            with passing(lambda: self._is_next):
                self._put(work(item))
        except BaseException as caught:  # noqa: BLE001 - raised again by the caller
            error = caught
        finally:
            self._results.put(_End(error))

    def _put(self, results: Iterable[Result]) -> None:
        for result in results:
            self._room.acquire()
            if self._is_closed():
                return
            self._results.put(result)

    def wake(self) -> None:
        """Let a worker that waits see that the caller takes no more."""
        self._room.release()

    def __iter__(self) -> Iterator[Result]:
        while not isinstance(result := self._results.get(), _End):
            self._room.release()
            yield result
        if result.error is not None:
            raise result.error


def _pipelined(
    items: Iterable[Item],
    submit: Callable[[Item], Promise],
    ahead: int,
    name: str,
    settle: Callable[[Promise], None] = lambda _promise: None,
) -> Generator[Promise, None, None]:
    """Yield what `submit` returns. Another thread takes the items, up to `ahead` before the caller.

    That thread calls `settle` with what it got before it takes the next item.
    """
    room = Semaphore(ahead)
    under_way: SimpleQueue[tuple[Promise] | None] = SimpleQueue()
    is_closed = False

    def take() -> None:
        try:
            for item in items:
                room.acquire()
                if is_closed:
                    return
                promise = submit(item)
                under_way.put((promise,))
                del item  # free it before the next one is taken
                settle(promise)
        finally:
            under_way.put(None)

    with ThreadPoolExecutor(1, f"{name}-read") as reader:
        taking = reader.submit(take)
        try:
            while first := under_way.get():
                yield first[0]
                room.release()
            taking.result()
        finally:
            is_closed = True
            room.release()
