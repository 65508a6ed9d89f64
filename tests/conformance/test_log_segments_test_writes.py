"""What Kafka's LogSegmentsTest asks of segments with files."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.log_segments import LogSegments
from engine.units import LogOffsetMetadata
from engine.writing.log.local_log import LocalLog
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.segment.writable_segment import WritableSegment
from tests.clocks import MockClock, MockScheduler
from tests.conformance.writable_segments import PARTITION, create_segment


@pytest.mark.conformance("LogSegmentsTest.testUpdateDir")
def test_update_dir(tmp_path: Path) -> None:
    folder = tmp_path / "topic-0"
    folder.mkdir()
    segment = create_segment(folder, 1)
    clock = MockClock()
    log = LocalLog(
        folder,
        LogConfig(),
        LogSegments([segment]),
        0,
        LogOffsetMetadata(1, 1, 0),
        MockScheduler(clock),
        clock,
        PARTITION,
        LogDirFailureChannel(),
    )
    assert log.rename_dir("moved-0")
    assert {Path(path).parent for path in segment.paths} == {tmp_path / "moved-0"}
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
