"""Records by time: those of a batch are spread over the time between its first and its last record."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from engine.check.log_statistics import DAY_MS, MINUTE_MS, TimeCounts

NOW = 1_700_000_000_000


def spread(first: list[int], last: list[int], records: list[int], most: int = 1500) -> TimeCounts:
    counts = TimeCounts(most)
    counts.spread(np.array(first), np.array(last), np.array(records))
    return counts


@pytest.mark.parametrize("seed", range(20))
def test_no_record_is_lost_and_each_lies_between_the_times_of_its_batch(seed: int) -> None:
    chance = random.Random(seed)
    first = [NOW + chance.randrange(DAY_MS) for _ in range(50)]
    last = [each + chance.choice((0, 1, 999, MINUTE_MS, 90 * MINUTE_MS, DAY_MS)) for each in first]
    records = [chance.choice((1, 2, 7, 1000)) for _ in first]
    most = chance.choice((5, 60, 1500))
    counts = spread(first, last, records, most)
    assert sum(counts.counts.values()) == sum(records)
    assert len(counts.counts) <= most
    assert min(counts.counts) >= min(first) // counts.width
    assert max(counts.counts) <= max(last) // counts.width


@pytest.mark.parametrize("each", [2, 60, 600, 5000])
def test_an_even_stream_is_counted_as_its_records_are(each: int) -> None:
    times = [NOW + 1000 * at for at in range(20_000)]
    batches = [times[at : at + each] for at in range(0, len(times), each)]
    found = spread([b[0] for b in batches], [b[-1] for b in batches], [len(b) for b in batches])
    exact = Counter(time // found.width for time in times)
    assert all(abs(found.counts[step] - exact[step]) <= 2 for step in exact | found.counts)


def test_a_batch_with_a_wrong_first_time_counts_at_its_last_one() -> None:
    for first in (-1, 0, NOW - DAY_MS - 1):
        assert spread([first], [NOW], [10]).counts == {NOW // MINUTE_MS: 10}
    assert spread([NOW + 5], [NOW], [10]).counts == {NOW // MINUTE_MS: 10}


def test_records_on_both_sides_of_a_minute_are_halved() -> None:
    minute = NOW // MINUTE_MS
    counts = spread([minute * MINUTE_MS - 1], [minute * MINUTE_MS], [10]).counts
    assert counts == {minute - 1: 5, minute: 5}
