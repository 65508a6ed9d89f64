"""A request loop for pyfuse3 that serves runs of requests without trio's scheduler.

pyfuse3's own loop passes the /dev/fuse descriptor from task to task through a lock: two scheduler passes and five
system calls per request, about 30 µs, of which the handlers use one. Here one task, the leader, keeps the
descriptor as long as its handlers do not wait. A handler that is about to wait calls `hand_over`, which makes a
parked task the leader; when it is done, its own task parks.

pyfuse3 looks `_wait_fuse_readable` up in its module at each request, so it can be replaced: the function returns
True when a request can be read, and False when the task has to end. `install` checks the assumptions; if one does
not hold, it gives the reason, and pyfuse3's own loop serves.

Threads: all code runs on trio's thread. Invariant: at most one task is the leader, and only the leader polls or
reads the descriptor.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import trio

SLICE_SECONDS = 0.001
"""Longest run of requests between two passes through trio's scheduler: timers and answers of worker threads wait
that long.
"""
SPIN_SECONDS = 0.00005
"""How long the leader polls for the next request without sleeping: on another processor, the caller's next system
call comes sooner than a wake-up.
"""
NAP_SECONDS = 0.002
"""How long it then sleeps in poll(2), before it waits in trio, which is expensive to wake up."""
SPIN_CREDIT = 8
SPIN_REST = 64
"""Number of naps without spinning. Each unsuccessful spin costs credit; without credit the loop only naps, because
the spinning leader itself may keep the caller off the processor.
"""
DEVICE = "/dev/fuse"
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class RequestLoop(Protocol):
    """Protocol: the loop, as used by the handlers."""

    name: str

    def hand_over(self) -> None:
        """Called by a handler right before it waits."""

    def stop(self) -> None:
        """Make all waiting tasks end; requests being served are finished first."""


class StockLoop:
    """pyfuse3's own loop. `pyfuse3.terminate` stops it."""

    name = "stock"

    def __init__(self, reason: str = "") -> None:
        self.reason = reason

    def hand_over(self) -> None:
        """Do nothing: the descriptor was handed over before the handler started."""

    def stop(self) -> None:
        """Do nothing."""


class _PollDescriptor(ctypes.Structure):
    _fields_ = (
        ("fd", ctypes.c_int),
        ("events", ctypes.c_short),
        ("revents", ctypes.c_short),
    )


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def make_poll(fd: int) -> Callable[[], int]:
    """Return a function that returns the descriptor's current poll events, 0 for none.

    The function keeps the GIL. `select.poll` releases it for every call, and a busy worker thread would then keep it
    for a whole switch interval after each request.
    """
    libc_poll = ctypes.PyDLL(None).poll
    descriptor = _PollDescriptor(fd, select.POLLIN, 0)
    reference = ctypes.byref(descriptor)

    def poll() -> int:
        return descriptor.revents if libc_poll(reference, 1, 0) > 0 else 0

    return poll


def make_nap(fd: int, other: int, seconds: float) -> Callable[[], int]:
    """Return a function that sleeps, without the GIL, until `fd` has events, `other` is readable or time is up.

    The function returns the events of `fd`. `other` is -1 for none.
    """
    libc_ppoll = ctypes.CDLL(None).ppoll
    first = _PollDescriptor(fd, select.POLLIN, 0)
    second = _PollDescriptor(other, select.POLLIN, 0)
    descriptors = (_PollDescriptor * 2)(first, second)
    timeout = _Time(int(seconds), int(seconds % 1 * 1e9))
    reference = ctypes.byref(timeout)
    first = descriptors[0]

    def nap() -> int:
        return first.revents if libc_ppoll(descriptors, 2, reference, None) > 0 else 0

    return nap


