"""What Kafka's OffsetIndexTest asks of appending and truncating."""

from __future__ import annotations

import pytest

from engine.errors import InvalidOffsetError
from engine.units import OffsetPosition
from engine.writing.index.writable_offset_index import WritableOffsetIndex

BASE_OFFSET = 45
MAX_ENTRIES = 30


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
