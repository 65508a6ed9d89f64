"""Work in forked processes, with results in order and a bound on the results that wait, or in any order.

For work that is mostly Python: threads would wait for each other. In order, each process has blocks of
neighbouring items in turn, and works ahead by some megabytes of results; when nobody takes them, it waits. Items
that are found on the way are sent to the processes in turn. In any order, a process takes the heaviest item that is
left. All processes together have the room of one at the memory gates.
"""

from __future__ import annotations

import fcntl
import gc
import itertools
import os
import pickle
import signal
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from select import poll
from threading import Condition, Thread
from time import monotonic
from typing import Any, NamedTuple, Self, TypeVar

from engine.budgets import MiB
from engine.memory_gate import SharedRoom

Item = TypeVar("Item")
Result = TypeVar("Result")
Note = TypeVar("Note")

_MOST_IN_BLOCK = 32
_BLOCKS_EACH = 8
"""Blocks of a process, where there are few items."""
_MOST_IN_MESSAGE = 64
_MOST_BYTES = 1 * MiB
"""Bytes of results that are bytes, after which a message is sent."""
_MOST_WAITING = 8 * MiB
"""Bytes of results that a process makes before anybody takes them, and one message more."""
_SENT_AHEAD = 2
"""Items that each process has: one that it works on, and the next one."""
_SECONDS = 0.2
"""Time after which the results of an unfinished item are sent."""
_LENGTH = 4
"""Bytes before each message: its length; before that, of an item's place."""


