"""What Kafka's LocalLogTest asks of rolling and truncating."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import StateError
from tests.conformance.local_logs import LocalLogSetUp, key_values


@pytest.fixture
def made(tmp_path: Path) -> Iterator[LocalLogSetUp]:
    made = LocalLogSetUp(tmp_path)
    yield made
    made.log.close_handlers()


@pytest.mark.conformance("LocalLogTest.testCreateAndDeleteSegment")
def test_create_and_delete_segment(made: LocalLogSetUp) -> None:
    made.append_a(0)
    old = made.log.segments.active_segment
    new = made.log.create_and_delete_segment(old.base_offset + 1, old, True, "of a test")
    assert list(made.log.segments) == [new]
    assert new is not old
    assert old.files.has_suffix(".deleted")
    assert new.base_offset == 1
    assert made.log.recovery_point == 0
    assert made.log.log_end_offset == 1
    assert key_values(made.read(1)) == []


@pytest.mark.conformance("LocalLogTest.testTruncateFullyAndStartAt")
def test_truncate_fully_and_start_at(made: LocalLogSetUp) -> None:
    for offset in range(8):
        made.append_a(offset)
        if offset % 2:
            made.log.roll(0)
    for offset in range(8, 13):
        made.append_a(offset)
    assert len(made.log.segments) == 5
    assert made.log.segments.active_segment.base_offset != 10
    before = list(made.log.segments)
    assert made.log.truncate_fully_and_start_at(10) == before
    assert len(made.log.segments) == 1
    assert made.log.segments.active_segment.base_offset == 10
    assert made.log.recovery_point == 0
    assert made.log.log_end_offset == 10
    assert key_values(made.read(10)) == []


@pytest.mark.conformance("LocalLogTest.testTruncateTo")
def test_truncate_to(made: LocalLogSetUp) -> None:
    for offset in range(12):
        made.append_a(offset)
        if offset % 3 == 2:
            made.log.roll(0)
    assert len(made.log.segments) == 5
    assert made.log.log_end_offset == 12
    going = list(made.log.segments.values(9, made.log.log_end_offset + 1))
    assert made.log.truncate_to(7) == going
    assert len(made.log.segments) == 3
    assert made.log.segments.active_segment.base_offset == 6
    assert made.log.recovery_point == 0
    assert made.log.log_end_offset == 7
    assert key_values(made.read(6)) == [("", "a")]
    made.append_a(7)
    assert made.log.log_end_offset == 8


@pytest.mark.conformance("LocalLogTest.testNonActiveSegmentsFrom")
def test_non_active_segments_from(made: LocalLogSetUp) -> None:
    for offset in range(5):
        made.append(offset, (str(offset), str(offset)))
        made.log.roll(0)

    def bases(start: int) -> list[int]:
        return [segment.base_offset for segment in made.log.segments.non_active_from(start)]

    assert made.log.segments.active_segment.base_offset == 5
    assert bases(0) == [0, 1, 2, 3, 4]
    assert bases(5) == []
    assert bases(2) == [2, 3, 4]
    assert bases(6) == []


@pytest.mark.conformance("LocalLogTest.testRollSegmentThatAlreadyExists")
def test_roll_segment_that_already_exists(made: LocalLogSetUp) -> None:
    assert len(made.log.segments) == 1
    made.log.roll(0)
    assert len(made.log.segments) == 1
    made.append(0, ("k1", "v1"))
    assert made.log.segments.active_segment.base_offset == 0
    made.append(1, ("k2", "v2"), later_ms=10)
    assert made.log.log_end_offset == 2
    assert key_values(made.read()) == [("k1", "v1"), ("k2", "v2")]
    made.log.roll(0)
    assert made.log.segments.active_segment.base_offset == 2
    assert len(made.log.segments) == 2
    assert made.log.log_end_offset == 2


@pytest.mark.conformance("LocalLogTest.testNewSegmentsAfterRoll")
def test_new_segments_after_roll(made: LocalLogSetUp) -> None:
    assert len(made.log.segments) == 1
    expected = [(0, 0, 1), (0, 1, 2), (1, 2, 3)]
    for offset, (roll_at, base, count) in enumerate(expected):
        segment = made.log.roll(roll_at)
        assert segment.base_offset == base
        assert len(made.log.segments) == count
        assert made.log.log_end_offset == base
        made.append(offset, (f"k{offset + 1}", f"v{offset + 1}"))


@pytest.mark.conformance("LocalLogTest.testRollSegmentErrorWhenNextOffsetIsIllegal")
def test_roll_segment_error_when_next_offset_is_illegal(made: LocalLogSetUp) -> None:
    made.append(0, ("k1", "v1"), ("k2", "v2"), ("k3", "v3"))
    assert made.log.segments.active_segment.base_offset == 0
    assert made.log.log_end_offset == 3
    made.log.roll(0)
    assert made.log.segments.active_segment.base_offset == 3
    made.log.update_log_end_offset(1)
    with pytest.raises(StateError, match="below its active"):
        made.log.roll(0)
    assert len(made.log.segments) == 2


@pytest.mark.conformance("LocalLogTest.testFlushingNonExistentDir")
def test_flushing_non_existent_dir(made: LocalLogSetUp) -> None:
    made.append_a(0)
    made.clock.sleep(1)
    segment = made.log.roll(0)
    shutil.move(made.folder, made.folder.with_name("__NON_EXISTENT__"))
    made.log.flush(segment.base_offset)
    assert not made.folder.exists()
