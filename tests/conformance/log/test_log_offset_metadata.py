"""What Kafka's LogOffsetMetadataTest asks of offsets with their place."""

from __future__ import annotations

import pytest

from engine.log.segment.fetch import (
    UNKNOWN_OFFSET_METADATA,
    is_offset_only,
    is_on_older_segment,
    is_on_same_segment,
    position_difference,
)
from engine.units import LogOffsetMetadata


@pytest.mark.conformance("LogOffsetMetadataTest.testOnOlderSegment")
def test_on_older_segment() -> None:
    first, second = LogOffsetMetadata(1, 0, 1), LogOffsetMetadata(5, 4, 2)
    only = LogOffsetMetadata(1)
    assert not is_on_older_segment(UNKNOWN_OFFSET_METADATA, UNKNOWN_OFFSET_METADATA)
    assert not is_on_older_segment(first, only)
    assert not is_on_older_segment(only, first)
    assert not is_on_older_segment(first, first)
    assert not is_on_older_segment(second, first)
    assert is_on_older_segment(first, second)


@pytest.mark.conformance("LogOffsetMetadataTest.testPositionDiff")
def test_position_diff() -> None:
    only, placed = LogOffsetMetadata(1), LogOffsetMetadata(5, 0, 5)
    with pytest.raises(ValueError, match="not known"):
        position_difference(only, placed)
    with pytest.raises(ValueError, match="not known"):
        position_difference(placed, only)
    elsewhere = LogOffsetMetadata(15, 10, 5)
    with pytest.raises(ValueError, match="different segments"):
        position_difference(elsewhere, placed)
    assert position_difference(LogOffsetMetadata(40, 10, 100), elsewhere) == 95


@pytest.mark.conformance("LogOffsetMetadataTest.testMessageOffsetOnly")
def test_message_offset_only() -> None:
    assert is_offset_only(UNKNOWN_OFFSET_METADATA)
    assert not is_offset_only(LogOffsetMetadata(1, 0, 1))
    assert is_offset_only(LogOffsetMetadata(1))


@pytest.mark.conformance("LogOffsetMetadataTest.testOnSameSegment")
def test_on_same_segment() -> None:
    first, second = LogOffsetMetadata(1, 0, 1), LogOffsetMetadata(5, 4, 2)
    assert not is_on_same_segment(first, second)
    assert is_on_same_segment(second, LogOffsetMetadata(10, 4, 200))
    assert not is_on_same_segment(LogOffsetMetadata(50), LogOffsetMetadata(100))
