"""A sample of the soak: random single hits on the files of real partitions. All of it: tests/damage/soak.py."""

from __future__ import annotations

import pytest

from tests.damage.soak import soak


@pytest.mark.parametrize(("seed", "kernel"), [(11, "compiled"), (12, "python")])
def test_random_hits_cost_what_they_hit_and_nothing_else(seed: int, kernel: str) -> None:
    failures = soak(seed, {"compiled": 150, "python": 30}[kernel], which=kernel)
    assert not failures, "\n".join(failures)