class FastLoop:
    """The leader and its followers over one descriptor."""

    name = "fast"

    def __init__(
        self,
        fd: int,
        *,
        slice_seconds: float = SLICE_SECONDS,
        spin_seconds: float = SPIN_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._fd = fd
        self._poll = make_poll(fd)
        self._nap: Callable[[], int] | None = None
        self._credit = SPIN_CREDIT
        self._clock = clock
        self._slice = slice_seconds
        self._spin = spin_seconds
        self._slice_end = 0.0
        self._leader: trio.lowlevel.Task | None = None
        self._parked: deque[trio.lowlevel.Task] = deque()
        self._stopping = False

    async def wait_readable(self) -> bool:
        """Make the calling task the leader, and return True when it can read a request; False when the loop ends."""
        task = trio.lowlevel.current_task()
        if self._leader is not task:
            if self._leader is not None and not self._stopping:
                await self._park(task)
            if self._stopping:
                return False
            self._leader = task
        try:
            return await self._lead()
        except BaseException:
            self._leader = None
            raise

    async def _lead(self) -> bool:
        # Poll before reading any clock: under load there nearly always is a request.
        events = self._poll()
        now = self._clock()
        if now >= self._slice_end:
            await trio.lowlevel.checkpoint()
            self._slice_end = self._clock() + self._slice
            events = self._poll()
        while not self._stopping:
            if events & _GONE:
                # Unmounted or aborted. This task reads, gets ENODEV, and libfuse reports it.
                self.stop()
                return True
            if events:
                return True
            events = self._spin_for_it() or self._sleep_for_it()
            if events:
                continue
            try:
                await trio.lowlevel.wait_readable(self._fd)
            except trio.ClosedResourceError:
                break
            self._slice_end = self._clock() + self._slice
            events = self._poll()
        self.stop()
        return False

    def _spin_for_it(self) -> int:
        """Poll repeatedly, unless that was useless lately. Return the events, 0 for none."""
        if self._credit <= 0:
            self._credit += 1
            if self._credit <= 0:
                return 0
            self._credit = 1
        poll, clock = self._poll, self._clock
        end = clock() + self._spin
        while clock() < end:
            if events := poll():
                self._credit = min(self._credit + 1, SPIN_CREDIT)
                return events
        self._credit -= 1
        if self._credit <= 0:
            self._credit = -SPIN_REST
        return 0

    def _sleep_for_it(self) -> int:
        """Sleep briefly in poll(2), also waking for trio's events. Return the events, 0 for none."""
        if self._nap is None:
            self._nap = make_nap(self._fd, _trio_descriptor(), NAP_SECONDS)
        return self._nap()

    async def _park(self, task: trio.lowlevel.Task) -> None:
        """Sleep until this task becomes the leader or the loop stops."""
        self._parked.append(task)

        def abort(_raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
            self._parked.remove(task)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def hand_over(self) -> None:
        """Give the descriptor to a parked task, because the caller's handler is about to wait.

        Without a parked task, the next task that returns from a handler leads.
        """
        if self._leader is not trio.lowlevel.current_task():
            return
        self._leader = None
        if self._parked and not self._stopping:
            self._leader = self._parked.popleft()
            trio.lowlevel.reschedule(self._leader)

    def stop(self) -> None:
        """Make every waiting task end."""
        self._stopping = True
        while self._parked:
            trio.lowlevel.reschedule(self._parked.popleft())


def _trio_descriptor() -> int:
    """Return trio's epoll descriptor, readable when trio has work; -1 if trio hides it."""
    try:
        manager = trio._core._run.GLOBAL_RUN_CONTEXT.runner.io_manager
        return int(manager._epoll.fileno())
    except AttributeError:
        return -1


def device_descriptors() -> list[int]:
    """Return this process's open descriptors of /dev/fuse."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target == DEVICE:
            found.append(int(name))
    return found


def install(pyfuse3: Any, *, fd: int | None = None) -> RequestLoop:  # noqa: ANN401
    """Replace pyfuse3's wait with a FastLoop's, after `pyfuse3.init`. Return a StockLoop if that cannot work.

    Args:
        pyfuse3: the module.
        fd: the session's descriptor; None to find it among the open ones.
    """
    reason = _obstacle(pyfuse3)
    if not reason and fd is None:
        descriptors = device_descriptors()
        if len(descriptors) == 1:
            fd = descriptors[0]
        else:
            reason = f"{len(descriptors)} descriptors of {DEVICE} are open, not 1"
    if reason or fd is None:
        return StockLoop(reason)
    # On one processor a spinning leader would only keep the caller from running.
    spin = SPIN_SECONDS if len(os.sched_getaffinity(0)) > 1 else 0.0
    loop = FastLoop(fd, spin_seconds=spin)
    pyfuse3._wait_fuse_readable = loop.wait_readable
    return loop


def _obstacle(pyfuse3: Any) -> str:  # noqa: ANN401
    """Return why the fast loop cannot be used; empty if it can."""
    wait = getattr(pyfuse3, "_wait_fuse_readable", None)
    if wait is None or not inspect.iscoroutinefunction(wait):
        return "this pyfuse3 has no _wait_fuse_readable"
    try:
        if inspect.signature(wait).parameters:
            return "pyfuse3's _wait_fuse_readable takes arguments"
        return _poll_obstacle()
    except (ValueError, TypeError, OSError, AttributeError) as error:
        return f"self-test failed: {error!r}"


def _poll_obstacle() -> str:
    """Test `make_poll` on a pipe, empty and with a byte. Return an obstacle, or an empty string."""
    reader, writer = os.pipe()
    try:
        poll = make_poll(reader)
        empty = poll()
        os.write(writer, b"x")
        full = poll()
    finally:
        os.close(reader)
        os.close(writer)
    return (
        "" if (empty, full) == (0, select.POLLIN) else "poll(2) through ctypes gives wrong answers"
    )
