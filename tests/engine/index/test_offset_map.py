"""An offset map that grows: it has the same keys and offsets, and room for more."""

from __future__ import annotations

import pytest

from engine.coding.hashed_slots import BYTES_PER_SLOT
from engine.index.offset_map import NOT_THERE, HashedOffsetMap


def test_a_map_that_grows_keeps_its_keys_and_takes_more() -> None:
    grown = HashedOffsetMap(3 * BYTES_PER_SLOT)
    for number in range(3):
        grown.put(b"%d" % number, 10 * number)
    grown.grow(6)
    for number in range(3, 6):
        grown.put(b"%d" % number, 10 * number)
    assert [grown.get(b"%d" % number) for number in range(7)] == [0, 10, 20, 30, 40, 50, NOT_THERE]
    assert (grown.size, grown.slots, grown.latest_offset) == (6, 6, 50)


def test_a_map_does_not_grow_to_fewer_slots_than_it_has_keys() -> None:
    small = HashedOffsetMap(3 * BYTES_PER_SLOT)
    for key in (b"a", b"b"):
        small.put(key, 1)
    with pytest.raises(ValueError, match="no room"):
        small.grow(1)
    assert (small.get(b"a"), small.slots) == (1, 3)
