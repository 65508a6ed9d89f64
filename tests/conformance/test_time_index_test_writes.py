"""What Kafka's TimeIndexTest asks of appending, truncating and resizing."""

from __future__ import annotations

import pytest

from engine.errors import InvalidOffsetError
from engine.units import NO_TIMESTAMP, TimestampOffset
from engine.writing.index.writable_time_index import WritableTimeIndex

BASE_OFFSET = 45
MAX_ENTRIES = 30


def append_entries(index: WritableTimeIndex, count: int) -> None:
    for i in range(1, count + 1):
        index.maybe_append(i * 10, i * 10 + BASE_OFFSET)


@pytest.fixture
def index(tmp_path):
    with WritableTimeIndex(tmp_path / "45.timeindex", BASE_OFFSET, MAX_ENTRIES * 12) as opened:
        yield opened


@pytest.mark.conformance("TimeIndexTest.testTruncate")
def test_truncate(index):
    append_entries(index, MAX_ENTRIES - 1)
    index.truncate()
    assert index.entries == 0
    append_entries(index, MAX_ENTRIES - 1)
    index.truncate_to(10 + BASE_OFFSET)
    assert index.entries == 0


@pytest.mark.conformance("TimeIndexTest.testAppend")
def test_append(index):
    append_entries(index, MAX_ENTRIES - 1)
    with pytest.raises(ValueError, match="is full"):
        index.maybe_append(10000, 1000)
    with pytest.raises(InvalidOffsetError, match="offset 280 is below 335"):
        index.maybe_append(10000, (MAX_ENTRIES - 2) * 10, skip_full_check=True)
    assert index.entries == MAX_ENTRIES - 1
    index.maybe_append(10000, 1000, skip_full_check=True)
    assert index.last_entry == index.entry_at(MAX_ENTRIES - 1) == TimestampOffset(10000, 1000)


@pytest.mark.conformance("TimeIndexTest.testIsFull")
def test_is_full(index):
    assert not index.is_full
    append_entries(index, MAX_ENTRIES - 2)
    assert not index.is_full
    index.truncate()
    append_entries(index, MAX_ENTRIES - 1)
    assert index.is_full


@pytest.mark.conformance("TimeIndexTest.testResize")
def test_resize(index):
    assert not index.resize(MAX_ENTRIES * index.entry_size)
    assert index.resize(MAX_ENTRIES // 2 * index.entry_size)
    assert index.max_entries == MAX_ENTRIES // 2
    assert index.resize(MAX_ENTRIES * 2 * index.entry_size)
    assert index.length == MAX_ENTRIES * 2 * 12


def test_an_entry_is_found_again_by_the_last_one(index):
    assert index.last_entry == TimestampOffset(NO_TIMESTAMP, BASE_OFFSET)
    index.maybe_append(1, 1 + BASE_OFFSET)
    assert index.last_entry == TimestampOffset(1, BASE_OFFSET + 1)
