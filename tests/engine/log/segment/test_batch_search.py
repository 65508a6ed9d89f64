"""Batches found by offset among gaps, damage, batches that state wrong offsets, and old wrappers."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from engine.errors import CorruptRecordError
from engine.log.segment import orders
from engine.log.segment.batch_search import BatchSearch, Landing, good_batch, land, proven_hint
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, headers
from tests.builders import Rec, batch, message_set, offset_index, patched
from tests.engine.log.folders import LogWriter, segment_of

GZIP = CompressionType.GZIP
LARGE_VALUE = Rec(b"x" * 70_000)
"""So large that each batch is a run of its own."""


def one(base: int, *, count: int = 1) -> bytes:
    return batch([LARGE_VALUE] * count, base)


def found_base(segment: LogSegment, offset: int) -> int | None:
    run = segment.batch(offset)
    return None if run is None else run.base_offset


# Gaps


def test_an_offset_in_a_gap_before_a_large_batch_is_in_none(tmp_path: Path) -> None:
    segment = segment_of(tmp_path, [one(0), one(5), one(6), one(7)])
    assert [found_base(segment, offset) for offset in (0, 3, 5, 6, 7)] == [0, None, 5, 6, 7]


def test_a_wrapper_that_states_a_larger_offset_than_its_records_hides_none_after_it(
    tmp_path: Path,
) -> None:
    wrapper = message_set([Rec(b"v", offset=n) for n in range(3)], 0, GZIP, magic=1)
    raised = patched(wrapper, 0, (20).to_bytes(8, "big"))
    follows = message_set([Rec(b"w")] * 4, 10, CompressionType.NONE, magic=1)
    segment = segment_of(tmp_path, [raised, follows])
    run = segment.batch(10)
    assert run is not None
    assert run.position == len(raised)


def test_a_wrapper_that_does_not_inflate_is_the_batch_of_the_offsets_up_to_its_own(
    tmp_path: Path,
) -> None:
    whole = message_set([Rec(b"v" * 50) for _ in range(5)], 0, GZIP, magic=1)
    spoiled = bytearray(whole)
    spoiled[40:60] = bytes(20)
    segment = segment_of(tmp_path, [resealed_message(bytes(spoiled))])
    assert found_base(segment, 4) == 4
    assert segment.positions(4, 5) == (0, len(whole))


def resealed_message(data: bytes) -> bytes:
    """A message of magic 1 with the checksum of its bytes."""
    from engine.coding.checksums import crc32

    return patched(data, 12, crc32(data[16:]).to_bytes(4, "big"))


# Offsets that go back


def test_a_batch_behind_one_that_is_too_far_ahead_is_found(tmp_path: Path) -> None:
    """The checksum does not cover the base offset: 100 was 2."""
    segment = segment_of(tmp_path, [one(0), one(1), one(100), one(3), one(4)])
    assert [found_base(segment, offset) for offset in (0, 1, 3, 4)] == [0, 1, 3, 4]
    with pytest.raises(CorruptRecordError, match="of the batches after it") as refused:
        segment.batch(2)
    assert (refused.value.expected, refused.value.found) == (2, 100)


def damage(first: int | None, last: int | None) -> Damage:
    return Damage("a.log", 0, 1, DamageKind.CRC_MISMATCH, "", first_offset=first, last_offset=last)


@pytest.mark.parametrize(
    ("item", "offset", "may_have_it"),
    [
        (damage(5, 9), 4, False),
        (damage(5, 9), 5, True),
        (damage(5, 9), 9, True),
        (damage(5, 9), 10, False),
        (damage(5, None), 10**9, True),
        (damage(None, 9), 0, True),
        (damage(None, 9), 9, True),
    ],
)
def test_damage_is_suspect_for_the_offsets_it_may_have_held(
    item: Damage, offset: int, may_have_it: bool
) -> None:
    search = BatchSearch(offset)
    assert not search.is_over(item)
    assert (search.suspect is item) is may_have_it
    assert search.found is None


def test_of_much_damage_the_last_hundred_places_are_remembered() -> None:
    search = BatchSearch(500)
    for number in range(300):
        search.is_over(damage(number, number))
    assert search.suspect is None
    search.is_over(damage(500, None))
    for number in range(99):
        search.is_over(damage(number, number))
    assert search.suspect is not None
    assert search.suspect.first_offset == 500


# Landings


def landing(tmp_path: Path, *batches: bytes, offset: int, expected: int = 0) -> Landing:
    segment = segment_of(tmp_path, batches)
    items = headers(segment.scan(chunk=100))
    return land(items, offset, expected, segment.end)


def test_a_search_lands_on_the_batch_that_reaches_the_offset(tmp_path: Path) -> None:
    made = [batch([Rec(b"v")] * 3, base) for base in (0, 3, 6)]
    size = len(made[0])
    segment = segment_of(tmp_path, made)
    for offset in range(9):
        found = segment.seek(offset)
        assert found.batch is not None
        assert int(found.batch["base_offset"][0]) == offset - offset % 3
        assert (found.position, found.next_offset) == (offset // 3 * size, offset - offset % 3)
    assert segment.seek(9) == Landing(3 * size, 9)


def test_a_search_lands_on_the_damage_that_may_have_held_the_offset(tmp_path: Path) -> None:
    made = [batch([Rec(b"v")] * 3, base) for base in (0, 3, 6)]
    size = len(made[0])
    spoiled = patched(made[1], size - 1, b"\xff")
    segment = segment_of(tmp_path, [made[0], spoiled, made[2]])
    for offset in (3, 4, 5):
        found = segment.seek(offset)
        assert (found.position, found.next_offset) == (size, 3)
        assert found.damage is not None
        assert found.batch is not None
        assert int(found.batch["base_offset"][0]) == 6
    after = segment.seek(6)
    assert (after.position, after.next_offset) == (2 * size, 3)
    beyond = segment.seek(9)
    assert (beyond.position, beyond.batch, beyond.damage) == (3 * size, None, None)


def test_two_stretches_of_damage_beside_each_other_count_as_one(tmp_path: Path) -> None:
    made = [batch([Rec(b"v")] * 3, base) for base in (0, 3, 6, 9)]
    size = len(made[0])
    spoiled = [patched(each, size - 1, b"\xff") for each in made[1:3]]
    segment = segment_of(tmp_path, [made[0], *spoiled, made[3]])
    for offset in range(3, 9):
        found = segment.seek(offset)
        assert found.damage is not None
        assert (found.damage.position, found.damage.length) == (size, 2 * size)
        assert (found.damage.first_offset, found.damage.last_offset) == (3, 8)
        assert (found.position, found.next_offset) == (size, 3)


def test_damage_at_the_end_is_where_a_search_beyond_the_last_batch_lands(tmp_path: Path) -> None:
    made = [batch([Rec(b"v")] * 3, base) for base in (0, 3)]
    spoiled = patched(made[1], len(made[1]) - 1, b"\xff")
    writer = LogWriter(tmp_path)
    writer.append(made[0], spoiled)
    writer.roll(base_offset=6, index_interval=None)
    found = writer.view().segment_at(0).seek(4)
    assert (found.position, found.next_offset, found.batch) == (len(made[0]), 3, None)
    assert found.damage is not None
    assert (found.damage.kind, found.damage.position) == (
        DamageKind.CRC_MISMATCH,
        len(made[0]),
    )


@pytest.mark.parametrize(("offset", "base"), [(0, 0), (1, 1), (2, 3), (3, 3), (4, 4), (5, None)])
def test_a_search_passes_a_batch_that_is_out_of_place(
    tmp_path: Path, offset: int, base: int | None
) -> None:
    made = [batch([Rec(b"v")], each) for each in (0, 1, 7, 3, 4)]
    found = landing(tmp_path, *made, offset=offset)
    assert (None if found.batch is None else int(found.batch["base_offset"][0])) == base
    assert (found.position == 2 * len(made[0])) is (offset == 2)


# Index entries


def test_an_index_entry_at_a_lonely_good_batch_is_used_when_no_other_is_better(
    tmp_path: Path,
) -> None:
    """Each batch that an entry points to is followed by damage; the latest of them is a start all the same."""
    made = []
    for number in range(6):
        made += [batch([Rec(b"v")], 2 * number), b"rubbish" * 4]
    places = [sum(map(len, made[: 2 * n])) for n in range(6)]
    writer = LogWriter(tmp_path)
    writer.records_file.write_bytes(b"".join(made))
    writer.roll(base_offset=12, index_interval=None)
    entries = [(2 * n, places[n]) for n in range(1, 6)]
    (writer.folder / f"{0:020}.index").write_bytes(offset_index(entries))
    segment = writer.view().segment_at(0)
    for offset in range(0, 12, 2):
        run = segment.batch(offset)
        assert run is not None
        assert (run.base_offset, run.position) == (offset, places[offset // 2])
    items = list(segment.scan_from(10))
    first = next(item for item in items if isinstance(item, BatchRun))
    assert first.base_offset == 10


# The items of a search, one by one


def runs_of(tmp_path: Path, *batches: bytes) -> list[BatchRun]:
    """A run for each batch."""
    segment = segment_of(tmp_path, batches)
    items = segment.scan(chunk=61)
    return [item for item in items if isinstance(item, BatchRun)]


def test_damage_before_a_batch_below_the_offset_is_not_suspect(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path, batch([Rec(b"v")] * 5, 0))
    search = BatchSearch(5)
    assert not search.is_over(damage(0, None))
    assert search.suspect is not None
    assert not search.is_over(run)
    assert search.suspect is None
    search = BatchSearch(5)
    search.is_over(run)
    search.is_over(damage(5, None))
    assert search.suspect is not None


def test_a_batch_above_the_offset_ends_the_search(tmp_path: Path) -> None:
    first, second = runs_of(tmp_path, one(0), one(5))
    search = BatchSearch(3)
    assert not search.is_over(first)
    assert not search.is_over(damage(1, 4))
    assert search.is_over(second)
    assert search.found is None
    assert search.suspect is not None


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_wrapper_behind_a_batch_that_is_too_far_ahead_is_found(
    tmp_path: Path, magic: int
) -> None:
    """Its header has the last of its offsets only."""
    ahead = message_set([Rec(b"v")], 90, CompressionType.NONE, magic=magic)
    wrapper = message_set([Rec(b"v" * 40)] * 4, 1, GZIP, magic=magic)
    segment = segment_of(
        tmp_path, [message_set([Rec(b"v")], 0, CompressionType.NONE, magic=magic), ahead, wrapper]
    )
    for offset in (1, 2, 4):
        run = segment.batch(offset)
        assert run is not None
        assert run.position == segment.end - len(wrapper)


# Good batches by position


def test_a_batch_at_a_position_is_read_if_it_is_good(tmp_path: Path) -> None:
    made = [batch([Rec(b"v")] * 3, base) for base in (0, 3)]
    segment = segment_of(tmp_path, [*made, patched(made[0], len(made[0]) - 1, b"?")])
    size = len(made[0])
    run = good_batch(segment.file, size, size, 1 << 20)
    assert run is not None
    assert (run.base_offset, run.position, run.buffer) == (3, size, made[1])
    assert good_batch(segment.file, 2 * size, size, 1 << 20) is None
    assert good_batch(segment.file, 3 * size, size, 1 << 20) is None
    assert good_batch(segment.file, size, size - 1, 1 << 20) is None


# Index entries that lead before or behind their batch


def single_records(
    tmp_path: Path, entries: list[int], changes: dict[int, bytes]
) -> tuple[LogSegment, int]:
    """A complete segment of batches of one record with some changed, with entries at these offsets; a batch's size."""
    made = [batch([Rec(b"v" * 40)], base) for base in range(16)]
    size = len(made[0])
    writer = LogWriter(tmp_path)
    writer.append(*(patched(each, 0, changes.get(n, each[:8])) for n, each in enumerate(made)))
    writer.roll(base_offset=16, index_interval=None)
    index = offset_index([(offset, offset * size) for offset in entries])
    (writer.folder / f"{0:020}.index").write_bytes(index)
    return writer.view().segment_at(0), size


