"""What Kafka's TimeIndexTest asks of reading; entries are packed here, since appending is a writer's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import CorruptIndexError
from engine.files.source_files import SourceRoot
from engine.index.time_index import TimeIndex
from engine.units import NO_TIMESTAMP, TimestampOffset
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
