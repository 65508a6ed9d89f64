"""Filters on records by key: compared with the rule on the keys themselves."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from kafkafs.records.conditions.row_filters import Every, KeyFilter
from kafkafs.records.conditions.wanted_keys import TopicKeys
from kafkafs.schemas.sources.fixed_schemas import FixedSchemas
from tests.builders import Rec
from tests.kafkafs.records.batches_of_records import decoded

KEYS = [b"", b"a", b"ab", b"abc", b"abd", b"b", b"\xff", None]


@pytest.mark.parametrize("seed", range(12))
def test_records_are_chosen_by_their_keys_and_by_a_pattern_in_them(seed: int) -> None:
    chance = random.Random(seed)
    keys = [chance.choice(KEYS) for _ in range(40)]
    rows = decoded([Rec(b"abc-of-the-value", each) for each in keys[:20]],
                   [Rec(b"x", each) for each in keys[20:]])  # fmt: skip
    indices = np.array(sorted(chance.sample(range(40), 30)), np.intp)
    for _ in range(20):
        wanted = chance.choice([None, chance.choices(KEYS, k=chance.randint(0, 4))])
        pattern = chance.choice(
            [None, *map(re.compile, (b"b", b"^a", b"c$", b"^$", b"value", b"^.$"))]
        )
        sought = None if wanted is None else TopicKeys(wanted, FixedSchemas(None))
        found = KeyFilter(sought, pattern).matching(rows.rows(indices.tolist())).indices
        assert found.tolist() == [
            each for each in indices.tolist()
            if wanted is None or keys[each] in wanted
            if pattern is None or pattern.search(keys[each] or b"")
        ]  # fmt: skip
        assert found.dtype == np.intp


class Telling:
    """A filter that takes what is above a bound, and notes what it was asked."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.asked: list[Any] = []

    def narrowed(self, run: Any) -> Any:
        self.asked.append(run)
        return (*run, self.bound)

    def matching(self, rows: Any) -> Any:
        self.asked.append(rows.tolist())
        return rows[rows > self.bound]


def test_of_several_filters_each_sees_what_the_ones_before_leave() -> None:
    first, second = Telling(2), Telling(5)
    every: Any = Every(first, second)
    assert every.narrowed(()) == (2, 5)
    assert every.matching(np.arange(8)).tolist() == [6, 7]
    assert (first.asked, second.asked) == ([(), list(range(8))], [(2,), [3, 4, 5, 6, 7]])
    nothing: Any = Every()
    assert nothing.narrowed((1,)) == (1,)
    assert nothing.matching(np.arange(3)).tolist() == [0, 1, 2]


def test_a_filter_by_key_reads_all_batches() -> None:
    run: Any = object()
    assert KeyFilter([b"a"]).narrowed(run) is run
