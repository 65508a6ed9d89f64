"""Threads for handlers, and callers that have to end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from kafkafs.fuse.pyfuse3_patches.fast_loop import StockLoop
from kafkafs.fuse.slow_work import CancelFlag, SlowWork, must_end
from kafkafs.tree.errors import Cancelled


class Loop(StockLoop):
    """Counts how often the descriptor was handed over."""

    handed_over = 0

    def hand_over(self) -> None:
        self.handed_over += 1


def run(body: Callable[[SlowWork, Loop], Awaitable[None]], read_timeout: float = 5) -> None:
    async def main() -> None:
        loop = Loop()
        slow = SlowWork(workers=1, read_timeout=read_timeout)
        async with trio.open_nursery() as nursery:
            slow.start(nursery, loop)
            await body(slow, loop)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_answers_and_errors_come_back_from_the_thread() -> None:
    async def body(slow: SlowWork, loop: Loop) -> None:
        assert await slow.run(threading.get_ident) != threading.get_ident()
        assert loop.handed_over == 1
        with pytest.raises(ZeroDivisionError):
            await slow.run(lambda: 1 // 0)
        assert await slow.open(lambda flag: 7, os.getpid()) == 7
        with pytest.raises(SystemExit):
            await slow.open(lambda flag: exec("raise SystemExit"), os.getpid())

    run(body)


def test_a_read_that_takes_too_long_is_given_up() -> None:
    async def body(slow: SlowWork, loop: Loop) -> None:
        with pytest.raises(TimeoutError):
            await slow.run(time.sleep, 0.3)

    run(body, read_timeout=0.05)


def test_opens_under_way_leave_threads_for_reads() -> None:
    async def body(slow: SlowWork, loop: Loop) -> None:
        gate = threading.Event()
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(slow.open, lambda flag: gate.wait(10), os.getpid())
            await trio.sleep(0.05)
            assert await slow.run(lambda: "read") == "read"
            gate.set()

    run(body)


def test_work_is_told_to_stop_when_its_caller_must_end() -> None:
    caller = subprocess.Popen(["sleep", "60"])

    async def body(slow: SlowWork, loop: Loop) -> None:
        seen = threading.Event()

        def work(flag: CancelFlag) -> None:
            end = time.monotonic() + 10
            while not flag() and time.monotonic() < end:
                time.sleep(0.005)
            if flag():
                seen.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, end_process, caller)
            with pytest.raises(Cancelled):
                await slow.open(work, caller.pid)
        assert seen.wait(5)

    run(body)


def end_process(process: subprocess.Popen[bytes]) -> None:
    time.sleep(0.1)
    process.kill()
    process.wait()


def test_an_answer_that_comes_too_late_is_closed() -> None:
    class Late:
        closed = threading.Event()

        def close(self) -> None:
            self.closed.set()

    async def body(slow: SlowWork, loop: Loop) -> None:
        def work(flag: CancelFlag) -> Late:
            while not flag():
                time.sleep(0.005)
            return Late()

        with pytest.raises(Cancelled):
            await slow.open(work, 2**22 + 5)  # no such process
        with trio.fail_after(5):
            assert await trio.to_thread.run_sync(Late.closed.wait, 5)

    run(body)


def test_all_work_can_be_cancelled() -> None:
    async def body(slow: SlowWork, loop: Loop) -> None:
        def work(flag: CancelFlag) -> bool:
            while not flag():
                time.sleep(0.005)
            return True

        async with trio.open_nursery() as nursery:
            nursery.start_soon(slow.open, work, os.getpid())
            await trio.sleep(0.05)
            assert slow.busy == 1
            slow.cancel_all()

    run(body)


# -- who has to end


def test_a_process_that_goes_on_must_not_end_and_one_that_is_gone_must() -> None:
    assert not must_end(os.getpid())
    assert not must_end(0)
    assert must_end(2**22 + 5)


def test_a_process_with_a_pending_signal_it_has_blocked_goes_on() -> None:
    # In a process of its own: here the signal would find a thread that has it not blocked.
    code = (
        "import os, signal, sys\n"
        "from kafkafs.fuse.slow_work import must_end\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "assert signal.sigpending() == {signal.SIGTERM}\n"
        "os._exit(10 + must_end(os.getpid()))"
    )
    folder = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, check=False).returncode == 10


@pytest.mark.parametrize(
    ("pending", "blocked", "ignored", "expected"),
    [
        (0x0, 0x0, 0x0, False),
        (0x100, 0x0, 0x0, True),  # SIGKILL
        (0x2, 0x0, 0x0, True),  # SIGINT
        (0x2, 0x2, 0x0, False),
        (0x2, 0x0, 0x2, False),
        (0x10000, 0x0, 0x0, False),  # SIGCHLD
        (0x8000000, 0x0, 0x0, False),  # SIGWINCH
        (0x4000, 0x0, 0x0, True),  # SIGTERM
    ],
)
def test_only_signals_that_want_the_call_back_end_it(
    monkeypatch: pytest.MonkeyPatch, pending: int, blocked: int, ignored: int, expected: bool
) -> None:
    import builtins
    import io

    status = (
        f"Name:\tcat\nSigPnd:\t{pending:016x}\nShdPnd:\t{0:016x}\n"
        f"SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\n"
    )
    monkeypatch.setattr(builtins, "open", lambda *args: io.BytesIO(status.encode()))
    assert must_end(42) is expected
