"""Work in forked processes, with results in order and a bound on the results that wait.

For work that is mostly Python: threads would wait for each other. Each process has blocks of neighbouring items in turn, and
writes the results into a pipe; when nobody takes them, the pipe is full and the process waits.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, BinaryIO, NamedTuple, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST_IN_BLOCK = 32
_BLOCKS_EACH = 8
"""Blocks of a process, where there are few items."""
_MOST_IN_MESSAGE = 64
_SECONDS = 0.2
"""Time after which the results of an unfinished item are sent."""


class _Child(NamedTuple):
    pid: int
    results: BinaryIO


def flat_map(
    work: Callable[[Item], Iterable[Result]], items: Sequence[Item], jobs: int
) -> Iterator[Result]:
    """Yield the results of the items, in the items' order, from forked processes.

    Results are pickled. All else that `work` changes stays in the process.

    Raises:
        ChildProcessError: a process ended before its work.
    """
    if not items:
        return
    jobs = min(jobs, len(items))
    block = block_size(len(items), jobs)
    children: list[_Child] = []
    try:
        for number in range(jobs):
            children.append(_start(work, items, number, jobs, block, children))
        for place in range(len(items)):
            yield from _results(children[place // block % jobs])
    finally:
        for child in children:
            child.results.close()
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)
            os.waitpid(child.pid, 0)


def block_size(items: int, jobs: int) -> int:
    """Return the number of neighbouring items that a process works on: they lie together in memory, which it copies."""
    return max(1, min(_MOST_IN_BLOCK, items // (jobs * _BLOCKS_EACH)))


def _results(child: _Child) -> Iterator[Any]:
    """Yield the results of the next item of a process."""
    while True:
        try:
            results, is_last, error = pickle.load(child.results)
        except (EOFError, pickle.UnpicklingError):
            raise ChildProcessError(
                "a process of the command ended before its work was done"
            ) from None
        yield from results
        if error is not None:
            raise error
        if is_last:
            return


def _start(
    work: Callable[[Item], Iterable[Result]],
    items: Sequence[Item],
    number: int,
    jobs: int,
    block: int,
    others: Sequence[_Child],
) -> _Child:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return _Child(pid, os.fdopen(read, "rb"))
    try:
        gc.freeze()  # a collection would write to the parent's objects, and so copy them
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's affair
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for other in others:  # else no process would see that the parent has gone
            os.close(other.results.fileno())
        os.close(read)
        with os.fdopen(write, "wb") as pipe:
            for start in range(number * block, len(items), jobs * block):
                for item in items[start : start + block]:
                    _send(work, item, pipe)
    except BrokenPipeError:
        pass
    finally:
        os._exit(0)  # without the parent's unwritten output


def _send(work: Callable[[Item], Iterable[Result]], item: Item, pipe: BinaryIO) -> None:
    """Send the results of an item, those of a long one in parts."""
    results: list[Result] = []
    sent = monotonic()
    failure: Exception | None = None
    try:
        for result in work(item):
            results.append(result)
            if len(results) >= _MOST_IN_MESSAGE or monotonic() - sent > _SECONDS:
                pickle.dump((results, False, None), pipe)
                pipe.flush()
                results, sent = [], monotonic()
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - raised again by the parent
        failure = _portable(error)
    pickle.dump((results, True, failure), pipe)
    pipe.flush()


def _portable(error: Exception) -> Exception:
    """Return the error if another process can raise it, else one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - errors with other arguments than their constructors
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
