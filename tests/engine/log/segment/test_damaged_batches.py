"""What is said of damaged batches, and which good batches are found beside, behind and inside them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.errors import CorruptRecordError
from engine.files.source_files import SourceRoot
from engine.log.segment import resync
from engine.log.segment.active_tail import whole_run
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.resync import Resync
from engine.log.segment.scan import BatchRun, Damage, Disorder, ScanItem, scan
from engine.memory_gate import LARGE
from engine.record.batch_frame import LOG_OVERHEAD
from engine.units import MAX_INT32, Position
from tests.builders import CompressionType, Rec, batch, empty_batch, message_set, patched
from tests.engine.log.folders import LogWriter, segment_of
from tests.engine.log.segment.test_scan import Bytes, everything, split
from tests.unreadable import unreadable_bytes

SECTOR = 512


def three(base: int, value: int = 20, codec: CompressionType = CompressionType.NONE) -> bytes:
    return batch([Rec(b"v" * value)] * 3, base, codec)


def spoiled(data: bytes) -> bytes:
    """The batch with its last byte changed."""
    return patched(data, len(data) - 1, bytes([data[-1] ^ 0xFF]))


def good_bases(data: bytes, **options: object) -> list[int]:
    return [base for _, base, _ in split(everything(data, **options))[0]]


def only_damage(data: bytes, **options: object) -> Damage:
    (damage,) = split(everything(data, **options))[1]
    assert isinstance(damage, Damage)
    return damage


# Offsets that damage may have held


def test_a_damaged_first_batch_at_offset_zero_held_its_own_offsets() -> None:
    damage = only_damage(spoiled(three(0)) + three(9))
    assert (damage.first_offset, damage.last_offset) == (0, 2)


def test_a_damaged_batch_that_states_an_offset_below_zero_may_have_held_any() -> None:
    damage = only_damage(
        patched(spoiled(three(0)), 0, (-1).to_bytes(8, "big", signed=True)) + three(9)
    )
    assert (damage.first_offset, damage.last_offset) == (None, 8)


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_a_damaged_batch_behind_a_gap_held_its_own_offsets(codec: CompressionType) -> None:
    made = [three(0, codec=codec), spoiled(three(10, codec=codec)), three(20, codec=codec)]
    damage = only_damage(b"".join(made))
    assert (damage.first_offset, damage.last_offset) == (10, 12)
    assert damage.kind is DamageKind.CRC_MISMATCH


@pytest.mark.parametrize("base", [1, 18, 30])
def test_a_damaged_batch_that_states_offsets_of_its_neighbours_held_those_between(
    base: int,
) -> None:
    damage = only_damage(three(0) + spoiled(three(base)) + three(20))
    expected = {1: (3, 19), 18: (3, 19), 30: (3, 19)}[base]
    assert (damage.first_offset, damage.last_offset) == expected


# Rubbish before a good batch


@pytest.mark.parametrize(
    "size", [1, 2, 8, 11, 12, 13, 16, 17, 60, 61, 16_383, 16_384, 16_385, 40_000, 300_000]
)
@pytest.mark.parametrize("byte", [b"\x01", b"\xff", b"\x00"])
def test_a_good_batch_is_found_whatever_the_bytes_before_it(size: int, byte: bytes) -> None:
    data = three(0) + byte * size + three(3) + three(6)
    good, (damage, *more) = split(everything(data))
    assert [base for _, base, _ in good] == [0, 3, 6]
    assert more == []
    assert isinstance(damage, Damage)
    assert (damage.position, damage.length) == (len(three(0)), size)
    assert (damage.first_offset, damage.last_offset) == (3, 2)


@pytest.mark.parametrize("size", [5_000, 20_000, 200_000])
def test_rubbish_up_to_the_end_is_searched_through_once(size: int) -> None:
    file = CountedBytes(three(0) + b"\xfe" * size)
    items = list(scan(file, 0, len(file.data)))
    assert [type(item) for item in items] == [BatchRun, Damage]
    assert file.read_bytes < 3 * size + 200_000


class CountedBytes(Bytes):
    """Bytes that count what is read."""

    read_bytes = 0

    def read_at(self, position: int, size: int) -> bytes:
        found = super().read_at(position, size)
        self.read_bytes += len(found)
        return found


# Batches inside values


def test_a_good_batch_inside_a_batch_with_a_wrong_length_is_not_the_logs() -> None:
    """Values may hold batches, as a mirror's do; the log goes on at lower offsets."""
    outer = batch([Rec(three(500) + b"\xfe" * 40)], 3, length=-1)
    assert good_bases(three(0) + outer + three(4) + three(7)) == [0, 4, 7]


