"""The open files of segments: which stay open, the hints of their indexes, and disks that fail under them."""

from __future__ import annotations

import errno
import os
import random
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from engine import kernel
from engine.errors import CorruptRecordError
from engine.files.source_files import SourceRoot
from engine.index.offset_index import OffsetIndex
from engine.index.position_hints import SmallIndexHints
from engine.index.slots import WARM_BYTES
from engine.lines.record_line import LineOptions
from engine.log.segment import open_segments, orders
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.open_segments import (
    INDEX_INTERVAL,
    SMALL_INDEX,
    IndexHints,
    NoHints,
    OpenSegments,
    SegmentFiles,
    UnreadHints,
    WalkedHints,
)
from engine.log.segment.problems import Problems
from engine.units import OffsetPosition
from tests.builders import Rec, batch, offset_index
from tests.engine.log.folders import LogWriter
from tests.unreadable import unreadable_bytes


class Source:
    """A folder with one-batch segments 0 to 9, and a pool for their files."""

    def __init__(self, folder: Path, most: int) -> None:
        for number in range(10):
            (folder / f"{number:020}.log").write_bytes(batch([Rec(b"v")], number))
        self.root = SourceRoot(str(folder))
        self.pool = OpenSegments(most)
        self.problems = Problems()
        self.segments = [LogSegment(self.files(number)) for number in range(10)]

    def files(self, number: int, **options: bool) -> SegmentFiles:
        return SegmentFiles(
            self.root, "", number, open_segments=self.pool, problems=self.problems, **options
        )

    def use(self, *numbers: int) -> None:
        for number in numbers:
            assert self.segments[number].batch(number) is not None

    @property
    def opened(self) -> list[int]:
        return [number for number, each in enumerate(self.segments) if each.files.opened]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


# Which stay open


def test_the_segment_that_was_opened_first_and_not_used_since_is_closed(folder: Path) -> None:
    source = Source(folder, 3)
    source.use(0, 1, 2, 3)
    # A look-up uses the files that it opened, so each has a second chance.
    assert (len(source.pool), len(source.opened)) == (3, 3)
    assert 3 in source.opened
    source.pool.let_all_go()
    assert (source.opened, len(source.pool)) == ([], 0)
    for number in (0, 1, 2):
        source.segments[number].files.ensure_open()
    source.segments[0].files.ensure_open()
    source.segments[3].files.ensure_open()
    assert source.opened == [0, 2, 3]
    source.segments[4].files.ensure_open()
    assert source.opened == [0, 3, 4]


def test_a_segment_that_was_closed_elsewhere_takes_no_place(folder: Path) -> None:
    source = Source(folder, 2)
    for number in (0, 1):
        source.segments[number].files.ensure_open()
    source.segments[0].close()
    assert source.opened == [1]
    source.segments[2].files.ensure_open()
    assert (source.opened, len(source.pool)) == ([1, 2], 2)


def test_one_segment_at_least_stays_open(folder: Path) -> None:
    source = Source(folder, 0)
    for number in range(4):
        source.segments[number].files.ensure_open()
        assert source.opened == [number]


def test_files_that_are_kept_are_not_in_the_pool(folder: Path) -> None:
    source = Source(folder, 1)
    kept = source.files(0, keep=True)
    kept.ensure_open()
    assert len(source.pool) == 0
    source.use(1, 2, 3)
    assert kept.opened is not None


# Hints


def test_the_entries_of_a_small_index_are_floors(folder: Path) -> None:
    hints = SmallIndexHints(offset_index([(103, 10), (105, 20), (109, 30)], 100), 100)
    places = {99: (100, 0), 100: (100, 0), 102: (100, 0), 103: (103, 10), 104: (103, 10)}
    places |= {105: (105, 20), 108: (105, 20), 109: (109, 30), 2**40: (109, 30)}
    for offset, found in places.items():
        assert hints.floor(offset) == found
        assert hints.position(offset) == found[1]


