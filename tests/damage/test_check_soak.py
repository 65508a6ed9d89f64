"""A sample of the hits that `check` must find. All of it: tests/damage/check_soak.py, or KAFKAFS_CHECK_HITS=10000."""

from __future__ import annotations

import os
from pathlib import Path

from tests.damage.check_soak import Soak

HITS = int(os.environ.get("KAFKAFS_CHECK_HITS", "500"))


def test_check_finds_each_random_hit_that_changes_a_meaning_where_it_is(tmp_path: Path) -> None:
    soak = Soak(tmp_path)
    tally = soak.run(21, range(HITS))
    assert not tally.missed, "\n".join(tally.missed)
    assert not tally.misplaced, "\n".join(tally.misplaced)
    assert not tally.broken, "\n".join(tally.broken)
    assert sum(tally.found.values()) > HITS // 2
    assert tally.reached == tally.records > 0


def test_partitions_that_nothing_hit_have_nothing_wrong(tmp_path: Path) -> None:
    before = Soak(tmp_path).serious
    assert not before, before
