"""A sector that cannot be read costs grep and rebuild the records of the batches on it, and no others."""

from random import Random

import pytest

from tests.damage.sectors import contradictions, run, segments
from tests.unreadable import SECTOR, sector


def test_random_sectors_cost_exactly_the_batches_on_them() -> None:
    assert list(run(12, 15)) == []


@pytest.mark.parametrize("seed", range(3))
def test_two_sectors_in_a_row_and_half_a_segment_do_too(seed: int) -> None:
    random = Random(seed)
    path = random.choice([each for each in segments() if each.stat().st_size > 4 * SECTOR])
    size = path.stat().st_size
    for start, end in ((SECTOR, 3 * SECTOR), (sector(size // 2)[0], size)):
        assert list(contradictions(path, start, end)) == [], (path, start, end)
