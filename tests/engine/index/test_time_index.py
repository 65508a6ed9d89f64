"""engine.index.time_index: hints from timestamps to offsets."""

from __future__ import annotations

import struct
from bisect import bisect_right
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from engine.errors import CorruptIndexError
from engine.index.time_index import ENTRY, TimeIndex

times = st.lists(st.integers(1, 2**63 - 1), max_size=40, unique=True).map(sorted)


def packed(pairs: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qi", *pair) for pair in pairs)


def test_an_entry_takes_twelve_bytes() -> None:
    assert (ENTRY.size, ENTRY.position_of("relative_offset")) == (12, 8)


@given(times, st.integers(0, 2**40), st.integers(-(2**63), 2**64))
def test_lookup_is_the_floor(timestamps: list[int], base: int, target: int) -> None:
    pairs = [(timestamp, 3 * slot + 1) for slot, timestamp in enumerate(timestamps)]
    index = TimeIndex(packed(pairs), base)
    slot = bisect_right(timestamps, target) - 1
    expected = (pairs[slot][0], base + pairs[slot][1]) if slot >= 0 else (-1, base)
    assert index.lookup(target) == expected
    assert [tuple(entry) for entry in index] == [(t, base + o) for t, o in pairs]
    assert index.last_entry == (index[-1] if pairs else (-1, base))
    index.check()


@given(st.binary(max_size=300), st.integers(0, 2**62), st.integers(-(2**70), 2**70))
def test_any_bytes_give_a_hint_or_a_corrupt_index(data: bytes, base: int, target: int) -> None:
    index = TimeIndex(data, base)
    found = index.lookup(target)
    assert found == (-1, base) or found.timestamp <= target
    assert len(list(index)) == len(index)
    with suppress(CorruptIndexError):
        index.check()


def test_timestamps_before_1970_are_found() -> None:
    index = TimeIndex(packed([(-(2**63), 1), (-5, 2), (7, 3)]), 0)
    assert index.lookup(-1) == (-5, 2)
    assert index.lookup(-(2**63)) == (-(2**63), 1)


@pytest.mark.parametrize(
    ("data", "reason", "position"),
    [
        (packed([(1, 1)]) + b"\0", "whole entries", None),
        (packed([(1, 1)])[:-1], "whole entries", None),
        (packed([(9, 1), (9, 1), (8, 2)]), "before the first", 24),
        (packed([(9, 1), (10, 1), (10, -1)]), "below the segment's base", 24),
    ],
)
def test_what_contradicts_itself_is_corrupt(data: bytes, reason: str, position: int | None) -> None:
    with pytest.raises(CorruptIndexError, match=reason) as caught:
        TimeIndex(data, 50).check()
    assert caught.value.position == position


def test_the_last_entry_may_equal_the_first_and_have_the_base_offset() -> None:
    TimeIndex(packed([(9, 1), (9, 0)]), 50).check()


def test_zeros_after_the_entries_are_no_entries() -> None:
    index = TimeIndex(packed([(9, 1), (10, 2)]) + bytes(1200), 0)
    index.check()
    assert index.last_entry == (10, 2)
    assert index.lookup(2**63 - 1) == (10, 2)
