"""The numbers of statfs come at once, whatever the disk does."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

import pytest
import trio

from kafkafs.fuse import source_usage
from kafkafs.fuse.pyfuse3_patches.fast_loop import StockLoop
from kafkafs.fuse.slow_work import SlowWork
from kafkafs.fuse.source_usage import SourceUsage, Usage


def sized(blocks: int) -> Usage:
    return Usage(size=4096 * blocks, free=8192, available=4096, files=9, free_files=3)


def run(body: Callable[[SlowWork], Awaitable[None]]) -> None:
    async def main() -> None:
        slow = SlowWork(workers=1, read_timeout=5)
        async with trio.open_nursery() as nursery:
            slow.start(nursery, StockLoop())
            await body(slow)
            nursery.cancel_scope.cancel()

    trio.run(main)


async def blocks(usage: SourceUsage) -> int:
    return int((await usage.statvfs()).f_blocks)


def test_numbers_are_measured_on_demand_and_kept_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(slow: SlowWork) -> None:
        sizes = iter((10, 20))
        usage = SourceUsage(lambda: sized(next(sizes)), slow)
        answer = await usage.statvfs()
        assert (answer.f_blocks, answer.f_bfree, answer.f_bavail) == (10, 2, 1)
        assert (answer.f_files, answer.f_ffree, answer.f_namemax) == (9, 3, 255)
        assert await blocks(usage) == 10
        monkeypatch.setattr(source_usage.time, "monotonic", lambda: 1e9)
        assert await blocks(usage) == 20

    run(body)


def test_a_disk_that_hangs_gets_the_last_numbers_and_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(slow: SlowWork) -> None:
        gate, asked = threading.Event(), []

        def measure() -> Usage:
            asked.append(1)
            if len(asked) > 1:
                gate.wait(10)
            return sized(10 * len(asked))

        monkeypatch.setattr(source_usage, "REFRESH_SECONDS", 0.0)
        usage = SourceUsage(measure, slow)
        assert await blocks(usage) == 10
        assert [await blocks(usage) for _ in range(5)] == [10] * 5
        assert len(asked) == 2
        gate.set()
        await trio.sleep(0.05)
        assert await blocks(usage) >= 20

    run(body)


def test_a_failing_disk_keeps_the_last_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(slow: SlowWork) -> None:
        answers = [sized(10)]
        monkeypatch.setattr(source_usage, "REFRESH_SECONDS", 0.0)

        def measure() -> Usage:
            if not answers:
                raise OSError(5, "Input/output error")
            return answers.pop()

        usage = SourceUsage(measure, slow)
        assert [await blocks(usage) for _ in range(3)] == [10] * 3

    run(body)
