"""Where a fetch of a reader stops, and the position that it reports."""

from __future__ import annotations

from pathlib import Path

from engine.log.segment.fetch import (
    UNKNOWN_OFFSET_METADATA,
    is_offset_only,
    offset_metadata,
    read_up_to,
)
from engine.units import LogOffsetMetadata
from tests.engine.log.folders import LogWriter


def test_nothing_is_fetched_that_could_be_above_the_bound(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for offset in range(5):
        writer.append_records(b"a")
        if offset % 2:
            writer.roll()
    view = writer.view()
    assert view.base_offsets == (0, 2, 4)

    def read(start: int, *bound: int) -> tuple[int, LogOffsetMetadata]:
        fetched, _ = read_up_to(
            view.segments_from, view.end_metadata, start, 2**31 - 1, LogOffsetMetadata(*bound)
        )
        return len(list(fetched.records.records())), fetched.fetch_offset_metadata

    size = len(writer.batches[-1])
    assert read(3, 4, 4, 0) == (1, LogOffsetMetadata(3, 2, size))
    assert read(4, 4, 4, 0) == (0, LogOffsetMetadata(4, 4, 0))
    assert read(5, 4, 4, 0) == (0, LogOffsetMetadata(5, 4, size))
    assert read(3, 4, -1, -1) == (0, LogOffsetMetadata(3, 2, size))
    assert read(2, 4, 0, 1000) == (0, LogOffsetMetadata(2, 2, 0))
    assert read(3, 4, 0, 40) == (0, LogOffsetMetadata(3, 2, size))


def test_an_offset_has_a_place_if_its_segment_or_its_position_is_known() -> None:
    assert is_offset_only(LogOffsetMetadata(7))
    assert is_offset_only(UNKNOWN_OFFSET_METADATA)
    assert UNKNOWN_OFFSET_METADATA.offset == -1
    for segment, position in ((0, -1), (-1, 0), (0, 0), (5, 9)):
        assert not is_offset_only(LogOffsetMetadata(7, segment, position))


def test_the_place_of_an_offset_is_that_of_the_batch_that_reaches_it(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"a", b"b")
    size = writer.records_file.stat().st_size
    writer.append_records(b"c")
    writer.roll()
    view = writer.view()
    places = {
        0: LogOffsetMetadata(0, 0, 0),
        1: LogOffsetMetadata(0, 0, 0),
        2: LogOffsetMetadata(2, 0, size),
        3: LogOffsetMetadata(3, 3, 0),
    }
    for offset, place in places.items():
        assert offset_metadata(view.segments_from, view.end_metadata, offset) == place


def test_a_bound_before_the_first_batch_leaves_no_bytes(tmp_path: Path) -> None:
    """Where offsets go back in the file, the batch of the bound may be before the first one."""
    writer = LogWriter(tmp_path)
    writer.append_records(b"a")
    size = writer.records_file.stat().st_size
    writer.append_records(b"b")
    segment = writer.view().active_segment
    assert segment is not None
    for bound, count in ((size - 1, 0), (size, 0), (2 * size, 1)):
        fetched = segment.read(1, 1000, bound)
        assert fetched is not None
        assert len(list(fetched.records.batches())) == count
        assert fetched.fetch_offset_metadata == LogOffsetMetadata(1, 0, size)
