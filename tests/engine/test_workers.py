"""Work is spread over threads and comes back in order, whatever happens in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine import memory_gate
from engine.workers import Workers

several_jobs = pytest.mark.parametrize("jobs", [1, 2, 5])


@several_jobs
def test_results_come_in_the_order_of_the_items(jobs: int) -> None:
    with Workers(jobs) as workers:
        assert list(workers.map(str, range(500))) == [(n, str(n)) for n in range(500)]


@several_jobs
def test_what_the_items_raise_is_raised_behind_the_results_before_it(jobs: int) -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise OSError("no more")

    with Workers(jobs) as workers:
        results = workers.map(str, items())
        assert [next(results), next(results)] == [(1, "1"), (2, "2")]
        with pytest.raises(OSError, match="no more"):
            next(results)


@several_jobs
def test_what_work_raises_is_raised_in_its_place(jobs: int) -> None:
    with Workers(jobs) as workers:
        results = workers.map(lambda n: 10 // n, [5, 2, 0, 1])
        assert [next(results), next(results)] == [(5, 2), (2, 5)]
        with pytest.raises(ZeroDivisionError):
            next(results)


@several_jobs
def test_who_stops_asking_ends_the_reading(jobs: int) -> None:
    taken = []

    def items() -> Iterator[int]:
        for n in range(1_000_000):
            taken.append(n)
            yield n

    with Workers(jobs) as workers:
        results = workers.map(str, items())
        assert next(results) == (0, "0")
        results.close()
        alive = [each.name for each in threading.enumerate() if "check-read" in each.name]
    assert alive == []
    assert len(taken) < 50


def test_several_at_once_do_not_wait_for_each_other() -> None:
    with Workers(2) as workers:
        one, other = workers.map(str, range(100)), workers.map(str, range(100))
        assert all(a == b for a, b in zip(one, other, strict=True))


@several_jobs
def test_several_results_of_an_item_come_in_order(jobs: int) -> None:
    def work(n: int) -> Iterator[tuple[int, int]]:
        yield from ((n, at) for at in range(n % 20))

    with Workers(jobs) as workers:
        expected = [(n, at) for n in range(100) for at in range(n % 20)]
        assert list(workers.flat_map(work, range(100), lambda n: n % 7 == 0)) == expected


@several_jobs
def test_an_error_behind_some_results_is_raised_behind_them(jobs: int) -> None:
    def work(n: int) -> Iterator[int]:
        yield n
        if n == 3:
            raise OSError("broken")

    with Workers(jobs) as workers:
        results = workers.flat_map(work, range(100))
        assert [next(results) for _ in range(4)] == [0, 1, 2, 3]
        with pytest.raises(OSError, match="broken"):
            next(results)


@several_jobs
def test_only_a_few_results_are_made_before_they_are_taken(jobs: int) -> None:
    taken, made = [], []

    def items() -> Iterator[int]:
        for n in range(1_000_000):
            taken.append(n)
            yield n

    def work(n: int) -> Iterator[int]:
        for at in range(1_000_000):
            made.append(n)
            yield at

    with Workers(jobs) as workers:
        results = workers.flat_map(work, items())
        assert next(results) == 0
        results.close()
        alive = [each.name for each in threading.enumerate() if "check-read" in each.name]
    assert alive == []
    assert len(taken) <= jobs + 4
    assert len(made) <= 6 * jobs


@pytest.mark.parametrize("jobs", [2, 16])
def test_no_item_is_taken_while_a_large_one_is_worked_on(jobs: int) -> None:
    under_way = set()

    def items() -> Iterator[int]:
        for n in range(40):
            assert not any(each % 5 == 0 for each in under_way)
            yield n

    def work(n: int) -> Iterator[int]:
        under_way.add(n)
        yield from range(10)
        under_way.discard(n)

    with Workers(jobs) as workers:
        results = workers.flat_map(work, items(), lambda n: n % 5 == 0)
        assert list(results) == list(range(10)) * 40


def test_a_worker_whose_results_are_next_waits_for_no_memory_that_the_others_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second has the memory, and waits until its results are taken: behind those of the first."""
    monkeypatch.setattr(memory_gate, "PATIENCE", 60.0)
    has_memory = threading.Event()
    taken: list[int] = []

    def work(number: int) -> Iterator[int]:
        if number == 0:
            has_memory.wait()
        with memory_gate.batches_decoded.room(memory_gate.DECODED):
            if number == 1:
                has_memory.set()
            yield from range(20)

    def take() -> None:
        with Workers(2) as workers:
            taken.extend(workers.flat_map(work, [0, 1]))

    caller = threading.Thread(target=take)
    caller.start()
    caller.join(20)
    assert taken == [*range(20), *range(20)]
    caller.join()
