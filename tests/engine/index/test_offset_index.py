"""engine.index.offset_index: hints from offsets to positions."""

from __future__ import annotations

import struct
from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from engine.errors import CorruptIndexError
from engine.files.source_files import SourceRoot
from engine.index.offset_index import ENTRY, OffsetIndex
from engine.units import OffsetPosition
from tests import builders

entries = st.lists(
    st.tuples(st.integers(1, 2**31 - 1), st.integers(1, 2**31 - 1)), max_size=40
).map(
    lambda pairs: list(
        zip(sorted({a for a, _ in pairs}), sorted({b for _, b in pairs}), strict=False)
    )
)


def test_an_entry_takes_eight_bytes() -> None:
    assert (ENTRY.size, ENTRY.position_of("position")) == (8, 4)


@given(entries, st.integers(0, 2**40), st.integers(0, 2**32))
def test_lookup_is_the_floor(pairs: list[tuple[int, int]], base: int, distance: int) -> None:
    index = OffsetIndex(b"".join(struct.pack(">ii", *pair) for pair in pairs), base)
    slot = bisect_right([offset for offset, _ in pairs], distance) - 1
    expected = (base + pairs[slot][0], pairs[slot][1]) if slot >= 0 else (base, 0)
    assert index.lookup(base + distance) == expected
    assert index.lookup(base - 1 - distance) == (base, 0)
    around = index.entries_around(base + distance)
    assert (around is None) == (slot < 0)
    assert around is None or struct.pack(">ii", *pairs[slot]) in bytes(around)
    assert index.entries_around(base - 1 - distance) is None
    assert list(index) == [(base + offset, position) for offset, position in pairs]
    assert index[:] == list(index)


def test_an_entry_may_have_the_base_offset() -> None:
    index = OffsetIndex(struct.pack(">ii", 0, 70), 5)
    assert (index.lookup(5), index.entries_around(5)) == ((5, 70), struct.pack(">ii", 0, 70))
    assert (index.lookup(4), index.entries_around(4)) == ((5, 0), None)


def test_without_entries_the_last_one_is_the_start() -> None:
    assert OffsetIndex(b"", 5).last_entry == (5, 0)


@given(st.binary(max_size=300), st.integers(0, 2**62), st.integers(-(2**70), 2**70))
def test_any_bytes_give_a_hint_or_a_corrupt_index(data: bytes, base: int, target: int) -> None:
    index = OffsetIndex(data, base, path="x.index")
    found = index.lookup(target)
    assert found == (base, 0) or found.offset <= target
    upper = index.upper_bound_for_fetch(found, 100)
    assert upper is None or upper in list(index)
    assert len(list(index)) == len(index)
    try:
        index.check()
    except CorruptIndexError as error:
        assert error.path == "x.index"  # noqa: PT017


@given(entries, st.integers(0, 2**31 - 1), st.integers(0, 2**33))
def test_the_upper_bound_is_the_first_position_past_the_fetch(
    pairs: list[tuple[int, int]], position: int, size: int
) -> None:
    index = OffsetIndex(b"".join(struct.pack(">ii", *pair) for pair in pairs), 5)
    expected = next((5 + o, p) for o, p in [*pairs, (0, 2**40)] if p >= position + size)
    found = index.upper_bound_for_fetch(OffsetPosition(7, position), size)
    assert found == (expected if expected[1] < 2**40 else None)


def test_slots_are_those_of_a_sequence() -> None:
    index = OffsetIndex(
        builders.offset_index([(12, 100), (17, 300), (30, 900)], base_offset=10), 10
    )
    assert len(index) == 3
    assert index[0] == index.entry_at(0) == OffsetPosition(12, 100)
    assert index[-1] == index.last_entry == (30, 900)
    assert index.last_offset == 30
    assert (17, 300) in index
    for slot in (3, -4, 2**40):
        with pytest.raises(IndexError):
            index[slot]
    with pytest.raises(IndexError):
        index.entry_at(-1)


def test_part_of_an_entry_is_corrupt_and_left_out() -> None:
    index = OffsetIndex(struct.pack(">ii", 3, 100) + b"\1", 0, path="0.index")
    assert list(index) == [(3, 100)]
    with pytest.raises(CorruptIndexError, match=r"multiple of 8 bytes, found 9 bytes in 0\.index"):
        index.check()


def test_a_negative_offset_is_corrupt() -> None:
    index = OffsetIndex(struct.pack(">iiii", 3, 100, -5, 200), 50)
    with pytest.raises(CorruptIndexError) as caught:
        index.check()
    assert (caught.value.position, caught.value.found) == (8, 45)


def test_zeros_after_the_entries_are_sane() -> None:
    index = OffsetIndex(struct.pack(">ii", 3, 100) + bytes(8000), 0)
    index.check()
    assert list(index) == [(3, 100)]
    OffsetIndex(bytes(10 * 2**20), 0).check()


def test_a_closed_index_says_so(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(struct.pack(">ii", 3, 100))
    with SourceRoot(str(tmp_path)) as root:
        for source in (root.open("x"), lambda: root.open("x"), b""):
            index = OffsetIndex(source, 0)
            index.lookup(1)
            assert not index.is_closed
            index.close()
            assert index.is_closed
            for call in (
                lambda index=index: index.lookup(1),
                lambda index=index: len(index),
                lambda index=index: index.last_offset,
                lambda index=index: index.entry_at(0),
                lambda index=index: list(index),
                index.check,
            ):
                with pytest.raises(ValueError, match="closed"):
                    call()


def test_a_file_of_its_own_is_named_in_errors(tmp_path: Path) -> None:
    (tmp_path / "x.index").write_bytes(b"123")
    with SourceRoot(str(tmp_path)) as root, OffsetIndex(root.open("x.index"), 0) as index:
        with pytest.raises(CorruptIndexError) as caught:
            index.check()
        assert caught.value.path == f"{tmp_path}/x.index"