def test_a_good_batch_that_a_damaged_batchs_wrong_length_covers_is_found() -> None:
    covered = three(3)
    longer = len(spoiled(three(0))) + len(covered) - LOG_OVERHEAD
    first = patched(spoiled(three(0)), 8, longer.to_bytes(4, "big"))
    assert good_bases(first + covered + three(6)) == [3, 6]


def test_two_good_batches_in_a_row_are_the_logs_and_one_behind_them_at_lower_offsets_is_not() -> (
    None
):
    made = broken_length(batch([Rec(b"v" * 40)], 3)) + b"\xfe" * 40 + three(500) + three(503)
    assert good_bases(three(0) + made + b"\xfe" * 40 + three(4)) == [0, 500, 503]


def test_the_last_batch_of_the_file_alone_contradicts_batches_inside_a_value() -> None:
    outer = broken_length(holder([three(500), three(900)]))
    assert good_bases(three(0) + outer + three(4)) == [0, 4]


def test_a_search_goes_on_behind_the_largest_stretch_that_it_reads_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resync, "_LARGEST_SEARCH", 32 * 1024)

    class ReadTwice(CountedBytes):
        def read_at(self, position: int, size: int) -> bytes:
            assert self.read_bytes < 4 * len(self.data)
            return super().read_at(position, size)

    file = ReadTwice(three(0) + b"\xfe" * 200_000 + three(3) + three(6))
    assert [base for _, base, _ in split(list(scan(file, 0, len(file.data))))[0]] == [0, 3, 6]


def broken_length(batch_bytes: bytes, length: int = -1) -> bytes:
    return patched(batch_bytes, 8, length.to_bytes(4, "big", signed=True))


def holder(inner: Sequence[bytes], base: int = 3, gap: bytes = b"\xfe" * 40) -> bytes:
    """A batch with a value of whole batches, with `gap` before, between and behind them."""
    return batch([Rec(gap + b"".join(each + gap for each in inner))], base)


@pytest.mark.parametrize("length", [-1, 5, 14, 100, 400, MAX_INT32], ids=str)
@pytest.mark.parametrize("gap", [b"", b"\xfe", b"\xfe" * 40], ids=len)
@pytest.mark.parametrize("first", [3, 4, 500])
@pytest.mark.parametrize("count", [1, 2, 3, 150])
def test_batches_of_another_log_inside_a_batch_with_a_broken_length_are_not_the_logs(
    count: int, first: int, gap: bytes, length: int
) -> None:
    """The checksum is right up to the true next batch, whatever the offsets inside."""
    outer = broken_length(holder([three(first + 3 * n) for n in range(count)], 3, gap), length)
    for before in (b"", three(0)):
        for behind in ([], [4], [4, 7], [600], [4, 7, 10, 13]):
            data = before + outer + b"".join(map(three, behind))
            assert good_bases(data, next_offset=0) == [0] * bool(before) + behind


@pytest.mark.parametrize("magic", [0, 1])
def test_the_checksum_of_a_message_of_an_old_format_also_says_where_it_ends(magic: int) -> None:
    made = holder([three(500), three(510)])
    outer = message_set([Rec(made)], 3, magic=magic)
    data = three(0) + broken_length(outer) + three(4) + three(7)
    assert good_bases(data) == [0, 4, 7]