def test_an_index_without_entries_and_one_of_zeros_hint_at_the_start() -> None:
    for hints in (SmallIndexHints(b"", 7), SmallIndexHints(bytes(80), 7), NoHints(7)):
        assert hints.floor(50) == OffsetPosition(7, 0)
        assert hints.position(50) == 0


def test_a_position_below_zero_is_no_hint() -> None:
    hints = SmallIndexHints(offset_index([(3, -5), (9, 40)]), 0)
    assert (hints.floor(4), hints.position(4)) == ((0, 0), 0)
    assert (hints.floor(9), hints.position(9)) == ((9, 40), 40)


def test_an_index_of_the_size_limit_is_kept_and_a_larger_one_is_read_when_asked(
    folder: Path,
) -> None:
    (folder / f"{0:020}.log").write_bytes(batch([Rec(b"v")]))
    index = folder / f"{0:020}.index"
    for extra, is_kept in ((0, True), (8, False)):
        count = (SMALL_INDEX + extra) // 8
        index.write_bytes(offset_index((n, n * 10) for n in range(1, count + 1)))
        files = SegmentFiles(
            SourceRoot(str(folder)), "", 0, open_segments=OpenSegments(), problems=Problems()
        )
        hints = files.ensure_open().hints
        assert isinstance(hints, SmallIndexHints) is is_kept
        for offset in (0, 1, 77, count - 1, count, count + 5):
            at = min(offset, count)
            assert hints.floor(offset) == (at, at * 10)
            assert hints.position(offset) == at * 10
            assert hints.known_position(offset) in ((at * 10,) if is_kept else (at * 10, None))
        again = SegmentFiles(
            SourceRoot(str(folder)), "", 0, open_segments=OpenSegments(), problems=Problems()
        )
        hints = again.ensure_open().hints
        index.unlink()
        after = (5, 50) if is_kept else (0, 0)
        assert (hints.floor(5), hints.position(5)) == (after, after[1])
        assert again.problems.entries() == []


PAGE = WARM_BYTES // 8


def index_hints(folder: Path, data: bytes) -> IndexHints:
    """Hints of an index with these bytes; its segment starts at offset 1000."""
    (folder / "an.index").write_bytes(data)
    root = SourceRoot(str(folder))
    index = OffsetIndex(lambda: root.open("an.index"), 1000)
    return IndexHints(index, lambda error: pytest.fail(str(error)))


def entries(count: int, distance: int) -> bytes:
    """An entry for each offset from 1000 on, whose batches have `distance` bytes."""
    return offset_index(((1000 + n, n * distance) for n in range(count)), 1000)


def test_a_position_of_a_large_index_is_known_near_one_that_was_asked_for(folder: Path) -> None:
    hints = index_hints(folder, entries(20 * PAGE, 10))
    first, last = 1000 + 5 * PAGE, 1000 + 6 * PAGE - 1
    near = (first - 1, first, last - 1, last)
    assert [hints.known_position(offset) for offset in near] == [None] * 4
    assert hints.position(first + 7) == 10 * (5 * PAGE + 7)
    assert [hints.known_position(offset) for offset in near] == [
        *(None, 10 * 5 * PAGE, 10 * (6 * PAGE - 2)),
        None,  # the entry behind it may be on the next page
    ]


def test_positions_of_a_large_index_are_known_on_eight_pages(folder: Path) -> None:
    hints = index_hints(folder, entries(20 * PAGE, 10))
    pages = [1000 + number * PAGE for number in range(12)]
    for offset in pages:
        hints.position(offset)
    known = [hints.known_position(offset) is not None for offset in pages]
    assert known == [False] * 4 + [True] * 8


