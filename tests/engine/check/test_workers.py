"""Work is spread over threads and comes back in order, whatever happens in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from engine.check.workers import Workers

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
