from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from engine.processes import block_size, flat_map


def squares(number: int) -> Iterator[int]:
    yield from (number, number * number)


def test_results_come_in_the_order_of_the_items() -> None:
    expected = [result for number in range(1000) for result in squares(number)]
    for jobs in (1, 3, 7):
        assert list(flat_map(squares, range(1000), jobs)) == expected


def test_no_items_need_no_process() -> None:
    assert list(flat_map(squares, [], 4)) == []


def test_the_work_is_spread_over_the_processes() -> None:
    pids = list(flat_map(lambda _: [os.getpid()], range(64), 4))
    counts = sorted(pids.count(pid) for pid in set(pids))
    assert counts == [16, 16, 16, 16]
    assert os.getpid() not in pids


@pytest.mark.parametrize("items", [1, 15, 100, 100_000])
def test_sixteen_processes_have_shares_that_differ_by_one_block(items: int) -> None:
    jobs = min(16, items)
    block = block_size(items, jobs)
    shares = [0] * jobs
    for place in range(items):
        shares[place // block % jobs] += 1
    assert max(shares) - min(shares) <= block
    assert max(shares) <= 1.15 * items / jobs or max(shares) - items / jobs < 1


def test_an_error_is_raised_after_the_results_before_it() -> None:
    def work(number: int) -> Iterator[int]:
        yield number
        if number == 5:
            raise KeyError("five")

    results = flat_map(work, range(10), 3)
    assert [next(results) for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(KeyError, match="five"):
        next(results)


def test_a_killed_process_is_an_error() -> None:
    def work(number: int) -> Iterator[int]:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        yield number

    with pytest.raises(ChildProcessError):
        list(flat_map(work, range(4), 2))


def test_a_caller_that_stops_leaves_no_process() -> None:
    def endless(_: int) -> Iterator[bytes]:
        while True:
            yield bytes(1000)

    results = flat_map(endless, range(4), 2)
    assert next(results) == bytes(1000)
    results.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_process_waits_while_nobody_takes_its_results() -> None:
    made = mmap.mmap(-1, 2)  # a byte for each process

    def work(number: int) -> Iterator[bytes]:
        for count in range(200):
            made[number] = count
            yield bytes(100_000)

    with closing(flat_map(work, range(2), 2)) as results:
        for _ in range(190):
            next(results)
        assert made[0] >= 189
        assert made[1] < 190