@pytest.mark.parametrize("count", [1, 2, 3, 150])
def test_single_batches_inside_a_value_are_not_the_logs_where_a_later_chain_has_lower_offsets(
    count: int,
) -> None:
    """The checksum is wrong too: only offsets tell that the batches are those of another log."""
    outer = broken_length(spoiled(holder([three(500 + 5 * n) for n in range(count)])))
    assert good_bases(three(0) + outer + three(4) + three(7)) == [0, 4, 7]
    assert good_bases(outer + three(4) + three(7) + three(10)) == [4, 7, 10]
    rest = [three(4), b"\xfe" * 30, three(7), b"\xfe" * 30, three(10), three(13)]
    assert good_bases(outer + b"".join(rest)) == [4, 7, 10, 13]


def test_single_good_batches_between_damaged_ones_are_the_logs() -> None:
    made = b"".join(three(3 * n) + b"\xfe" * 40 for n in range(150))
    assert good_bases(made) == [3 * n for n in range(150)]
    assert good_bases(made + three(900) + three(903)) == [*(3 * n for n in range(150)), 900, 903]


@pytest.mark.parametrize("is_sealed", [True, False], ids=["right checksum", "wrong checksum"])
def test_the_search_among_many_inner_batches_reads_each_part_of_a_file_a_few_times(
    is_sealed: bool,
) -> None:
    for count in (500, 2000):
        inner = holder([three(500 + 5 * n, 400) for n in range(count)])
        outer = broken_length(inner if is_sealed else spoiled(inner))
        file = CountedBytes(three(0) + outer + three(4) + three(7))
        good, _ = split(list(scan(file, 0, len(file.data))))
        assert [base for _, base, _ in good] == [0, 4, 7]
        assert file.read_bytes < 80 * len(file.data)


def test_a_good_batch_after_damaged_ones_is_reached_by_their_lengths() -> None:
    """A batch inside the first one's value looks like the next of the log."""
    outer = batch([Rec(b"\xfe" * 5 + three(3) + b"\xfe" * 50)], 3)
    data = three(0) + spoiled(outer) + spoiled(three(4)) + three(7)
    good, damage = split(everything(data))
    assert [base for _, base, _ in good] == [0, 7]
    assert [(each.first_offset, each.last_offset) for each in damage] == [(3, 3), (4, 6)]  # type: ignore[union-attr]


def test_a_good_batch_inside_the_stated_length_of_a_damaged_one_counts() -> None:
    first, second, third = three(3), three(6), three(9)
    longer = patched(first, 8, (len(first) + len(second) - 12).to_bytes(4, "big"))
    assert good_bases(three(0) + longer + second + third) == [0, 6, 9]


# One batch judged


def judged(data: bytes, end: Position | None = None, position: Position = 0) -> tuple[object, int]:
    frame = Resync(Bytes(data), len(data) if end is None else end, DEFAULT_BUDGETS).frame(position)
    return frame.kind, frame.size


@pytest.mark.parametrize("cut", [1, 8, 16])
def test_a_header_that_crosses_the_end_of_the_search_is_a_torn_tail(cut: int) -> None:
    data = three(0) * 2
    size = len(three(0))
    assert judged(data, size + cut, size) == (DamageKind.TORN_TAIL, 0)
    assert judged(data, size + 17, size) == (DamageKind.TORN_TAIL, 0)
    assert judged(data, 2 * size, size) == (None, size)
    assert judged(data, 2 * size - 1, size) == (DamageKind.TORN_TAIL, 0)


def test_a_file_that_became_shorter_than_its_batch_ends_inside_it() -> None:
    class Shorter(Bytes):
        def read_at(self, position: int, size: int) -> bytes:
            return super().read_at(position, min(size, 61))

    data = three(0)
    frame = Resync(Shorter(data), len(data), DEFAULT_BUDGETS).frame(0)
    assert (frame.kind, frame.size, frame.row) == (DamageKind.TORN_TAIL, 0, None)


# Unreadable bytes


