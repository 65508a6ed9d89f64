"""The map of holes: exact in bytes, and in the offsets that the batches around a hole leave."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.verdict.holes import Hole, HoleMap
from tests import fixtures_data
from tests.builders import batch, patched
from tests.engine.check.logs import change, keyed, log_of, look, plain, write

SIZE = len(plain(0))


def holes(folder: Path) -> list[Hole]:
    (log,) = open_source(str(folder)).partitions().values()
    return holes_of(log.view())


def holes_of(view: LogView) -> list[Hole]:
    """The map of holes of a whole log, made segment by segment as the check does."""
    found: list[Hole] = []
    next_offset = 0
    bases = [*view.base_offsets, None]
    for place, base in enumerate(view.base_offsets):
        segment = view.segment_at(place)
        holes = HoleMap(view.name, segment, bases[place + 1], next_offset)
        for item in segment.scan(0, segment.tail_end, next_offset=base):
            found.extend(holes.add(item))
        found.extend(holes.end())
        next_offset = holes.next_offset
    return found


def bounds(folder: Path) -> list[tuple[int, int, int, int | None]]:
    return [
        (each.position, each.length, each.first_offset, each.next_offset) for each in holes(folder)
    ]


def five(tmp_path: Path) -> Path:
    return write(tmp_path / "t-0", {0: [plain(base) for base in range(0, 25, 5)]})


def test_a_sound_log_has_no_holes(tmp_path: Path) -> None:
    assert holes(five(tmp_path)) == []


def test_a_damaged_batch_is_a_hole_of_its_bytes_and_offsets(tmp_path: Path) -> None:
    folder = five(tmp_path)
    change(log_of(folder), lambda data: data.__setitem__(SIZE + 80, 0xFF))
    (hole,) = holes(folder)
    assert (hole.position, hole.length, hole.first_offset, hole.next_offset) == (SIZE, SIZE, 5, 10)
    assert hole.kinds == ("crc_mismatch",)
    assert hole.stated == ((5, 10),)
    assert (hole.offsets, hole.base_offset, hole.partition) == (5, 0, "t-0")


def test_adjacent_damage_is_one_hole(tmp_path: Path) -> None:
    folder = five(tmp_path)
    change(
        log_of(folder),
        lambda data: data.__setitem__(slice(SIZE + 3, 3 * SIZE - 3), bytes(2 * SIZE - 6)),
    )
    assert bounds(folder) == [(SIZE, 2 * SIZE, 5, 15)]


@pytest.mark.parametrize("stated", [SIZE - 13, SIZE - 11, 3 * SIZE - 12, 1 << 30, 0, -1])
def test_a_wrong_length_costs_only_its_own_batch(stated: int, tmp_path: Path) -> None:
    folder = five(tmp_path)
    length = stated.to_bytes(4, "big", signed=True)
    change(log_of(folder), lambda data: data.__setitem__(slice(SIZE + 8, SIZE + 12), length))
    assert bounds(folder) == [(SIZE, SIZE, 5, 10)]


def test_damage_at_the_start_and_at_the_end_of_a_segment_ends_at_its_neighbours(
    tmp_path: Path,
) -> None:
    folder = write(
        tmp_path / "t-0", {0: [plain(0), plain(5)], 10: [plain(10), plain(15)], 20: [plain(20)]}
    )
    change(log_of(folder, 10), lambda data: data.__setitem__(slice(0, 30), bytes(30)))
    change(log_of(folder, 0), lambda data: data.__delitem__(slice(2 * SIZE - 10, 2 * SIZE)))
    assert bounds(folder) == [(SIZE, SIZE - 10, 5, 10), (0, SIZE, 10, 15)]


def test_at_the_log_end_nothing_tells_how_many_offsets_are_lost(tmp_path: Path) -> None:
    folder = five(tmp_path)
    change(log_of(folder), lambda data: data.__delitem__(slice(5 * SIZE - 10, 5 * SIZE)))
    (hole,) = holes(folder)
    assert (hole.position, hole.length, hole.first_offset, hole.next_offset) == (
        4 * SIZE,
        SIZE - 10,
        20,
        None,
    )
    assert hole.offsets is None


def test_zeros_of_a_preallocated_file_are_no_hole(tmp_path: Path) -> None:
    folder = five(tmp_path)
    change(log_of(folder), lambda data: data.extend(bytes(1000)))
    assert holes(folder) == []


def test_zeros_at_a_segments_end_are_a_hole_where_offsets_are_missing(tmp_path: Path) -> None:
    folder = write(tmp_path / "t-0", {0: [plain(0)], 10: [plain(10)]})
    change(log_of(folder), lambda data: data.extend(bytes(1000)))
    assert bounds(folder) == [(SIZE, 1000, 5, 10)]


def test_a_batch_inside_of_a_damaged_ones_value_is_not_taken_for_one_of_the_log(
    tmp_path: Path,
) -> None:
    inner = plain(7)
    outer = batch([*keyed(5), keyed(6)[0]._replace(value=inner), *keyed(7, 8, 9)], 5)
    folder = write(tmp_path / "t-0", {0: [plain(0), outer, plain(10)]})
    change(log_of(folder), lambda data: data.__setitem__(SIZE + 70, data[SIZE + 70] ^ 1))
    assert bounds(folder) == [(SIZE, len(outer), 5, 10)]


def test_check_reports_the_same_map(tmp_path: Path) -> None:
    folder = five(tmp_path)
    change(log_of(folder), lambda data: data.__setitem__(SIZE + 80, 0xFF))
    _, (summary,) = look(folder)
    assert summary.holes == holes(folder)


def test_random_hits_leave_every_other_batch_and_an_exact_map(tmp_path: Path) -> None:
    chosen = random.Random(5)
    folder = write(tmp_path / "t-0", {0: [plain(base) for base in range(0, 500, 5)]})
    clean = log_of(folder).read_bytes()
    seen = 0
    for _ in range(200):
        at = chosen.randrange(len(clean))
        length = chosen.choice([1, 1, 1, 4, 40, 400])
        hit = bytes(byte ^ chosen.randrange(1, 256) for byte in clean[at : at + length])
        data = patched(clean, at, hit)
        pairs = [(data[n : n + SIZE], clean[n : n + SIZE]) for n in range(0, len(clean), SIZE)]
        if any(_has_another_offset(*pair) for pair in pairs):
            continue  # a good batch at another place: no hole, or part of one
        log_of(folder).write_bytes(data)
        broken = [number for number, pair in enumerate(pairs) if _is_broken(*pair)]
        found = [(first, size) for first, size, *_ in bounds(folder)]
        assert found == ([(broken[0] * SIZE, len(broken) * SIZE)] if broken else [])
        assert _positions(folder) == {n * SIZE for n in range(len(pairs)) if n not in broken}
        seen += 1
    assert seen > 100


def _is_broken(batch: bytes, clean: bytes) -> bool:
    """Whether a batch does not prove itself any more."""
    return batch[8:12] + batch[16:] != clean[8:12] + clean[16:]


def _has_another_offset(batch: bytes, clean: bytes) -> bool:
    return batch[:8] != clean[:8]


def _positions(folder: Path) -> set[int]:
    (log,) = open_source(str(folder)).partitions().values()
    runs = [run for _, run in log.view().runs() if isinstance(run, BatchRun)]
    return {int(at) for run in runs for at in run.table["position"]}


def test_a_hole_before_a_compressed_batch_of_magic_1_ends_at_its_first_record(
    tmp_path: Path,
) -> None:
    folder = fixtures_data.copy_of("legacy", tmp_path, ["v1-gzip-0"]) / "v1-gzip-0"
    (log,) = folder.glob("*.log")
    data = bytearray(log.read_bytes())
    first = 12 + int.from_bytes(data[8:12], "big")
    second = first + 12 + int.from_bytes(data[first + 8 : first + 12], "big")
    data[first + 40] ^= 1
    log.write_bytes(data)
    last_of_first, last_of_second = (int.from_bytes(data[at : at + 8], "big") for at in (0, first))
    (hole,) = look(folder)[1][0].holes
    assert (hole.position, hole.length) == (first, second - first)
    assert (hole.first_offset, hole.next_offset) == (last_of_first + 1, last_of_second + 1)
    assert holes_of(open_source(str(folder)).partitions()["v1-gzip-0"].view()) == [hole]