def test_an_entry_at_a_batch_below_the_entry_before_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum does not cover the base offset: 7 was 10."""
    monkeypatch.setattr(orders, "WHOLE_FILE", 0)
    segment, size = single_records(tmp_path, [9, 10], {10: (7).to_bytes(8, "big")})
    assert proven_hint(segment, 10) == (9 * size, 9)
    (problem,) = segment.files.problems.entries()
    assert (problem["kind"], problem["position"]) == ("offset_index", 10 * size)


@pytest.mark.parametrize("entries", [[8, 9, 10], [7, 8, 10], [8, 10]])
def test_the_entry_before_a_wrong_one_is_the_next_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: list[int]
) -> None:
    monkeypatch.setattr(orders, "WHOLE_FILE", 0)
    segment, size = single_records(tmp_path, entries, {10: (99).to_bytes(8, "big")})
    best = entries[-2]
    assert proven_hint(segment, 10) == (best * size, best)


# Offsets that a wrong base offset hides


@pytest.mark.parametrize("stated", [0, 1])
def test_the_offset_of_a_batch_that_states_one_before_it_is_lost(
    tmp_path: Path, stated: int
) -> None:
    writer = LogWriter(tmp_path)
    writer.append(one(0), one(1), patched(one(2), 0, stated.to_bytes(8, "big")), one(3), one(4))
    writer.roll(base_offset=5, index_interval=None)
    segment = writer.view().segment_at(0)
    with pytest.raises(CorruptRecordError, match="not above") as refused:
        segment.batch(2)
    assert (refused.value.expected, refused.value.found) == (2, stated)
    assert [found_base(segment, offset) for offset in (1, 3, 4)] == [1, 3, 4]
