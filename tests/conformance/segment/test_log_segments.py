"""What Kafka's LogSegmentsTest asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from engine.broker.log.local_log import LocalLog
from engine.log.log_segments import LogSegments
from engine.units import LogOffsetMetadata
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.writable_segment import WritableSegment
from tests.clocks import MockClock, MockScheduler
from tests.conformance.writable_segments import PARTITION, create_segment

Create: TypeAlias = Callable[[int], WritableSegment]


@pytest.fixture
def create(tmp_path: Path) -> Iterator[Create]:
    """Make an empty segment at an offset."""
    made: list[WritableSegment] = []

    def create(offset: int) -> WritableSegment:
        made.append(create_segment(tmp_path, offset))
        return made[-1]

    yield create
    for segment in made:
        segment.close()


@pytest.fixture
def five(create: Create) -> list[WritableSegment]:
    return [create(base) for base in (1, 3, 5, 7, 9)]


@pytest.mark.conformance("LogSegmentsTest.testBasicOperations")
def test_basic_operations(create: Create) -> None:
    first, second, third = create(40), create(80), create(40)
    segments: LogSegments[WritableSegment] = LogSegments()
    assert len(segments) == 0
    assert segments.add(first) is None
    assert (len(segments), 40 in segments, segments.get(40)) == (1, True, first)
    segments.add(second)
    assert (len(segments), 80 in segments, segments.get(80)) == (2, True, second)
    assert segments.add(third) is first
    assert (len(segments), 40 in segments, segments.get(40)) == (2, True, third)
    assert segments.remove(80) is second
    assert (len(segments), 80 in segments) == (1, False)
    segments.clear()
    assert (len(segments), 40 in segments) == (0, False)


@pytest.mark.conformance("LogSegmentsTest.testSegmentAccess")
def test_segment_access(create: Create) -> None:
    made = [create(base) for base in (1, 2, 3, 4)]
    segments: LogSegments[WritableSegment] = LogSegments()
    for segment in made:
        segments.add(segment)
        assert segments.first is made[0]
        assert segments.last is segment
    assert segments.base_offsets == [1, 2, 3, 4]
    assert list(segments) == made
    with pytest.raises(ValueError, match="above the limit"):
        segments.values(2, 1)
    for (start, stop), expected in {
        (1, 1): [],
        (1, 2): made[:1],
        (1, 3): made[:2],
        (1, 4): made[:3],
        (2, 4): made[1:3],
        (3, 4): made[2:3],
        (4, 4): [],
        (4, 5): made[3:],
    }.items():
        assert list(segments.values(start, stop)) == expected
    assert segments.active_segment is made[3]
    assert list(segments.non_active_from(2)) == made[1:3]
    assert list(segments.non_active_from(4)) == []


@pytest.mark.conformance("LogSegmentsTest.testClosestMatchOperations")
def test_closest_match_operations(five: list[WritableSegment]) -> None:
    first, second, third, fourth, _ = five
    segments = LogSegments(five[:4])
    assert segments.floor(2) is first
    assert segments.floor(3) is second
    assert segments.lower(3) is first
    assert segments.lower(4) is second
    assert segments.higher(4) is third
    assert segments.higher(5) is fourth


@pytest.mark.conformance("LogSegmentsTest.testHigherSegments")
def test_higher_segments(five: list[WritableSegment]) -> None:
    segments = LogSegments(five)
    assert list(segments.higher_segments(0)) == five
    assert list(segments.higher_segments(1)) == five[1:]
    assert list(segments.higher_segments(8)) == five[4:]
    assert list(segments.higher_segments(9)) == []


@dataclass(eq=False)
class Sized:
    """What is asked of a segment of which Kafka's test has a mock."""

    base_offset: int
    size: int

    def close(self) -> None:
        pass


@pytest.mark.conformance("LogSegmentsTest.testSizeForLargeLogs")
def test_size_for_large_logs() -> None:
    largest = 2**31 - 1
    assert LogSegments([Sized(0, largest)]).size == largest
    assert LogSegments([Sized(0, largest), Sized(1, largest)]).size == 2 * largest


@pytest.mark.conformance("LogSegmentsTest.testUpdateDir")
def test_update_dir(tmp_path: Path) -> None:
    folder = tmp_path / "topic-0"
    folder.mkdir()
    segment = create_segment(folder, 1)
    clock = MockClock()
    log = LocalLog(
        WritableLogFolder(folder, PARTITION, LogConfig(), MockScheduler(clock), clock),
        LogSegments([segment]),
        0,
        LogOffsetMetadata(1, 1, 0),
    )
    assert log.rename_dir("moved-0")
    assert {Path(path).parent for path in segment.files.paths} == {tmp_path / "moved-0"}
    log.close()


@pytest.mark.conformance("LogSegmentsTest.testCloseClosesAllLogSegmentsOnExceptionWhileClosingOne")
def test_close_closes_all_log_segments_on_exception_while_closing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [create_segment(tmp_path, offset) for offset in (0, 100, 200)]
    closed: list[int] = []
    close = WritableSegment.close

    def closing(segment: WritableSegment) -> None:
        closed.append(segment.base_offset)
        close(segment)
        if segment is made[1]:
            raise OSError("Failure")

    monkeypatch.setattr(WritableSegment, "close", closing)
    with pytest.raises(OSError, match="Failure"):
        LogSegments(made).close()
    assert closed == [0, 100, 200]
    assert all(segment.log.is_closed for segment in made)
