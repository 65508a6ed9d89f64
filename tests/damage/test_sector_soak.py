"""A sample of the sector soak: random unreadable sectors in real partitions. All of it: tests/damage/sector_soak.py."""

from __future__ import annotations

import pytest

from tests.damage.sector_soak import main


@pytest.mark.parametrize(("seed", "sectors", "kernel"), [(21, 40, "compiled"), (22, 15, "python")])
def test_exactly_the_batches_in_a_sector_are_lost(seed: int, sectors: int, kernel: str) -> None:
    assert main(["--seed", f"{seed}", "--sectors", f"{sectors}", "--kernel", kernel]) == 0
