"""Positions that divide a segment: with an index, without one, and with one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from engine.log.log_directory import open_source
from engine.log.segment.batch_search import Extent
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.segment_cuts import Cut, cut, pieces_from_the_end
from tests.builders import Rec, batch, message_set, offset_index
from tests.engine.log.folders import LogWriter

COUNT = 200


def made(damaged: int | None = None) -> list[bytes]:
    batches = [batch([Rec(b"x" * 400)] * 2, 2 * number) for number in range(COUNT)]
    if damaged is not None:
        batches[damaged] = batches[damaged][:-1] + b"?"
    return batches


def complete(
    folder: Path, batches: list[bytes], *, interval: int | None = 4096, next_base: int = 2 * COUNT
) -> LogSegment:
    writer = LogWriter(folder)
    writer.append(*batches)
    writer.roll(base_offset=next_base, index_interval=interval)
    return writer.view().segment_at(0)


def whole(segment: LogSegment) -> Extent:
    return Extent(0, segment.end, 0)


@pytest.mark.parametrize("interval", [1, 4096, None], ids=["all", "usual", "no index"])
@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
def test_a_segment_is_cut_into_about_equal_pieces_at_batches(
    tmp_path: Path, interval: int | None, pieces: int
) -> None:
    segment = complete(tmp_path, made(), interval=interval)
    size = segment.end // COUNT
    found = cut(segment, whole(segment), pieces)
    assert len(found) == pieces - 1
    for number, each in enumerate(found, 1):
        target = segment.end * number // pieces
        assert target <= each.position < target + 4096 + 2 * size
        assert each == Cut(each.position, 2 * (each.position // size), each.base_offset)
        assert each.position % size == 0
        if interval != 4096:
            assert each.position < target + size
    assert found == sorted(set(found))


def test_a_part_of_a_segment_is_cut_inside_it(tmp_path: Path) -> None:
    segment = complete(tmp_path, made(), interval=1)
    size = segment.end // COUNT
    part = Extent(20 * size, 60 * size, 40)
    assert [each.position // size for each in cut(segment, part, 4)] == [30, 40, 50]
    no_index = complete(tmp_path / "again", made(), interval=None)
    assert cut(no_index, part, 4) == cut(segment, part, 4)


@pytest.mark.parametrize("interval", [1, None])
def test_fewer_batches_than_pieces_are_cut_once_each(tmp_path: Path, interval: int | None) -> None:
    segment = complete(tmp_path, made()[:3], interval=interval, next_base=6)
    size = segment.end // 3
    found = cut(segment, whole(segment), 20)
    assert [each.position for each in found] == [size, 2 * size]


def test_a_segment_without_batches_has_no_cuts(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.records_file.write_bytes(b"\xfe" * 5000)
    writer.roll(base_offset=9, index_interval=None)
    segment = writer.view().segment_at(0)
    assert cut(segment, whole(segment), 4) == []


@pytest.mark.parametrize(
    "index",
    [
        b"\x01" * 7,
        offset_index([]),
        offset_index([(2 * n, 37 * n) for n in range(1, COUNT)]),
        offset_index([(2 * n, 10**8 + n) for n in range(1, COUNT)]),
    ],
    ids=["odd length", "empty", "no batches there", "behind the end"],
)
def test_an_index_that_leads_to_no_batch_is_not_used(tmp_path: Path, index: bytes) -> None:
    segment = complete(tmp_path, made(), interval=None)
    expected = cut(segment, whole(segment), 5)
    (tmp_path / "topic-0" / f"{0:020}.index").write_bytes(index)
    segment = open_source(str(tmp_path)).partitions()["topic-0"].view().segment_at(0)
    assert cut(segment, whole(segment), 5) == expected
    assert len(expected) == 4


@pytest.mark.parametrize("interval", [1, None])
def test_a_cut_is_not_in_damage_but_behind_it(tmp_path: Path, interval: int | None) -> None:
    """A batch with damage after it may be part of a value."""
    segment = complete(tmp_path, made(damaged=100), interval=interval)
    size = segment.end // COUNT
    (middle,) = cut(segment, whole(segment), 2)
    assert middle == Cut(101 * size, 202, 202)
    if interval is not None:
        near = Extent(98 * size, 100 * size, 0)
        assert cut(segment, near, 2) == [Cut(99 * size, 198, 198)]


@pytest.mark.parametrize("interval", [1, None])
def test_a_cut_at_an_old_wrapper_has_the_offset_of_its_first_record(
    tmp_path: Path, interval: int | None
) -> None:
    batches = [
        message_set([Rec(b"x" * 400)] * 3, 3 * n, CompressionType.GZIP, magic=1) for n in range(9)
    ]
    segment = complete(tmp_path, batches, interval=interval, next_base=27)
    (found,) = cut(segment, whole(segment), 2)
    number = sum(sum(map(len, batches[:n])) < found.position for n in range(9))
    assert (found.base_offset, found.first_offset) == (3 * number + 2, 3 * number)


def indexed(folder: Path, entries: list[int]) -> tuple[LogSegment, int]:
    """A segment with index entries at the batches of these numbers, and the size of a batch."""
    writer = LogWriter(folder)
    writer.append(*made())
    size = writer.records_file.stat().st_size // COUNT
    writer.roll(base_offset=2 * COUNT, index_interval=None)
    index = offset_index([(2 * number, number * size) for number in entries])
    (writer.folder / f"{0:020}.index").write_bytes(index)
    return writer.view().segment_at(0), size


def test_cuts_are_where_the_index_has_entries_and_no_place_is_cut_twice(tmp_path: Path) -> None:
    segment, size = indexed(tmp_path, [50, 100, 150, 190, 199])
    for pieces, expected in ((2, [100]), (4, [50, 100, 150]), (8, [50, 100, 150, 190])):
        found = cut(segment, whole(segment), pieces)
        assert [each.position // size for each in found] == expected


@pytest.mark.parametrize(("past", "number"), [(-1, 60), (0, 60), (1, 61)])
def test_a_cut_is_the_first_entry_at_or_after_its_target(
    tmp_path: Path, past: int, number: int
) -> None:
    segment, size = indexed(tmp_path, [40, 60, 61, 80])
    middle = Extent(60 * size + past - 100, 60 * size + past + 100, 120)
    wide = middle._replace(start=20 * size, stop=100 * size + 2 * past)
    assert cut(segment, wide, 2) == [Cut(number * size, 2 * number, 2 * number)]


def test_only_a_part_of_an_index_leaves_the_segment_to_be_read(tmp_path: Path) -> None:
    """An index that is cut inside an entry is not of a segment that was closed in order."""
    segment, size = indexed(tmp_path, [50, 120])
    assert [each.position // size for each in cut(segment, whole(segment), 2)] == [120]
    index = tmp_path / "topic-0" / f"{0:020}.index"
    index.write_bytes(index.read_bytes() + b"\0")
    segment = open_source(str(tmp_path)).partitions()["topic-0"].view().segment_at(0)
    assert [each.position // size for each in cut(segment, whole(segment), 2)] == [100]


def test_pieces_from_the_end_follow_one_another_down_to_the_start(tmp_path: Path) -> None:
    segment = complete(tmp_path, made(), interval=1)
    size = segment.end // COUNT
    found = list(
        pieces_from_the_end(segment, Extent(10 * size, segment.end, 20), 30 * size, 30 * size)
    )
    assert found[0].stop == segment.end
    assert [each.stop for each in found[1:]] == [each.start for each in found[:-1]]
    assert [each.start // size for each in found] == [170, 140, 110, 80, 50, 20, 10]
    assert [each.next_offset for each in found] == [2 * each.start // size for each in found]


def test_a_piece_is_larger_where_the_index_has_no_entry(tmp_path: Path) -> None:
    segment, size = indexed(tmp_path, [50, 55, 190])
    found = list(pieces_from_the_end(segment, whole(segment), 20 * size, 20 * size))
    assert [(each.start // size, each.stop // size) for each in found] == [
        (190, 200),
        (50, 190),
        (0, 50),
    ]


@pytest.mark.parametrize("interval", [1, None])
def test_without_an_index_or_when_it_is_small_an_extent_is_one_piece(
    tmp_path: Path, interval: int | None
) -> None:
    segment = complete(tmp_path, made(), interval=interval)
    size = segment.end if interval else 1000
    assert list(pieces_from_the_end(segment, whole(segment), size, size)) == [whole(segment)]


def test_pieces_grow_up_to_the_largest(tmp_path: Path) -> None:
    segment = complete(tmp_path, made(), interval=1)
    size = segment.end // COUNT
    found = pieces_from_the_end(segment, whole(segment), 10 * size, 60 * size)
    assert [each.start // size for each in found] == [190, 170, 130, 70, 10, 0]
