"""Slices of a segment that a reader fetches, and its look-ups by time, as Kafka's LogSegmentTest has them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.log.segment.fetch import FetchDataInfo
from engine.log.segment.log_segment import LogSegment
from engine.units import LogOffsetMetadata, TimestampOffset
from tests.builders import Rec, batch, message_set
from tests.engine.log.folders import LogWriter, segment_of


def records(offset: int, *values: str) -> bytes:
    """Messages of magic 1, ten milliseconds an offset, as the original makes them."""
    return message_set([Rec(value.encode(), timestamp=offset * 10) for value in values], offset)


def segment(tmp_path: Path, *sets: bytes, base_offset: int = 40) -> LogSegment:
    return segment_of(tmp_path, sets, base_offset)


def read(segment: LogSegment, offset: int, size: int) -> FetchDataInfo:
    fetched = segment.read(offset, max_size=size)
    assert fetched is not None
    return fetched


def contents(fetched: FetchDataInfo) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in fetched.records.records()]


def test_an_empty_segment_gives_nothing(tmp_path: Path) -> None:
    assert segment(tmp_path).read(40, max_size=300) is None


def test_an_offset_before_the_first_gives_the_first(tmp_path: Path) -> None:
    fetched = read(segment(tmp_path, records(50, "hello", "there", "little", "bee")), 41, 300)
    assert contents(fetched) == [(50, b"hello"), (51, b"there"), (52, b"little"), (53, b"bee")]


def test_an_offset_inside_a_batch_gives_the_batch(tmp_path: Path) -> None:
    made = batch([Rec(value) for value in (b"hello", b"there", b"little", b"bee")], 50)
    fetched = read(segment(tmp_path, made), 52, 300)
    (found,) = fetched.records.batches()
    assert found.base_offset == fetched.fetch_offset_metadata.offset == 50


def test_an_offset_after_the_last_gives_nothing(tmp_path: Path) -> None:
    assert segment(tmp_path, records(50, "hello", "there")).read(52, max_size=200) is None


def test_an_offset_in_a_gap_gives_the_next_batch(tmp_path: Path) -> None:
    made = segment(tmp_path, records(50, "hello", "there"), records(60, "alpha", "beta"))
    assert contents(read(made, 55, 200)) == [(60, b"alpha"), (61, b"beta")]


@pytest.mark.parametrize("min_one_message", [True, False])
def test_without_a_known_end_there_is_a_place_but_no_bytes(
    tmp_path: Path, min_one_message: bool
) -> None:
    made = segment(tmp_path, records(50, "hello", "there"))
    for offset, first, position in ((48, 50, 0), (50, 50, 0), (51, 51, 39)):
        fetched = made.read(offset, max_size=1, max_position=None, min_one_message=min_one_message)
        assert fetched is not None
        assert fetched.fetch_offset_metadata == LogOffsetMetadata(first, 40, position)
        assert fetched.records.size == 0
    for offset in (52, 53):
        assert (
            made.read(offset, max_size=1, max_position=None, min_one_message=min_one_message)
            is None
        )


@pytest.mark.parametrize("with_indexes", [True, False])
def test_a_time_leads_to_the_first_record_from_it_on(tmp_path: Path, with_indexes: bool) -> None:
    sets: Sequence[bytes] = [records(offset, f"msg{offset}") for offset in range(40, 50)]
    writer = LogWriter(tmp_path, base_offset=40)
    writer.append(*sets)
    if with_indexes:
        # The original's interval: twice the size of a message minus one, so every second one has an entry.
        writer.write_indexes(2 * len(records(42, "hello")) - 1)
    made = writer.view().active_segment
    assert made is not None

    def offset_at(timestamp: int) -> int | None:
        found = made.find_timestamp(timestamp, 40)
        return None if found is None else found.offset

    assert offset_at(420) == 42
    assert offset_at(421) == 43
    assert offset_at(430) == 43
    assert offset_at(441) == 45
    assert offset_at(390) == 40
    assert offset_at(491) is None
    assert made.max_timestamp == TimestampOffset(490, 49)


def test_the_next_offset_follows_the_last_record(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, base_offset=40)
    empty = writer.view()
    assert empty.active_segment is not None
    assert (empty.active_segment.next_offset, empty.log_end_offset) == (40, 40)
    writer.append(records(50, "hello", "there", "you"))
    grown = writer.view()
    assert grown.active_segment is not None
    assert (grown.active_segment.next_offset, grown.log_end_offset) == (53, 53)


def test_many_threads_learn_the_same_largest_timestamp(tmp_path: Path) -> None:
    made = segment(tmp_path, *(records(offset, "value") for offset in range(40, 240)))
    found: list[TimestampOffset] = []
    start = threading.Barrier(16)

    def ask() -> None:
        start.wait()
        found.append(made.max_timestamp)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [TimestampOffset(2390, 239)] * 16
