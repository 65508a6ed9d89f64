"""Work that takes longer than the request loop may block: in few threads, and interruptible.

A process with a pending request is in state D, where even SIGKILL waits for the answer, and libfuse does not pass
on the kernel's interrupts. So during the work the caller's pending signals in /proc are polled. On one that would
end the call, the work is cancelled and the caller gets EINTR at once.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import trio

from kafkafs.fuse.pyfuse3_patches.fast_loop import RequestLoop, StockLoop
from kafkafs.tree.errors import Cancelled

Answer = TypeVar("Answer")

LOOK_SECONDS = 0.05
"""Interval of polling the caller's pending signals."""
_ENDING = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGKILL,
    signal.SIGALRM,
    signal.SIGTERM,
)
_ENDING_MASK = sum(1 << (number - 1) for number in _ENDING)
"""Signals that interrupt a caller's system call; a window resize or a child's end does not."""


class CancelFlag:
    """Flag that is set once on trio's thread and polled by worker threads."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        """Set the flag: no caller waits for the work any more."""
        self.is_set = True

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.is_set


class _Job:
    """A running piece of work. `answer` or `error` is set when `done`; the job may be `abandoned` by then."""

    __slots__ = ("abandoned", "answer", "done", "error")

    def __init__(self) -> None:
        self.abandoned = False
        self.done = trio.Event()
        self.answer: Any = None
        self.error: BaseException | None = None


class SlowWork:
    """Runs functions in worker threads for handlers, with separate queues for opens and reads.

    An open may decode gigabytes; even with many of them running, a read gets a thread.
    """

    def __init__(self, *, workers: int, read_timeout: float) -> None:
        """Create the queues; `start` comes before the first work."""
        self._nursery: trio.Nursery | None = None
        self._loop: RequestLoop = StockLoop()
        self._read_timeout = read_timeout
        self._opens = trio.CapacityLimiter(4 * workers)
        self._reads = trio.CapacityLimiter(2 * workers)
        self._flags: set[CancelFlag] = set()

    def start(self, nursery: trio.Nursery, loop: RequestLoop) -> None:
        """Run the work in a nursery; `loop` serves other requests meanwhile."""
        self._nursery = nursery
        self._loop = loop

    @property
    def busy(self) -> int:
        """Number of busy threads."""
        return self._opens.borrowed_tokens + self._reads.borrowed_tokens

    async def run(
        self,
        function: Callable[..., Answer],
        *args: object,
        seconds: float | None = None,
        pid: int = 0,
    ) -> Answer:
        """Run function(*args) in a thread.

        Raises TimeoutError after `seconds`, the read timeout by default; Cancelled as soon as process `pid` has to end.
        """
        job = self._start(self._reads, function, args)
        seconds = self._read_timeout if seconds is None else seconds
        with trio.move_on_after(seconds):
            while pid and not job.done.is_set():
                with trio.move_on_after(LOOK_SECONDS):
                    await job.done.wait()
                if not job.done.is_set() and must_end(pid):
                    job.abandoned = True
                    raise Cancelled
            await job.done.wait()
        if not job.done.is_set():
            job.abandoned = True
            raise TimeoutError(errno.ETIMEDOUT, f"no answer within {seconds:g} s")
        answer: Answer = self._result(job)
        return answer

    async def wait(self, ask: Callable[[Callable[[], object]], bool]) -> bool:
        """Wait until another thread calls the function that is passed to `ask`. Return False if `ask` does, at once.

        Raises TimeoutError after the read timeout.
        """
        done = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def wake() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(done.set)

        if not ask(wake):
            return False
        self._loop.hand_over()
        with trio.move_on_after(self._read_timeout):
            await done.wait()
        if not done.is_set():
            raise TimeoutError(errno.ETIMEDOUT, f"no answer within {self._read_timeout:g} s")
        return True

    async def open(self, function: Callable[[CancelFlag], Answer], pid: int) -> Answer:
        """Run function(cancel flag) in a thread. Raises Cancelled as soon as process `pid` has to end.

        An answer after that is closed if it has a `close`.
        """
        flag = CancelFlag()
        self._flags.add(flag)

        def work() -> Answer:
            if flag():
                raise Cancelled
            return function(flag)

        job = self._start(self._opens, work, ())
        try:
            while True:
                with trio.move_on_after(LOOK_SECONDS):
                    await job.done.wait()
                if job.done.is_set():
                    answer: Answer = self._result(job)
                    return answer
                if must_end(pid):
                    raise Cancelled
        finally:
            if not job.done.is_set():
                flag.set()
                job.abandoned = True
            self._flags.discard(flag)

    def cancel_all(self) -> None:
        """Cancel all work, because the daemon ends."""
        for flag in self._flags:
            flag.set()

    def _start(
        self, limiter: trio.CapacityLimiter, function: Callable[..., Any], args: tuple[object, ...]
    ) -> _Job:
        assert self._nursery is not None, "start() comes before the first work"
        self._loop.hand_over()
        job = _Job()
        self._nursery.start_soon(self._work, job, limiter, function, args)
        return job

    async def _work(
        self,
        job: _Job,
        limiter: trio.CapacityLimiter,
        function: Callable[..., Any],
        args: tuple[object, ...],
    ) -> None:
        try:
            job.answer = await trio.to_thread.run_sync(
                function, *args, limiter=limiter, abandon_on_cancel=True
            )
        except trio.Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001  the waiting handler raises it
            job.error = error
        finally:
            job.done.set()
        if job.abandoned:
            close_quietly(job.answer)

    @staticmethod
    def _result(job: _Job) -> Any:  # noqa: ANN401
        if job.error is not None:
            raise job.error
        return job.answer


def close_quietly(answer: object) -> None:
    """Close an unused answer."""
    close = getattr(answer, "close", None)
    if close is not None:
        close()


def must_end(pid: int) -> bool:
    """Return whether the process or thread is gone, or has a pending signal that ends its system call.

    False for pid 0, which the kernel reports for callers in another process namespace.
    """
    if pid <= 0:
        return False
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            status = file.read()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    masks = dict.fromkeys((b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn"), 0)
    for line in status.splitlines():
        name, _, value = line.partition(b":")
        if name in masks:
            masks[name] = int(value, 16)
    pending = masks[b"SigPnd"] | masks[b"ShdPnd"]
    return bool(pending & ~masks[b"SigBlk"] & ~masks[b"SigIgn"] & _ENDING_MASK)
