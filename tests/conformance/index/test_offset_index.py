"""What Kafka's OffsetIndexTest asks."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import InvalidOffsetError
from engine.files.source_files import SourceRoot
from engine.index.offset_index import OffsetIndex
from engine.units import OffsetPosition
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from tests import builders

BASE_OFFSET = 45
MAX_ENTRIES = 30

MakeIndex = Callable[..., OffsetIndex]


@pytest.fixture(params=["file", "padded file", "bytes"])
def index_of(request: pytest.FixtureRequest, tmp_path: Path) -> MakeIndex:
    """Makes an index of (offset, position) pairs; a broker pads the file to its maximum while it writes."""

    def make(entries: list[tuple[int, int]], base_offset: int = BASE_OFFSET) -> OffsetIndex:
        data = builders.offset_index(entries, base_offset)
        if request.param == "padded file":
            data = data.ljust(MAX_ENTRIES * 8, b"\0")
        if request.param == "bytes":
            return OffsetIndex(data, base_offset)
        (tmp_path / "00000000000000000045.index").write_bytes(data)
        return OffsetIndex(
            lambda: SourceRoot(str(tmp_path)).open("00000000000000000045.index"), base_offset
        )

    return make


def monotonic(start: int, count: int) -> list[int]:
    found = []
    for _ in range(count):
        start += random.randint(1, 15)
        found.append(start)
    return found


@pytest.mark.conformance("OffsetIndexTest.randomLookupTest")
def test_random_lookup_test(index_of: MakeIndex) -> None:
    assert index_of([]).lookup(92) == OffsetPosition(BASE_OFFSET, 0)
    offsets, positions = monotonic(BASE_OFFSET + 1, MAX_ENTRIES), monotonic(0, MAX_ENTRIES)
    entries = list(zip(offsets, positions, strict=True))
    index = index_of(entries)
    for offset, position in entries:
        assert index.lookup(offset) == OffsetPosition(offset, position)
    between = list(range(BASE_OFFSET, offsets[-1]))
    random.shuffle(between)
    for offset in between[:30]:
        slot = bisect_right(offsets, offset) - 1
        assert index.lookup(offset) == (entries[slot] if slot >= 0 else (BASE_OFFSET, 0))


@pytest.mark.conformance("OffsetIndexTest.lookupExtremeCases")
def test_lookup_extreme_cases(index_of: MakeIndex) -> None:
    assert index_of([]).lookup(BASE_OFFSET) == (BASE_OFFSET, 0)
    index = index_of([(BASE_OFFSET + slot + 1, slot) for slot in range(MAX_ENTRIES)])
    assert index.lookup(BASE_OFFSET) == (BASE_OFFSET, 0)
    last = BASE_OFFSET + MAX_ENTRIES
    assert index.lookup(last) == (last, MAX_ENTRIES - 1)


@pytest.mark.conformance("OffsetIndexTest.testEntry")
def test_entry(index_of: MakeIndex) -> None:
    index = index_of([(BASE_OFFSET + slot, slot) for slot in range(MAX_ENTRIES)])
    for slot in range(MAX_ENTRIES):
        assert index.entry_at(slot) == OffsetPosition(BASE_OFFSET + slot, slot)


@pytest.mark.conformance("OffsetIndexTest.testEntryOverflow")
def test_entry_overflow(index_of: MakeIndex) -> None:
    with pytest.raises(IndexError):
        index_of([]).entry_at(0)


@pytest.mark.conformance("OffsetIndexTest.testFetchUpperBoundOffset")
def test_fetch_upper_bound_offset(index_of: MakeIndex) -> None:
    entries = [
        OffsetPosition(BASE_OFFSET, 0),
        OffsetPosition(BASE_OFFSET + 1, 10),
        OffsetPosition(BASE_OFFSET + 2, 23),
        OffsetPosition(BASE_OFFSET + 3, 37),
    ]
    first, second, third, fourth = entries
    assert index_of([]).upper_bound_for_fetch(first, 5) is None
    index = index_of(entries)
    assert index.upper_bound_for_fetch(first, 5) == second
    assert index.upper_bound_for_fetch(first, 10) == second
    assert index.upper_bound_for_fetch(first, 23) == third
    assert index.upper_bound_for_fetch(first, 22) == third
    assert index.upper_bound_for_fetch(second, 24) == fourth
    assert index.upper_bound_for_fetch(fourth, 1) is None
    assert index.upper_bound_for_fetch(first, 200) is None
    assert index.upper_bound_for_fetch(second, 200) is None


@pytest.mark.conformance("OffsetIndexTest.testReopen")
def test_reopen(index_of: MakeIndex) -> None:
    first, second = OffsetPosition(51, 0), OffsetPosition(52, 1)
    index_of([first, second]).close()
    reopened = index_of([first, second])
    assert reopened.lookup(51) == first
    assert reopened.lookup(52) == second
    assert reopened.last_offset == 52
    assert len(reopened) == 2
    assert not hasattr(reopened, "append")


@pytest.mark.conformance("OffsetIndexTest.forceUnmapTest")
def test_force_unmap_test(index_of: MakeIndex) -> None:
    index = index_of([], 0)
    index.close()
    with pytest.raises(ValueError, match="closed"):
        index.lookup(1)


@pytest.mark.conformance("OffsetIndexTest.testSanityLastOffsetEqualToBaseOffset")
def test_sanity_last_offset_equal_to_base_offset(index_of: MakeIndex) -> None:
    index_of([(20, 0)], 20).check()


@pytest.fixture
def index(tmp_path):
    with WritableOffsetIndex(tmp_path / "45.index", BASE_OFFSET, MAX_ENTRIES * 8) as opened:
        yield opened


@pytest.mark.conformance("OffsetIndexTest.appendTooMany")
def test_append_too_many(index):
    for i in range(index.max_entries):
        index.append(BASE_OFFSET + i + 1, i)
    with pytest.raises(ValueError, match="is full: it has 30 entries"):
        index.append(index.max_entries + 1, 1)
    assert index.entries == MAX_ENTRIES
    assert index.last_entry == OffsetPosition(BASE_OFFSET + MAX_ENTRIES, MAX_ENTRIES - 1)


@pytest.mark.conformance("OffsetIndexTest.appendOutOfOrder")
def test_append_out_of_order(index):
    index.append(51, 0)
    with pytest.raises(InvalidOffsetError, match="offset 50 is not above 51"):
        index.append(50, 1)
    assert list(index) == [OffsetPosition(51, 0)]


def test_reopened_an_index_that_was_trimmed_is_full(index):
    first, second = OffsetPosition(51, 0), OffsetPosition(52, 1)
    index.append(*first)
    index.append(*second)
    index.close()
    with WritableOffsetIndex(index.path, BASE_OFFSET) as reopened:
        assert reopened.lookup(51) == first
        assert reopened.lookup(52) == second
        assert reopened.last_offset == 52
        assert reopened.entries == 2
        with pytest.raises(ValueError, match="is full: it has 2 entries"):
            reopened.append(53, 1)


@pytest.mark.conformance("OffsetIndexTest.truncate")
def test_truncate(tmp_path):
    with WritableOffsetIndex(tmp_path / "0.index", 0, 10 * 8) as index:
        index.truncate()
        for i in range(1, 10):
            index.append(i, i)

        # Past the end.
        index.truncate_to(12)
        assert index.lookup(10) == OffsetPosition(9, 9)
        assert index.last_offset == 9

        # At the end.
        index.append(10, 10)
        index.truncate_to(10)
        assert index.lookup(10) == OffsetPosition(9, 9)
        assert index.last_offset == 9
        index.append(10, 10)

        # The last two.
        index.truncate_to(9)
        assert index.lookup(10) == OffsetPosition(8, 8)
        assert index.last_offset == 8
        index.append(9, 9)

        index.truncate_to(5)
        assert index.lookup(10) == OffsetPosition(4, 4)
        assert index.last_offset == 4
        index.append(5, 5)

        index.truncate()
        assert index.entries == 0
        assert index.last_offset == 0
