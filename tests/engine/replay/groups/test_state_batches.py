"""State batches that are told one after another, against each offset on its own."""

from __future__ import annotations

import time
from itertools import pairwise
from random import Random

import pytest

from engine.replay.groups.state_batches import BatchesOfRecord, StateBatch, merged


def by_offset(told: list[BatchesOfRecord]) -> dict[int, tuple[int, int]]:
    """Deliveries and state of each offset."""
    found: dict[int, tuple[int, int]] = {}
    for start, batches in told:
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                found[offset] = max(found.get(offset, (-1, -1)), (count, state))
        if start is not None:
            found = {offset: each for offset, each in found.items() if offset >= start}
    return found


def random_told(random: Random) -> list[BatchesOfRecord]:
    told = []
    for _ in range(random.randint(1, 6)):
        batches = []
        for _ in range(random.randint(0, 5)):
            first = random.randint(0, 30)
            state, count = random.choice((0, 2, 4)), random.randint(0, 4)
            batches.append(StateBatch(first, first + random.randint(-1, 12), state, count))
        told.append(BatchesOfRecord(random.choice((None, random.randint(0, 25))), batches))
    return told


@pytest.mark.parametrize("seed", range(300))
def test_each_offset_has_what_counts_most_of_all_that_was_told(seed: int) -> None:
    told = random_told(Random(seed))
    left = merged(told)
    shown = {
        offset: (batch.delivery_count, batch.delivery_state)
        for batch in left
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }
    assert shown == by_offset(told)
    assert sum(batch.last_offset - batch.first_offset + 1 for batch in left) == len(shown)
    for one, other in pairwise(left):
        assert one.last_offset < other.first_offset
        assert one.last_offset + 1 < other.first_offset or one[2:] != other[2:]


def test_a_start_offset_takes_nothing_of_what_is_told_later() -> None:
    early, late = StateBatch(0, 9, 2, 1), StateBatch(0, 4, 0, 1)
    assert merged([BatchesOfRecord(None, [early]), BatchesOfRecord(8, []), BatchesOfRecord(None, [late])]) == (
        late, StateBatch(8, 9, 2, 1),
    )  # fmt: skip


def test_nested_batches_of_a_hostile_record_cost_no_quadratic_time() -> None:
    count = 30_000
    nested = [StateBatch(0, number, 0, count - number) for number in range(count)]
    started = time.process_time()
    left = merged([BatchesOfRecord(None, nested)])
    assert time.process_time() - started < 5
    assert left[:2] == (StateBatch(0, 0, 0, count), StateBatch(1, 1, 0, count - 1))
    assert len(left) == count


def test_a_delivery_state_without_a_name_is_its_number() -> None:
    assert StateBatch(1, 2, 2, 3).facts() == {
        "firstOffset": 1, "lastOffset": 2, "deliveryState": "ACKNOWLEDGED", "deliveryCount": 3,
    }  # fmt: skip
    assert StateBatch(1, 2, 9, 3).facts()["deliveryState"] == "9"
