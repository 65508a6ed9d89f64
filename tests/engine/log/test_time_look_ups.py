"""Look-ups by time: headers that state too large a time, markers after the last record, answers that are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_view import LogView
from engine.units import FoundTimestamp, TimestampOffset
from tests.builders import Producer, Rec, batch, end_marker, time_index
from tests.engine.log.folders import LogWriter

NOW = 1_700_000_000_000


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path)


def found_at(view: LogView, timestamp: int, *, records_only: bool = False) -> int | None:
    found = view.offset_for_time(timestamp, records_only=records_only)
    return None if found is None else found.offset


# Headers that are wrong


def test_a_batch_whose_header_states_a_later_time_than_its_records_have_is_passed(
    writer: LogWriter,
) -> None:
    writer.append_records(Rec(b"a", timestamp=NOW), max_timestamp=NOW + 500)
    writer.append_records(Rec(b"b", timestamp=NOW + 300))
    writer.roll(index_interval=None)
    writer.append_records(Rec(b"c", timestamp=NOW + 600))
    view = writer.view()
    assert [found_at(view, NOW + ms) for ms in (0, 100, 300, 400, 600, 601)] == [
        *(0, 1, 1, 2, 2, None)
    ]
    assert view.problems == []


def test_a_batch_that_does_not_inflate_is_passed_and_noted(writer: LogWriter) -> None:
    records = [Rec(b"a", timestamp=NOW + 900)]
    writer.append(batch(records, 0, CompressionType.GZIP, section=b"no gzip"))
    at = writer.records_file.stat().st_size
    writer.append(batch(records, 1, CompressionType.GZIP, section=b"nor this"))
    writer.append_records(Rec(b"b", timestamp=NOW + 900))
    view = writer.view()
    assert found_at(view, NOW + 800) == 2
    name = writer.records_file.name
    assert [
        (problem["kind"], problem["file"], problem["position"]) for problem in view.problems
    ] == [("records", f"topic-0/{name}", 0), ("records", f"topic-0/{name}", at)]


# Control records


def with_markers(writer: LogWriter, markers: int) -> LogSegment:
    """A segment above 64 KiB whose last batches are markers, each later than all before, and each in the indexes."""
    for number in range(8):
        writer.append_records(Rec(b"x" * 10_000, timestamp=NOW + number))
    for number in range(markers):
        made = end_marker(
            writer.next_offset, Producer(id=1), commit=True, timestamp=NOW + 100 + number
        )
        writer.append(made)
    writer.roll(index_interval=0)
    return writer.view().segment_at(0)


@pytest.mark.parametrize("markers", [0, 1, 5, 63, 64, 70])
def test_the_newest_record_is_told_apart_from_markers_after_it(
    writer: LogWriter, markers: int
) -> None:
    segment = with_markers(writer, markers)
    assert segment.newest(records_only=True) == TimestampOffset(NOW + 7, 7)
    last = TimestampOffset(NOW + 99 + markers, 7 + markers) if markers else (NOW + 7, 7)
    assert segment.max_timestamp == last
    assert segment.newest(records_only=True) == TimestampOffset(NOW + 7, 7)
    view = writer.view()
    assert found_at(view, NOW + 8, records_only=True) is None
    assert found_at(view, NOW + 8) == (8 if markers else None)
    assert found_at(view, NOW + 7, records_only=True) == 7


def test_without_entries_in_the_time_index_the_newest_record_is_found_all_the_same(
    writer: LogWriter,
) -> None:
    with_markers(writer, 3)
    index = writer.folder / f"{0:020}.timeindex"
    for data in (b"", time_index([(NOW + 50, 3)]), time_index([(NOW + 102, 10)])[:-1]):
        index.write_bytes(data)
        segment = writer.view().segment_at(0)
        assert segment.newest(records_only=True) == TimestampOffset(NOW + 7, 7)
        assert segment.max_timestamp == TimestampOffset(NOW + 102, 10)
    index.unlink()
    segment = writer.view().segment_at(0)
    assert segment.newest(records_only=True) == TimestampOffset(NOW + 7, 7)
    assert segment.max_timestamp == TimestampOffset(NOW + 102, 10)
    assert segment.files.problems.entries() == []


def test_an_entry_of_the_time_index_that_no_batch_confirms_is_noted_and_passed(
    writer: LogWriter,
) -> None:
    with_markers(writer, 0)
    index = writer.folder / f"{0:020}.timeindex"
    index.write_bytes(time_index([(NOW + 3, 3), (NOW + 50, 5)]))
    view = writer.view()
    segment = view.segment_at(0)
    assert segment.max_timestamp == TimestampOffset(NOW + 7, 7)
    (problem,) = view.problems
    assert (problem["kind"], problem["expected"]) == ("time_index", NOW + 50)
    assert problem["reason"] == "no batch with offset 5 has the timestamp of the index entry"
    assert problem["file"].endswith(index.name)


def test_a_search_by_time_reads_from_the_entry_of_the_time_index_on(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_markers(writer, 0)
    segment = writer.view().segment_at(0)
    starts = []
    scan = LogSegment.scan

    def noted(self: LogSegment, start: int = 0, *args: object, **options: object) -> object:
        starts.append(start)
        return scan(self, start, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LogSegment, "scan", noted)
    found = segment.find_timestamp(NOW + 6, 0)
    assert found == FoundTimestamp(NOW + 6, 6, 0)
    batch_size = segment.size // 8
    assert starts[-1] >= 5 * batch_size
    assert min(starts) > 0


# Answers that are kept


def test_an_answer_is_kept_and_all_are_forgotten_when_there_are_many(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):
        writer.append_records(Rec(b"v", timestamp=NOW + number))
    view = writer.view()
    asked = []
    find = LogSegment.find_timestamp

    def noted(self: LogSegment, timestamp: int, *args: object, **options: object) -> object:
        asked.append(timestamp)
        return find(self, timestamp, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LogSegment, "find_timestamp", noted)
    for _ in range(2):
        assert [found_at(view, NOW + number) for number in range(256)] == list(range(256))
    assert asked == list(range(NOW, NOW + 256))
    for number in (256, 0, 256, 0):
        assert found_at(view, NOW + number) == number
    assert asked[256:] == [NOW + 256, NOW]
    assert found_at(view, NOW, records_only=True) == 0
    assert asked[258:] == [NOW]


def test_an_answer_serves_later_views_until_the_log_start_passes_it(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        writer.append_records(Rec(b"v", timestamp=NOW + number))
    first = writer.next_view()
    assert [found_at(first, NOW + n) for n in (1, 3, 9)] == [1, 3, None]
    writer.append_records(Rec(b"v", timestamp=NOW + 9))
    find = LogSegment.find_timestamp
    asked = []

    def noted(self: LogSegment, timestamp: int, *args: object, **options: object) -> object:
        asked.append(timestamp - NOW)
        return find(self, timestamp, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(LogSegment, "find_timestamp", noted)
    grown = writer.next_view()
    assert [found_at(grown, NOW + n) for n in (1, 3, 9)] == [1, 3, 4]
    assert asked == [9]  # a time without a record may have one now
    writer.log_start(2)
    trimmed = writer.next_view()
    while trimmed is grown:
        trimmed = writer.next_view()
    assert [found_at(trimmed, NOW + n) for n in (1, 3, 9)] == [2, 3, 4]
    assert asked == [9, 1]


def test_the_first_of_the_newest_records_is_at_or_above_the_log_start(writer: LogWriter) -> None:
    for base, timestamp in enumerate((50, 90, 20, 90)):
        assert writer.append_records(Rec(b"v", timestamp=NOW + timestamp)) == base
        if base == 1:
            writer.roll()
    assert writer.view().max_timestamp == FoundTimestamp(NOW + 90, 1, 0)
    writer.log_start(2)
    assert writer.view().max_timestamp == FoundTimestamp(NOW + 90, 3, 0)


def test_records_without_times_have_no_newest(writer: LogWriter) -> None:
    assert writer.view().max_timestamp is None
    writer.append_records(Rec(b"v", timestamp=-1))
    assert writer.view().max_timestamp is None
    writer.append_records(Rec(b"v", timestamp=0))
    assert writer.view().max_timestamp == FoundTimestamp(0, 1, 0)


def test_the_newest_above_a_log_start_inside_a_segment_counts_markers_too(
    writer: LogWriter,
) -> None:
    writer.append_records(Rec(b"v", timestamp=NOW + 5), Rec(b"v", timestamp=NOW + 1))
    writer.append_records(Rec(b"v", timestamp=NOW + 2))
    writer.append(end_marker(3, Producer(id=1), commit=True, timestamp=NOW + 3))
    writer.log_start(2)
    assert writer.view().max_timestamp == FoundTimestamp(NOW + 3, 3, 0)


def test_what_later_views_know_of_segments_is_kept_apart_for_records_and_for_all(
    writer: LogWriter,
) -> None:
    writer.append_records(Rec(b"v", timestamp=NOW + 1))
    writer.append(end_marker(1, Producer(id=1), commit=True, timestamp=NOW + 9))
    writer.roll()
    writer.append_records(Rec(b"v", timestamp=NOW + 20))
    first = writer.next_view()
    assert [found_at(first, NOW + 3, records_only=only) for only in (False, True)] == [1, 2]
    writer.append_records(Rec(b"v", timestamp=NOW + 30))
    later = writer.next_view()
    assert [found_at(later, NOW + 5, records_only=only) for only in (False, True)] == [1, 2]
    assert [found_at(later, NOW + 25, records_only=only) for only in (False, True)] == [3, 3]


# How much is read


def newest_asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The base offsets of the segments that are asked for their newest time, from now on."""
    asked: list[int] = []
    newest = LogSegment.newest

    def noted(self: LogSegment, *, records_only: bool = False) -> TimestampOffset:
        asked.append(self.base_offset)
        return newest(self, records_only=records_only)

    monkeypatch.setattr(LogSegment, "newest", noted)
    return asked


