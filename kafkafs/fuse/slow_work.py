"""Work that takes longer than a request loop may stand still: in threads, few of them, and interruptible.

A process whose request we hold is in state D and even SIGKILL waits for our answer, and libfuse does not
hand the kernel's interrupt on. So while work goes on we look at the caller's pending signals in /proc; when
one that would end the call is there, the work is told to stop and the caller gets EINTR at once.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from kafkafs.fuse.pyfuse3_patches.fast_loop import RequestLoop
from kafkafs.tree.errors import Cancelled

Answer = TypeVar("Answer")

LOOK_SECONDS = 0.05
"""Between two looks at the caller's pending signals."""
_ENDING = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGKILL,
    signal.SIGALRM,
    signal.SIGTERM,
)
_ENDING_MASK = sum(1 << (number - 1) for number in _ENDING)
"""Signals for which a caller wants its system call back; a window resize or a child's end is not one."""


class CancelFlag:
    """Set once on trio's thread, asked from worker threads."""

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        """Nobody waits for the work any more."""
        self.is_set = True

    def __call__(self) -> bool:
        """Whether to stop."""
        return self.is_set


class _Job:
    """One piece of work on its way; `answer` or `error` when `done`, which may be `abandoned` by then."""

    __slots__ = ("abandoned", "answer", "done", "error")

    def __init__(self) -> None:
        self.abandoned = False
        self.done = trio.Event()
        self.answer: Any = None
        self.error: BaseException | None = None


class SlowWork:
    """Runs functions in worker threads for handlers, opens and reads in separate queues.

    An open may decode gigabytes; however many of them are under way, a read finds a thread.
    """

    def __init__(self, nursery: trio.Nursery, loop: RequestLoop, *, workers: int) -> None:
        self._nursery = nursery
        self._loop = loop
        self._opens = trio.CapacityLimiter(4 * workers)
        self._reads = trio.CapacityLimiter(2 * workers)
        self._flags: set[CancelFlag] = set()

    @property
    def busy(self) -> int:
        """How many threads are at work."""
        return self._opens.borrowed_tokens + self._reads.borrowed_tokens

    async def read(self, function: Callable[..., Answer], *args: object, seconds: float) -> Answer:
        """function(*args) in a thread; TimeoutError after `seconds`."""
        job = self._start(self._reads, function, args)
        with trio.move_on_after(seconds):
            await job.done.wait()
        if not job.done.is_set():
            job.abandoned = True
            raise TimeoutError(errno.ETIMEDOUT, f"no answer within {seconds:g} s")
        answer: Answer = self._result(job)
        return answer

    async def open(self, function: Callable[[CancelFlag], Answer], pid: int) -> Answer:
        """function(cancel flag) in a thread; Cancelled as soon as process `pid` has to end.

        An answer that comes when nobody waits any more is closed if it has a `close`.
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
        """Tell all work to stop: the daemon ends."""
        for flag in self._flags:
            flag.set()

    def _start(
        self, limiter: trio.CapacityLimiter, function: Callable[..., Any], args: tuple[object, ...]
    ) -> _Job:
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
        except BaseException as error:  # noqa: BLE001  the handler that waits raises it
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
    """Close what nobody will use."""
    close = getattr(answer, "close", None)
    if close is not None:
        close()


def must_end(pid: int) -> bool:
    """Whether the process (or thread) has gone, or a signal is pending that ends its system call.

    False for pid 0, which the kernel gives for callers in a process namespace we cannot see.
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
