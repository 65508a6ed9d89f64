"""What Kafka's TimeIndexTest asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import CorruptIndexError, InvalidOffsetError
from engine.files.source_files import SourceRoot
from engine.index.time_index import TimeIndex
from engine.units import NO_TIMESTAMP, TimestampOffset
from engine.writing.index.writable_time_index import WritableTimeIndex
from tests import builders

BASE_OFFSET = 45
MAX_ENTRIES = 30

MakeIndex = Callable[[bytes], TimeIndex]


def entries(count: int) -> bytes:
    pairs = [(each * 10, each * 10 + BASE_OFFSET) for each in range(1, count + 1)]
    return builders.time_index(pairs, BASE_OFFSET)


@pytest.fixture(params=["file", "padded file", "bytes"])
def index_of(request: pytest.FixtureRequest, tmp_path: Path) -> MakeIndex:
    def make(data: bytes) -> TimeIndex:
        if request.param == "padded file" and len(data) % 12 == 0:
            data = data.ljust(MAX_ENTRIES * 12, b"\0")
        if request.param == "bytes":
            return TimeIndex(data, BASE_OFFSET)
        (tmp_path / "x.timeindex").write_bytes(data)
        return TimeIndex(lambda: SourceRoot(str(tmp_path)).open("x.timeindex"), BASE_OFFSET)

    return make


@pytest.mark.conformance("TimeIndexTest.testLookUp")
def test_look_up(index_of: MakeIndex) -> None:
    assert index_of(b"").lookup(100) == TimestampOffset(-1, BASE_OFFSET)
    index = index_of(entries(MAX_ENTRIES - 1))
    assert index.lookup(9) == TimestampOffset(-1, BASE_OFFSET)
    assert index.lookup(25) == TimestampOffset(20, 65)
    assert index.lookup(30) == TimestampOffset(30, 75)


@pytest.mark.conformance("TimeIndexTest.testEntry")
def test_entry(index_of: MakeIndex) -> None:
    index = index_of(entries(MAX_ENTRIES - 1))
    assert index.entry_at(0) == TimestampOffset(10, 55)
    assert index.entry_at(1) == TimestampOffset(20, 65)
    assert index.entry_at(2) == TimestampOffset(30, 75)
    assert index.entry_at(3) == TimestampOffset(40, 85)


@pytest.mark.conformance("TimeIndexTest.testEntryOverflow")
def test_entry_overflow(index_of: MakeIndex) -> None:
    with pytest.raises(IndexError):
        index_of(b"").entry_at(0)


@pytest.mark.conformance("TimeIndexTest.testSanityCheck")
def test_sanity_check(index_of: MakeIndex) -> None:
    index_of(b"").check()
    good = entries(5)
    index_of(good).check()
    low_offset = builders.time_index([(60, BASE_OFFSET - 1)], BASE_OFFSET)
    with pytest.raises(CorruptIndexError):
        index_of(good + low_offset).check()
    low_timestamp = builders.time_index([(9, BASE_OFFSET + 60)], BASE_OFFSET)
    with pytest.raises(CorruptIndexError):
        index_of(good + low_timestamp).check()
    with pytest.raises(CorruptIndexError):
        index_of(good[:-1]).check()
    index_of(good).check()


@pytest.mark.conformance("TimeIndexTest.testLastEntry")
def test_last_entry(index_of: MakeIndex) -> None:
    assert index_of(b"").last_entry == TimestampOffset(NO_TIMESTAMP, BASE_OFFSET)
    one = builders.time_index([(1, BASE_OFFSET + 1)], BASE_OFFSET)
    assert index_of(one).last_entry == TimestampOffset(1, BASE_OFFSET + 1)


@pytest.mark.conformance("TimeIndexTest.testEntrySize")
def test_entry_size() -> None:
    assert TimeIndex.entry_size == 12


@pytest.mark.conformance("TimeIndexTest.testParseEntry")
def test_parse_entry(index_of: MakeIndex) -> None:
    index = index_of(builders.time_index([(1, BASE_OFFSET + 1)], BASE_OFFSET))
    assert list(index) == [TimestampOffset(1, BASE_OFFSET + 1)]


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