def test_segments_behind_the_first_that_is_new_enough_are_not_asked(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        writer.append_records(Rec(b"v", timestamp=NOW + 10 * number))
        writer.roll()
    view = writer.view()
    asked = newest_asked(monkeypatch)
    assert found_at(view, NOW + 25) == 3
    assert asked == [0, 1, 2, 3, 3]
    asked.clear()
    assert found_at(view, NOW + 15) == 2
    assert asked == [2]  # the times of those before are known
    asked.clear()
    assert found_at(view, NOW + 35) == 4
    assert asked == [4, 4]


def test_the_newest_time_of_a_segment_is_looked_up_once(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = with_markers(writer, 3)
    known = segment.max_timestamp, segment.newest(records_only=True)
    monkeypatch.setattr(LogSegment, "scan", lambda *_, **__: pytest.fail("it is known"))
    assert (segment.max_timestamp, segment.newest(records_only=True)) == known


def test_an_entry_that_no_batch_confirms_is_looked_at_once(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_markers(writer, 0)
    index = writer.folder / f"{0:020}.timeindex"
    entries = [(NOW + 3, 3), (NOW + 50, 4), (NOW + 60, 5)]
    index.write_bytes(time_index(entries))
    sought = []
    seek = LogSegment.seek

    def noted(self: LogSegment, offset: int) -> object:
        sought.append(offset)
        return seek(self, offset)

    monkeypatch.setattr(LogSegment, "seek", noted)
    segment = writer.view().segment_at(0)
    assert segment.max_timestamp == TimestampOffset(NOW + 7, 7)
    assert sought == [5, 4, 3]
    sought.clear()
    assert segment.newest(records_only=True) == TimestampOffset(NOW + 7, 7)
    assert sought == [5, 4, 3]


def test_an_entry_of_the_time_index_past_the_log_is_passed(writer: LogWriter) -> None:
    """A broker that stopped suddenly may have kept the index, but not the end of the records file."""
    with_markers(writer, 0)
    index = writer.folder / f"{0:020}.timeindex"
    index.write_bytes(time_index([(NOW + 3, 3), (NOW + 50, 500)]))
    segment = writer.view().segment_at(0)
    assert segment.newest(records_only=True) == TimestampOffset(NOW + 7, 7)
    assert segment.max_timestamp == TimestampOffset(NOW + 7, 7)
