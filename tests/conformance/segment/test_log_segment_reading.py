"""What Kafka's LogSegmentTest asks of reading a segment."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.units import LogOffsetMetadata, TimestampOffset
from engine.writing.index.writable_time_index import WritableTimeIndex
from tests.conformance.writable_segments import contents, create_segment, v1_records, v2_records


@pytest.mark.conformance("LogSegmentTest.testReadOnEmptySegment")
def test_read_on_empty_segment(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        assert segment.read(40, 300) is None


@pytest.mark.conformance("LogSegmentTest.testReadBeforeFirstOffset")
def test_read_before_first_offset(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        records = v1_records(50, "hello", "there", "little", "bee")
        segment.append(53, records)
        read = segment.read(41, 300)
        assert read is not None
        assert contents(read.records) == contents(records)


@pytest.mark.conformance("LogSegmentTest.testReadFromMiddleOfBatch")
def test_read_from_middle_of_batch(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        segment.append(53, v2_records(50, "hello", "there", "little", "bee"))
        read = segment.read(52, 300)
        assert read is not None
        assert read.fetch_offset_metadata.offset == 50


@pytest.mark.conformance("LogSegmentTest.testReadAfterLast")
def test_read_after_last(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        segment.append(51, v1_records(50, "hello", "there"))
        assert segment.read(52, 200) is None


@pytest.mark.conformance("LogSegmentTest.testReadFromGap")
def test_read_from_gap(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        segment.append(51, v1_records(50, "hello", "there"))
        second = v1_records(60, "alpha", "beta")
        segment.append(61, second)
        read = segment.read(55, 200)
        assert read is not None
        assert contents(read.records) == contents(second)


@pytest.mark.conformance("LogSegmentTest.testReadWhenNoMaxPosition")
@pytest.mark.parametrize("min_one_message", [True, False])
def test_read_when_no_max_position(tmp_path: Path, min_one_message: bool) -> None:
    with create_segment(tmp_path, 40) as segment:
        segment.append(51, v1_records(50, "hello", "there"))
        for offset, position in ((50, 0), (51, 39)):
            read = segment.read(offset, 1, None, min_one_message)
            assert read is not None
            assert read.fetch_offset_metadata == LogOffsetMetadata(offset, 40, position)
            assert list(read.records.records()) == []
        assert segment.read(52, 1, None, min_one_message) is None
        assert segment.read(53, 1, None, min_one_message) is None


@pytest.mark.conformance("LogSegmentTest.testFindOffsetByTimestamp")
def test_find_offset_by_timestamp(tmp_path: Path) -> None:
    size = v1_records(0, "msg00").size
    with create_segment(tmp_path, 40, size * 2 - 1) as segment:
        for offset in range(40, 50):
            segment.append(offset, v1_records(offset, f"msg{offset}"))
        assert segment.largest_timestamp == 490
        found = {}
        for timestamp in (420, 421, 430, 431, 491, 401, 399):
            record = segment.find_offset_by_timestamp(timestamp, 0)
            found[timestamp] = None if record is None else record.offset
        assert found == {420: 42, 421: 43, 430: 43, 431: 44, 491: None, 401: 41, 399: 40}


@pytest.mark.conformance("LogSegmentTest.testNextOffsetCalculation")
def test_next_offset_calculation(tmp_path: Path) -> None:
    with create_segment(tmp_path, 40) as segment:
        assert segment.read_next_offset() == 40
        segment.append(52, v1_records(50, "hello", "there", "you"))
        assert segment.read_next_offset() == 53


@pytest.mark.conformance("LogSegmentTest.testConcurrentAccessToMaxTimestampSoFar")
def test_concurrent_access_to_max_timestamp_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_segment(tmp_path, 0, 1) as segment:
        for offset in range(10):
            segment.append(offset, v1_records(offset, "value"))
    reads = []
    last_entry = WritableTimeIndex.last_entry.fget

    def slow_last_entry(index: WritableTimeIndex) -> TimestampOffset:
        reads.append(index)
        for _ in range(100):
            os.sched_yield()
        return last_entry(index)

    with create_segment(tmp_path, 0, 1) as segment:
        assert segment.time_index.entries  # opened before the threads race for it
        monkeypatch.setattr(WritableTimeIndex, "last_entry", property(slow_last_entry))
        start = threading.Barrier(16)

        def ask() -> TimestampOffset:
            start.wait()
            return segment.indexes.largest

        with ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(ask) for _ in range(16)]
        assert [each.result() for each in asked] == [TimestampOffset(90, 9)] * 16
        assert len(reads) == 1
        monkeypatch.undo()
