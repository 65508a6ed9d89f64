from __future__ import annotations

import mmap
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from time import monotonic, sleep

import pytest

from engine.budgets import MiB
from engine.errors import LimitExceededError
from engine.memory_gate import batches_read
from engine.processes import block_size, flat_map, in_any_order, in_turns


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


@pytest.mark.parametrize("sent", [False, True])
def test_a_process_finishes_an_item_while_another_process_is_read(sent: bool) -> None:
    read, write = os.pipe()

    def work(number: int) -> Iterator[bytes]:
        for _ in range(5):
            yield bytes([number]) * MiB
        os.write(write, bytes([number]))

    try:
        if sent:
            items = in_turns(work, range(2), 2)
            first = next(items)
        else:
            first = flat_map(work, range(2), 2)
        next(first)
        ended, _, _ = select.select([read], [], [], 60)
        assert ended, "the second process waits to be read"
        rest = [*first, *next(items)] if sent else [*first]
        assert [part[0] for part in rest] == [0] * 4 + [1] * 5
    finally:
        os.close(read)
        os.close(write)


def test_items_in_any_order_come_once_each_with_their_notes() -> None:
    notes: list[int] = []

    def work(number: int, note: Callable[[int], None]) -> int:
        note(number)
        return number * number

    weights = [number % 7 for number in range(100)]
    found = dict(in_any_order(work, range(100), 3, weights, notes.append))
    assert found == {number: number * number for number in range(100)}
    assert sorted(notes) == list(range(100))


def test_no_item_is_taken_twice_or_never_however_many_processes_ask_at_once() -> None:
    for _ in range(20):
        found = in_any_order(lambda number, _: number, range(400), 8, [1] * 400, print)
        assert sorted(place for place, _ in found) == list(range(400))


def test_the_heaviest_item_is_taken_first() -> None:
    taken = in_any_order(lambda number, _: number, range(4), 1, [1, 5, 2, 5], print)
    assert [place for place, _ in taken] == [1, 3, 2, 0]


def test_an_error_of_an_item_in_any_order_is_raised_with_its_facts() -> None:
    def work(_: int, __: object) -> None:
        raise LimitExceededError("too many", limit="records_per_batch", path="00.log", position=7)

    with pytest.raises(LimitExceededError, match=r"too many in 00\.log at byte 7") as caught:
        list(in_any_order(work, range(4), 2, [1] * 4, print))
    assert caught.value.limit == "records_per_batch"
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_process_killed_in_any_order_is_an_error() -> None:
    def work(number: int, _: object) -> None:
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ChildProcessError, match="ended before its work was done"):
        list(in_any_order(work, range(4), 2, [1] * 4, print))


@pytest.mark.parametrize("jobs", [2, 6])
def test_processes_share_the_room_of_one_for_large_batches(jobs: int) -> None:
    used = mmap.mmap(-1, jobs)  # a byte for each item

    def work(number: int, _: object) -> int:
        with batches_read.room(40 * MiB):
            used[number] = 1
            together = sum(used[:])
            sleep(0.01)
            used[number] = 0
        return together

    together = [most for _, most in in_any_order(work, range(jobs), jobs, [1] * jobs, print)]
    assert together == [1] * jobs


def test_small_enough_batches_are_in_memory_together() -> None:
    entered = mmap.mmap(-1, 3)

    def work(number: int, _: object) -> int:
        with batches_read.room(20 * MiB):
            entered[number] = 1
            end = monotonic() + 5
            while sum(entered[:]) < 3 and monotonic() < end:
                sleep(0.001)
            return sum(entered[:])

    found = [most for _, most in in_any_order(work, range(3), 3, [1] * 3, print)]
    assert found == [3, 3, 3]


def test_items_sent_in_turn_give_their_results_in_order() -> None:
    for jobs in (1, 3, 7):
        made = [list(results) for results in in_turns(squares, iter(range(100)), jobs)]
        assert made == [list(squares(number)) for number in range(100)]
    assert list(in_turns(squares, iter(()), 3)) == []


def test_few_items_are_sent_before_their_results_are_taken() -> None:
    sent = 0

    def items() -> Iterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield bytes(200_000)  # more than a pipe takes

    with closing(in_turns(lambda data: [len(data)] * 1000, items(), 3)) as made:
        for place in range(20):
            assert list(next(made)) == [200_000] * 1000
            assert sent <= place + 1 + 3 * 2
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_an_error_of_items_sent_in_turn_is_raised_after_those_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise KeyError("five")

    made = in_turns(squares, items(), 2)
    assert [list(next(made)) for _ in range(5)] == [[n, n * n] for n in range(5)]
    with pytest.raises(KeyError, match="five"):
        next(made)


def test_an_error_of_the_work_on_a_sent_item_is_raised_in_its_place() -> None:
    def work(number: int) -> Iterator[int]:
        yield number
        if number == 3:
            raise KeyError("three")

    with closing(in_turns(work, range(10), 2)) as made:
        assert [list(next(made)) for _ in range(3)] == [[0], [1], [2]]
        last = next(made)
        assert next(last) == 3
        with pytest.raises(KeyError, match="three"):
            next(last)


def test_a_process_killed_before_it_is_sent_an_item_is_an_error() -> None:
    def work(number: int) -> list[int]:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return [number]

    with pytest.raises(ChildProcessError):
        list(map(list, in_turns(work, range(100), 2)))
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