class _Child(NamedTuple):
    pid: int
    pipe: int


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

    def blocks(number: int, pipe: int) -> None:
        with _Outbox(pipe) as outbox:
            for start in range(number * block, len(items), jobs * block):
                for item in items[start : start + block]:
                    _send_results(work, item, outbox)

    with _children(blocks, jobs) as children:
        for place in range(len(items)):
            yield from _results(children[place // block % jobs])


def in_turns(
    work: Callable[[Item], Iterable[Result]], items: Iterable[Item], jobs: int
) -> Generator[Iterator[Result], None, None]:
    """Yield an iterator of the results of each item, in the items' order, from forked processes.

    The items are sent to the processes in turn, a few before their results are asked for. Items and results are
    pickled. The results of an item have to be taken before the next iterator.

    Raises:
        ChildProcessError: a process ended before its work.
    """
    every = iter(items)
    first = list(itertools.islice(every, 1))
    if not first:
        return
    pipes = [os.pipe() for _ in range(jobs)]
    reads, writes = [pipe[0] for pipe in pipes], [pipe[1] for pipe in pipes]

    def answer(number: int, results: int) -> None:
        own = reads.pop(number)
        for end in (*reads, *writes):  # else no process would see that another has gone
            os.close(end)
        received: SimpleQueue[tuple[Item] | None] = SimpleQueue()
        Thread(target=_receive_all, args=(own, received), daemon=True).start()
        with _Outbox(results) as outbox:
            while item := received.get():
                _send_results(work, item[0], outbox)

    try:
        with _children(answer, jobs) as children:
            while reads:
                os.close(reads.pop())
            numbers = _sent(itertools.chain(first, every), writes)
            for number in _ahead(numbers, jobs * _SENT_AHEAD):
                yield _results(children[number])
    finally:
        for end in (*reads, *writes):
            os.close(end)


def _sent(items: Iterable[Item], pipes: Sequence[int]) -> Iterator[int]:
    """Send each item into the next pipe, and yield the number of the pipe."""
    for place, item in enumerate(items):
        number = place % len(pipes)
        try:
            _write(pickle.dumps(item), pipes[number])
        except BrokenPipeError:
            raise _early_end() from None
        yield number


def _ahead(items: Iterable[Item], count: int) -> Iterator[Item]:
    """Yield the items, each when `count` items in all wait. An error of the items is raised after those before it."""
    waiting: deque[Item] = deque()
    failure: Exception | None = None
    try:
        for item in items:
            waiting.append(item)
            if len(waiting) == count:
                yield waiting.popleft()
    except Exception as error:  # noqa: BLE001 - raised below
        failure = error
    yield from waiting
    if failure is not None:
        raise failure


def _receive_all(pipe: int, received: SimpleQueue[tuple[Any] | None]) -> None:
    """Put what is sent into a queue, so that the sender does not wait for the work on it; None at the end."""
    try:
        while True:
            received.put((_receive(pipe),))
    except EOFError:
        received.put(None)


def block_size(items: int, jobs: int) -> int:
    """Return the number of neighbouring items that a process works on: they lie together in memory, which it copies."""
    return max(1, min(_MOST_IN_BLOCK, items // (jobs * _BLOCKS_EACH)))


def in_any_order(
    work: Callable[[Item, Callable[[Note], None]], Result],
    items: Sequence[Item],
    jobs: int,
    weights: Sequence[int],
    take_note: Callable[[Note], None],
) -> Generator[tuple[int, Result], None, None]:
    """Yield the place and the result of each item when it is done, from forked processes.

    Args:
        work: takes an item and a function that sends a note at once.
        items: what to work on.
        jobs: number of processes.
        weights: of the items: the heaviest one that is left is next.
        take_note: is called with the notes, in this process.

    Raises:
        ChildProcessError: a process ended before its work.
    """
    order = by_weight(weights)
    left = os.memfd_create("kafkafs-items")  # who reads it moves the position for all
    try:
        os.pwrite(left, b"".join(place.to_bytes(_LENGTH, "little") for place in order), 0)

        def taken(_: int, pipe: int) -> None:
            while place := _next_of(left):
                _send_result(work, items, int.from_bytes(place, "little"), pipe)

        with _children(taken, min(jobs, len(items))) as children:
            for place, is_note, result, error in _messages(children, len(items)):
                if error is not None:
                    raise error
                if is_note:
                    take_note(result)
                else:
                    yield place, result
    finally:
        os.close(left)


def _next_of(file: int) -> bytes:
    """Read on in a file that several processes read. The position of a memfd needs a lock: two reads at once may return the same."""
    fcntl.lockf(file, fcntl.LOCK_EX)
    try:
        return os.read(file, _LENGTH)
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)


def by_weight(weights: Sequence[int]) -> list[int]:
    """Return the places of the items, the heaviest first; equal ones stay in order."""
    return sorted(range(len(weights)), key=lambda place: -weights[place])


def _messages(children: Sequence[_Child], items: int) -> Iterator[tuple[int, bool, Any, Any]]:
    """Yield the messages as they come, until each item has its result."""
    waiting = poll()
    open_pipes = {child.pipe: child for child in children}
    for pipe in open_pipes:
        waiting.register(pipe)
    while items:
        if not open_pipes:
            raise _early_end()
        for pipe, _ in waiting.poll():
            try:
                message = _receive(pipe)
            except EOFError:
                waiting.unregister(pipe)
                if _has_failed(open_pipes.pop(pipe)):
                    raise _early_end() from None
                continue
            items -= not message[1]
            yield message


def _has_failed(child: _Child) -> bool:
    """Return whether a process whose pipe is at its end ended otherwise than after its last item."""
    end = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    return end is None or end.si_code != os.CLD_EXITED or end.si_status != 0


def _early_end() -> ChildProcessError:
    return ChildProcessError("a process of the command ended before its work was done")


def _results(child: _Child) -> Iterator[Any]:
    """Yield the results of the next item of a process."""
    while True:
        try:
            results, is_last, error = _receive(child.pipe)
        except EOFError:
            raise _early_end() from None
        yield from results
        if error is not None:
            raise error
        if is_last:
            return


@contextmanager
def _children(run: Callable[[int, int], None], jobs: int) -> Iterator[list[_Child]]:
    """Start processes, which call `run` with their number and their pipe; end them at the end."""
    children: list[_Child] = []
    with SharedRoom() as room:
        try:
            for number in range(jobs):
                children.append(_start(run, number, children, room))
            yield children
        finally:
            for child in children:
                os.close(child.pipe)
                with suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGTERM)
            for child in children:
                os.waitpid(child.pid, 0)


def _start(
    run: Callable[[int, int], None], number: int, others: Sequence[_Child], room: SharedRoom
) -> _Child:
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return _Child(pid, read)
    status = 1
    try:
        gc.freeze()  # a collection would write to the parent's objects, and so copy them
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's affair
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        room.join()
        for other in others:  # else no process would see that the parent has gone
            os.close(other.pipe)
        os.close(read)
        run(number, write)
        status = 0
    finally:
        os._exit(status)  # without the parent's unwritten output


class _Outbox:
    """Messages on their way into a pipe. A thread writes them, so that work goes on while another process is read."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._messages: SimpleQueue[bytes | None] = SimpleQueue()
        self._waiting = 0
        self._changed = Condition()
        self._thread = Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._messages.put(None)
        self._thread.join()

    def send(self, message: object) -> None:
        """Send a message; wait while too many bytes are on their way."""
        data = pickle.dumps(message)
        with self._changed:
            self._changed.wait_for(lambda: self._waiting < _MOST_WAITING)
            self._waiting += len(data)
        self._messages.put(data)

    def _write_all(self) -> None:
        while (data := self._messages.get()) is not None:
            _write_or_end(data, self._pipe)
            with self._changed:
                self._waiting -= len(data)
                self._changed.notify()


def _send_results(work: Callable[[Item], Iterable[Result]], item: Item, outbox: _Outbox) -> None:
    """Send the results of an item, those of a long one in parts."""
    results: list[Result] = []
    size = 0
    sent = monotonic()
    failure: Exception | None = None
    try:
        for result in work(item):
            results.append(result)
            size += len(result) if isinstance(result, bytes) else 0
            is_much = len(results) >= _MOST_IN_MESSAGE or size >= _MOST_BYTES
            if is_much or monotonic() - sent > _SECONDS:
                outbox.send((results, False, None))
                results, size, sent = [], 0, monotonic()
    except Exception as error:  # noqa: BLE001 - raised again by the parent
        failure = portable(error)
    outbox.send((results, True, failure))


def _send_result(
    work: Callable[[Item, Callable[[Note], None]], Result],
    items: Sequence[Item],
    place: int,
    pipe: int,
) -> None:
    """Send an item's notes and its result, or its error."""
    try:
        result = work(items[place], lambda note: _send((place, True, note, None), pipe))
    except Exception as error:  # noqa: BLE001 - raised again by the parent
        _send((place, False, None, portable(error)), pipe)
    else:
        _send((place, False, result, None), pipe)


def _send(message: object, pipe: int) -> None:
    """Send a message; end this process if nobody takes it."""
    _write_or_end(pickle.dumps(message), pipe)


def _write_or_end(data: bytes, pipe: int) -> None:
    """Write a message into a pipe; end this process if nobody takes it."""
    try:
        _write(data, pipe)
    except BrokenPipeError:
        os._exit(0)


def _write(data: bytes, pipe: int) -> None:
    """Write a message into a pipe. Raises BrokenPipeError if nobody takes it."""
    for part in (len(data).to_bytes(_LENGTH, "little"), data):
        view = memoryview(part)
        while view:
            view = view[os.write(pipe, view) :]


def _receive(pipe: int) -> Any:  # noqa: ANN401 - what a process has sent
    """Return the next message. Raises EOFError if the process has ended."""
    return pickle.loads(_read(pipe, int.from_bytes(_read(pipe, _LENGTH), "little")))


def _read(pipe: int, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = os.readv(pipe, [view])
        if not got:
            raise EOFError
        view = view[got:]
    return data


def portable(error: Exception) -> Exception:
    """Return the error if another process can raise it, else one with its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - errors with other arguments than their constructors
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
