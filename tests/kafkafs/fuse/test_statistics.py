"""Counting, and histograms of powers of two."""

from __future__ import annotations

import pytest

from kafkafs.fuse.statistics import BUCKETS, OperationStatistics, Statistics


@pytest.mark.parametrize(
    ("microseconds", "bucket"),
    [(0, 0), (1, 1), (1.9, 1), (2, 2), (3, 2), (4, 3), (1000, 10), (2**53 - 1, BUCKETS - 1)],
)
def test_a_request_is_counted_in_its_bucket(microseconds: float, bucket: int) -> None:
    numbers = OperationStatistics()
    numbers.add(int(microseconds * 1024))
    assert [n for n, count in enumerate(numbers.buckets) if count] == [bucket]


def test_quantiles_are_upper_bounds() -> None:
    numbers = OperationStatistics()
    assert numbers.quantile(0.5) == 0
    for _ in range(98):
        numbers.add(3_000)
    for _ in range(2):
        numbers.add(700_000)
    assert numbers.quantile(0.5) == 4
    assert numbers.quantile(0.98) == 4
    assert numbers.quantile(0.99) == 1024


def test_facts_leave_out_what_never_happened() -> None:
    statistics = Statistics()
    statistics.operations["open"].add(500_000_000)
    _ = statistics.operations["read"]
    facts = statistics.facts()
    assert list(facts["operations"]) == ["open"]
    assert facts["operations"]["open"]["slowestMicroseconds"] == 500_000
    assert facts["operations"]["open"]["histogram"] == {"<524288us": 1}