def test_a_batch_with_an_unreadable_part_of_its_header_may_have_held_all_up_to_the_next(
    tmp_path: Path,
) -> None:
    head = batch([Rec(b"v" * (SECTOR - 30 - 70))], 0)
    assert SECTOR - 61 < len(head) < SECTOR - 17
    made = [head, three(1, 400), three(4, 400)]
    with folder_with(tmp_path, b"".join(made)) as root:
        file = root.open("a.log")
        end = sum(map(len, made))
        with unreadable_bytes({tmp_path / "a.log": [(SECTOR, 2 * SECTOR)]}):
            good, (damage,) = split(list(scan(file, 0, end)))
    assert [base for _, base, _ in good] == [0, 4]
    assert isinstance(damage, Damage)
    assert (damage.kind, damage.first_offset, damage.last_offset) == (
        *(DamageKind.UNREADABLE, 1, 3),
    )


def folder_with(folder: Path, data: bytes) -> SourceRoot:
    (folder / "a.log").write_bytes(data)
    return SourceRoot(str(folder))


@pytest.mark.parametrize("start", [SECTOR + 1, SECTOR + 100, 2 * SECTOR - 1])
def test_a_scan_from_inside_an_unreadable_sector_goes_on_behind_it(
    tmp_path: Path, start: int
) -> None:
    made = [three(3 * n, 100) for n in range(10)]
    size = len(made[0])
    with folder_with(tmp_path, b"".join(made)) as root:
        file = root.open("a.log")
        with unreadable_bytes({tmp_path / "a.log": [(SECTOR, 2 * SECTOR)]}):
            good, (damage,) = split(list(scan(file, start, 10 * size)))
    first = -(-2 * SECTOR // size)
    assert [base for _, base, _ in good] == [3 * n for n in range(first, 10)]
    assert isinstance(damage, Damage)
    assert (damage.position, damage.length) == (start, first * size - start)


def test_a_batch_with_two_unreadable_sectors_says_how_many(tmp_path: Path) -> None:
    made = [three(0), three(3, 3000), three(6)]
    stretches = [(2 * SECTOR, 3 * SECTOR), (6 * SECTOR, 7 * SECTOR)]
    with folder_with(tmp_path, b"".join(made)) as root:
        file = root.open("a.log")
        with unreadable_bytes({tmp_path / "a.log": stretches}):
            good, (damage,) = split(list(scan(file, 0, sum(map(len, made)))))
    assert [base for _, base, _ in good] == [0, 6]
    assert isinstance(damage, Damage)
    assert [(each.position, each.end) for each in damage.stretches] == stretches
    assert damage.reason == f"{damage.stretches[0].reason} (in 2 stretches)"


# Runs


def test_a_run_is_large_above_four_mebibytes() -> None:
    (run,) = everything(three(0))
    assert isinstance(run, BatchRun)
    for size, is_large in ((LARGE, False), (LARGE + 1, True)):
        assert run._replace(buffer=bytes(size)).is_large is is_large


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_small_file_of_good_batches_is_one_run(count: int) -> None:
    data = b"".join(empty_batch(n, n) for n in range(count))
    run = whole_run(Bytes(data), len(data), 0)
    assert run is not None
    assert [header.base_offset for header in run.headers] == list(range(count))


@pytest.mark.parametrize(
    "data",
    [
        *(spoiled(three(5)), three(5)[:-1], three(5) + b"\0", three(4)),
        patched(three(5), 23, (-1).to_bytes(4, "big", signed=True)),
    ],
    ids=["checksum", "cut", "zero behind", "offset below", "last offset below"],
)
def test_a_small_file_of_anything_else_is_none(data: bytes) -> None:
    assert whole_run(Bytes(data), len(data), 5) is None
    assert whole_run(Bytes(three(5)), len(three(5)), 5) is not None


def test_a_file_that_ends_where_a_read_begins_ends_the_scan() -> None:
    made = [three(0), three(3)]
    data = b"".join(made)
    file = Bytes(data)
    good, damage = split(list(scan(file, 0, len(data) + 500, chunk=len(made[0]))))
    assert [base for _, base, _ in good] == [0, 3]
    assert damage == []


# A segment's own rules


def test_a_segment_is_scanned_from_its_base_offset_on(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, base_offset=5)
    writer.append(three(3), three(6))
    writer.roll(index_interval=None)
    segment = writer.view().segment_at(0)
    first = next(iter(segment.scan()))
    assert isinstance(first, Damage)
    assert (first.kind, first.expected, first.found, first.position) == ("offset_order", 5, 3, 0)
    assert all(isinstance(item, BatchRun) for item in segment.scan(len(three(3))))
    told = next(iter(segment.scan(in_order=False)))
    assert isinstance(told, Disorder)
    assert (told.expected, told.found, told.position) == (5, 3, 0)


@pytest.mark.parametrize(("above", "is_noted"), [(MAX_INT32, False), (MAX_INT32 + 1, True)])
def test_an_offset_is_too_far_from_the_base_where_an_index_cannot_hold_it(
    tmp_path: Path, above: int, is_noted: bool
) -> None:
    writer = LogWriter(tmp_path, base_offset=7)
    writer.append(batch([Rec(b"v")], 7), batch([Rec(b"v")], 7 + above))
    writer.roll(index_interval=None)
    view = writer.view()
    list(view.segment_at(0).scan())
    noted = [(problem["kind"], problem["found"]) for problem in view.problems]
    assert noted == [("offset_range", 7 + above)] * is_noted


def test_a_batch_that_states_the_next_segments_first_offset_leaves_no_gap(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for stated, is_error in ((4, False), (5, True)):
        folder = tmp_path / str(stated)
        writer = LogWriter(folder)
        writer.append(batch([Rec(b"v")] * 2, 0), batch([Rec(b"v")], stated))
        writer.roll(base_offset=5, index_interval=None)
        writer.append(batch([Rec(b"v")], 5))
        view = writer.view()
        if is_error:
            with pytest.raises(CorruptRecordError) as refused:
                view.batch(3)
            facts = refused.value
            assert (facts.expected, facts.found) == (2, 5)
            assert facts.position == len(batch([Rec(b"v")] * 2, 0))
        else:
            assert view.batch(3) is None


@pytest.mark.parametrize(
    ("start", "stop", "places"),
    [
        (0, 0, (0, 0)),
        (0, 1, (0, 1)),
        (0, 3, (0, 1)),
        (0, 4, (0, 2)),
        (4, 5, (1, 2)),
        (3, 6, (1, 2)),
        (3, 7, (1, 3)),
    ],
)
def test_a_range_has_the_damage_that_may_have_held_its_offsets(
    tmp_path: Path, start: int, stop: int, places: tuple[int, int]
) -> None:
    writer = LogWriter(tmp_path)
    writer.append(three(0), spoiled(three(3)), three(6))
    writer.roll(index_interval=None)
    size = len(three(0))
    found = writer.view().segment_at(0).positions(start, stop)
    assert found == (places[0] * size, places[1] * size)


@pytest.mark.parametrize(("stop", "end"), [(0, 0), (1, 1), (3, 1), (4, 2), (99, 2)])
def test_a_range_up_to_damage_at_the_end_has_it_or_not(tmp_path: Path, stop: int, end: int) -> None:
    writer = LogWriter(tmp_path)
    writer.append(three(0), spoiled(three(3)))
    writer.roll(base_offset=50, index_interval=None)
    segment = writer.view().segment_at(0)
    assert segment.positions(0, stop) == (0, end * len(three(0)))


def test_a_range_before_a_damaged_first_batch_is_empty(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(spoiled(three(0)), three(3))
    writer.roll(index_interval=None)
    segment = writer.view().segment_at(0)
    assert segment.positions(0, 0) == (0, 0)
    assert segment.positions(0, 1) == (0, len(three(0)))


# Look-ups


def test_before_a_large_batch_is_read_its_size_is_told(tmp_path: Path) -> None:
    large = batch([Rec(b"x" * (LARGE + 1000))], 1)
    segment = segment_of(tmp_path, [batch([Rec(b"a")], 0), large, batch([Rec(b"b")], 2)])
    told: list[int] = []
    for offset in (0, 1, 2):
        run = segment.batch(offset, told.append)
        assert run is not None
        assert run.base_offset == offset
    assert told == [len(large)]
    assert segment.batch(1) is not None


@pytest.mark.parametrize("name", ["locate", "record", "batch"])
def test_a_segment_that_was_looked_up_stays_open_before_others(tmp_path: Path, name: str) -> None:
    from tests.engine.log.segment.test_open_segments import Source

    source = Source(tmp_path, 2)
    for number in (0, 1):
        source.segments[number].files.ensure_open()
    assert getattr(LogSegment, name)(source.segments[0], 0) is not None
    source.segments[2].files.ensure_open()
    assert source.opened == [0, 2]


def test_a_batch_of_four_mebibytes_is_not_large_yet(tmp_path: Path) -> None:
    header = len(batch([Rec(b"x" * LARGE)], 0)) - LARGE
    made = [
        batch([Rec(b"x" * (LARGE + 9))], 0),
        batch([Rec(b"x" * (LARGE - header))], 1),
        batch([Rec(b"x" * (LARGE - header + 1))], 2),
    ]
    assert [len(each) - LARGE for each in made[1:]] == [0, 1]
    writer = LogWriter(tmp_path)
    writer.append(*made)
    writer.roll(index_interval=None)
    segment = writer.view().segment_at(0)
    told: list[int] = []
    for offset in (1, 2):
        assert segment.batch(offset, told.append) is not None
    assert told == [LARGE + 1]


def test_a_batch_out_of_order_is_not_quiet() -> None:
    items = everything(three(3) + three(0))
    (disorder,) = [item for item in items if isinstance(item, Disorder)]
    assert not disorder.is_quiet
    assert disorder.kind == "offset_order"
    assert (disorder.expected, disorder.found, disorder.last_offset) == (6, 0, 2)


# Damage beside damage


def without_magic(data: bytes) -> bytes:
    """The batch with an unknown magic: none of its header counts."""
    return patched(data, 16, b"\x09")


def test_what_a_damaged_batch_without_a_header_held_is_not_told_by_a_damaged_one_before_it() -> (
    None
):
    """A checksum that is wrong may be wrong for the offsets, too."""
    data = b"".join([three(0), spoiled(three(10)), without_magic(three(13)), three(16), three(19)])
    _, damages = split(everything(data))
    assert [(each.kind, each.first_offset, each.last_offset) for each in damages] == [
        (DamageKind.CRC_MISMATCH, 10, 12),
        (DamageKind.UNKNOWN_MAGIC, 3, 15),
    ]


def test_behind_a_batch_with_unreadable_records_the_offsets_go_on(tmp_path: Path) -> None:
    """Its header can be read: the batch after it, with an unreadable header, begins at the next offset."""
    first = three(0, SECTOR)
    made = [first, three(3, 800), three(6), three(9)]
    at = len(first) - len(first) % SECTOR
    with folder_with(tmp_path, b"".join(made)) as root:
        file = root.open("a.log")
        with unreadable_bytes({tmp_path / "a.log": [(at, at + SECTOR)]}):
            good, damages = split(list(scan(file, 0, sum(map(len, made)))))
    assert [base for _, base, _ in good] == [6, 9]
    assert [(each.first_offset, each.last_offset) for each in damages] == [(0, 2), (3, 5)]


def test_a_record_that_ends_where_a_sector_begins_is_on_readable_bytes(tmp_path: Path) -> None:
    first = batch([Rec(b"a" * 100), Rec(b"b" * 50), Rec(b"c" * 900)], 0)
    end = first.index(b"b" * 50) + 51  # of the second record: the count of its headers is the last
    made = [batch([Rec(b"v" * (2 * SECTOR - 70 - end))], 0), first]
    filler = 2 * SECTOR - end - len(made[0])
    made[0] = batch([Rec(b"v" * (2 * SECTOR - 70 - end + filler))], 0)
    made[1] = patched(first, 0, (1).to_bytes(8, "big"))
    assert len(made[0]) + end == 2 * SECTOR
    with folder_with(tmp_path, b"".join([*made, three(4)])) as root:
        file = root.open("a.log")
        with unreadable_bytes({tmp_path / "a.log": [(2 * SECTOR, 3 * SECTOR)]}):
            _, (damage,) = split(list(scan(file, 0, file.size())))
    assert isinstance(damage, Damage)
    assert damage.unproven == ((1, 2),)


@pytest.mark.parametrize("tail", [5, 20, 40])
def test_a_batch_that_ends_in_an_unreadable_sector_of_filler_is_not_good(
    tmp_path: Path, tail: int
) -> None:
    """Unreadable bytes read as 0xFF: the checksum of a batch with such bytes would be right."""
    section = three(3)[61:] + b"\xff" * 60
    inner = batch([Rec(b"v")] * 3, 3, section=section)
    head = batch([Rec(b"v" * (4 * SECTOR - len(inner) + tail - 70))], 0)
    head = patched(head, 8, (-1).to_bytes(4, "big", signed=True))
    at = len(head) + len(inner) - tail
    assert at == 4 * SECTOR
    data = head + inner + three(6) + three(9) + three(12, SECTOR)
    with folder_with(tmp_path, data) as root:
        file = root.open("a.log")
        with unreadable_bytes({tmp_path / "a.log": [(at, at + SECTOR)]}):
            good, _ = split(list(scan(file, 0, len(data))))
    assert 3 not in [base for _, base, _ in good]


# Bounds of a scan


@pytest.mark.parametrize("chunk", [61, 100, 1 << 20])
def test_a_scan_ends_at_its_end_however_much_is_read_at_a_time(chunk: int) -> None:
    made = [three(3 * n) for n in range(9)]
    size = len(made[0])
    items = list(scan(Bytes(b"".join(made)), 2 * size, 5 * size, chunk=chunk))
    good, damages = split(items)
    assert [base for _, base, _ in good] == [6, 9, 12]
    assert damages == []
    for item in items:
        assert isinstance(item, BatchRun)
        assert item.start_position + len(item.buffer) <= 5 * size


def test_a_scan_up_to_the_first_damage_has_one_large_batch_in_memory_at_a_time(
    tmp_path: Path,
) -> None:
    size = 8 << 20
    made = [batch([Rec(bytes([number]) * size)], number) for number in range(4)]
    with folder_with(tmp_path, b"".join(made)) as root:
        del made
        file = root.open("a.log")
        items = scan(file, 0, file.size(), resync=False, chunk=1000)
        tracemalloc.start()
        try:
            count = sum(isinstance(item, BatchRun) for item in map(_forgotten, items))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert count == 4
    assert size < peak < 1.5 * size


def _forgotten(item: ScanItem) -> ScanItem:
    """The item without its bytes."""
    return item._replace(buffer=b"") if isinstance(item, BatchRun) else item


# Damage at the end of a segment


@pytest.mark.parametrize(("stop", "has_it"), [(2, False), (3, True), (4, True)])
def test_a_range_up_to_the_next_segment_has_the_damage_behind_the_last_batch(
    tmp_path: Path, stop: int, has_it: bool
) -> None:
    writer = LogWriter(tmp_path)
    writer.append(three(0))
    with writer.records_file.open("ab") as file:
        file.write(b"\xfe" * 100)
    writer.roll(base_offset=3, index_interval=None)
    writer.append(three(3))
    items = [item for _, item in writer.view().runs(0, stop)]
    assert any(isinstance(item, Damage) for item in items) is has_it


def test_the_first_offset_of_a_segment_is_located_by_frames_whatever_the_checksum(
    tmp_path: Path,
) -> None:
    found = segment_of(tmp_path, [spoiled(three(0)), three(3)]).locate(0)
    assert found is not None
    assert (found.position, found.base_offset) == (0, 0)


def test_a_range_of_the_first_offset_has_the_damage_that_is_all_there_is(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(spoiled(three(0)))
    writer.roll(base_offset=50, index_interval=None)
    assert writer.view().segment_at(0).positions(0, 1) == (0, len(three(0)))