def test_what_an_index_says_now_takes_the_place_of_what_was_known(folder: Path) -> None:
    hints = index_hints(folder, entries(20 * PAGE, 10))
    assert hints.position(1010) == hints.known_position(1010) == 100
    (folder / "an.index").write_bytes(entries(30 * PAGE, 20))
    time.sleep(0.06)  # the index's size is asked for 20 times a second
    assert hints.position(1010) == hints.known_position(1010) == 200


def test_an_index_in_disorder_gives_hints_and_no_error(folder: Path) -> None:
    numbers = random.Random(3)
    hints = index_hints(folder, numbers.randbytes(10 * WARM_BYTES))
    for _ in range(200):
        offset = 1000 + numbers.randrange(2**31)
        assert hints.position(offset) >= 0
        assert (hints.known_position(offset) or 0) >= 0


def test_places_that_were_walked_are_an_index_interval_apart() -> None:
    hints = WalkedHints(NoHints(0))
    for number, position in enumerate((0, INDEX_INTERVAL - 1, INDEX_INTERVAL, INDEX_INTERVAL + 1)):
        hints.append(number, position)
    assert [hints.floor(offset) for offset in range(5)] == [
        *((0, 0), (0, 0)),
        *[(2, INDEX_INTERVAL)] * 3,
    ]
    hints.append(2, 3 * INDEX_INTERVAL)  # an offset that was there before
    assert hints.floor(9) == (2, INDEX_INTERVAL)


def test_the_position_behind_walked_places_is_known_once_the_index_was_read() -> None:
    read = []

    def read_index() -> SmallIndexHints:
        read.append(True)
        return SmallIndexHints(offset_index([(3, 10), (5, 20)]), 0)

    hints = WalkedHints(UnreadHints(read_index))
    hints.append(8, INDEX_INTERVAL)
    assert (hints.known_position(9), hints.known_position(5), read) == (INDEX_INTERVAL, None, [])
    assert hints.position(5) == hints.known_position(5) == 20
    assert NoHints(0).known_position(5) == 0


def test_of_many_batches_in_a_row_one_in_each_interval_is_walked_to(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for _ in range(300):
        writer.append_records(b"x" * 80)
    view = writer.view()
    segment = view.active_segment
    assert segment is not None
    hints = segment.files.ensure_open().hints
    places = sorted({hints.floor(offset) for offset in range(300)})
    size = segment.end // 300
    assert places == [(at // size, at) for _, at in places]
    steps = [after.position - before.position for before, after in pairwise(places)]
    assert all(INDEX_INTERVAL <= step < 2 * INDEX_INTERVAL for step in steps)
    assert places[0] == (0, 0)
    assert segment.end - places[-1].position < 2 * INDEX_INTERVAL


# Disks that fail


def test_a_look_up_that_meets_unreadable_bytes_is_an_error_of_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "WHOLE_FILE", 0)  # as for a large file, which is not read first
    writer = LogWriter(tmp_path)
    for number in range(40):
        writer.append_records(b"%02d" % number * 250)
    writer.roll(index_interval=None)
    segment = writer.view().segment_at(0)
    size = segment.size // 40
    path = writer.folder / f"{0:020}.log"
    with unreadable_bytes({path: [(20 * size, 20 * size + 512)]}):
        assert segment.record(10) is not None
        with pytest.raises(CorruptRecordError):
            segment.batch(20)
        assert segment.record(20) is None
        assert segment.line(20, LineOptions("topic", 0)) is None
        assert segment.record(10) is None  # some bytes of the way are known to be unreadable
        assert segment.line(10, LineOptions("topic", 0)) is None
        found = segment.batch(10)
        assert found is not None
        assert found.base_offset == 10
        located = segment.locate(30)
        assert located is not None
        assert located.base_offset == 30


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_an_error_of_the_medium_leads_to_a_search_and_another_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"a")
    segment = writer.view().active_segment
    assert segment is not None

    def fails(*_: object, **__: object) -> object:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(kernel, "locate", fails)
    if number == errno.EIO:
        located = segment.locate(0)
        assert located is not None
        assert located.base_offset == 0
    else:
        with pytest.raises(OSError, match="Stale"):
            segment.locate(0)


def test_a_file_that_could_not_be_opened_is_tried_again_after_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(tmp_path, 4)
    files = source.segments[0].files
    open_fresh = SourceRoot.open_fresh

    def fails(self: SourceRoot, relative: str, *, is_listed: bool = False) -> object:
        number = errno.EIO if relative.endswith(".log") else errno.ENOENT
        raise OSError(number, os.strerror(number), relative)

    now = [1000.0]
    monkeypatch.setattr(open_segments, "monotonic", lambda: now[0])
    monkeypatch.setattr("engine.files.unopened_file.monotonic", lambda: now[0], raising=False)
    monkeypatch.setattr(SourceRoot, "open_fresh", fails)
    unopened = files.ensure_open()
    assert [problem["kind"] for problem in source.problems.entries()] == ["unreadable"]
    monkeypatch.setattr(SourceRoot, "open_fresh", open_fresh)
    for seconds, is_same in ((0.0, True), (1.0, True), (1.1, False)):
        now[0] = 1000.0 + seconds
        assert (files.ensure_open() is unopened) is is_same
    assert source.segments[0].batch(0) is not None


@pytest.mark.parametrize("number", [errno.ENOENT, errno.ESTALE])
def test_an_error_that_is_not_of_the_medium_is_raised_when_a_segment_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    source = Source(tmp_path, 4)

    def fails(self: SourceRoot, relative: str, *, is_listed: bool = False) -> object:
        raise OSError(number, os.strerror(number), relative)

    monkeypatch.setattr(SourceRoot, "open_fresh", fails)
    with pytest.raises(OSError, match=os.strerror(number)):
        source.segments[0].files.ensure_open()
    assert source.problems.entries() == []


# Problems


def test_problems_that_another_process_found_are_added_once() -> None:
    mine, other = Problems("t-0", most=3), Problems("t-0")
    mine.add("kind", "a", "reason", position=1)
    other.add("kind", "a", "the same place", position=1)
    other.add("kind", "a", "reason", position=2)
    other.add("kind", "b", "reason")
    mine.take(other.entries())
    assert [(each["file"], each.get("position"), each["reason"]) for each in mine.entries()] == [
        *(("a", 1, "reason"), ("a", 2, "reason"), ("b", None, "reason"))
    ]
    mine.add("kind", "c", "reason")
    assert [each["file"] for each in mine.entries()] == ["a", "b", "c"]
    assert len(mine) == 3


def test_a_large_index_that_fails_is_a_problem_and_the_segment_is_read_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path)
    for _ in range(3):
        writer.append_records(b"v")
    writer.roll(index_interval=None)
    index = writer.folder / f"{0:020}.index"
    index.write_bytes(offset_index((n, 0) for n in range(1, SMALL_INDEX // 8 + 10)))
    view = writer.view()
    segment = view.segment_at(0)
    segment.files.ensure_open()

    def fails(self: SourceRoot, relative: str) -> object:
        raise OSError(errno.EIO, os.strerror(errno.EIO), relative)

    monkeypatch.setattr(SourceRoot, "open", fails)
    found = segment.batch(2)
    assert found is not None
    assert found.base_offset == 2
    assert {(each["kind"], each["errno"]) for each in view.problems} == {("offset_index", "EIO")}


def test_the_active_segment_of_a_log_without_segments_is_an_error() -> None:
    from engine.log.log_segments import LogSegments

    segments: LogSegments[LogSegment] = LogSegments()
    with pytest.raises(LookupError, match="has no active one"):
        assert segments.active_segment
    assert segments.first is segments.last is None
    with pytest.raises(ValueError, match="above the limit"):
        segments.values(5, 4)
    assert list(segments.values(5, 5)) == []
