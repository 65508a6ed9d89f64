from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, strategies as st

from engine.budgets import Budgets
from engine.errors import CorruptRecordError, UnsupportedCodecError
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.open_segments import OpenSegments, SegmentFiles, WalkedHints
from engine.log.segment.problems import Problems
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from engine.units import MAX_INT64, FoundTimestamp, TimestampOffset
from kafkafs.tree.partition.largest_timestamp import newest_between
from tests.builders import (
    CompressionType,
    Rec,
    batch,
    message,
    message_set,
    offset_index,
    patched,
    time_index,
)
from tests.engine.log.folders import LogWriter, offsets_of

NOW = 1_700_000_000_000


def small(count: int, base: int = 0, step: int = 3) -> list[bytes]:
    """Batches of three records, a second apart."""
    return [
        batch([Rec(b"x" * 300, timestamp=NOW + 1000 * (base + i * step + n)) for n in range(3)], base + i * step)
        for i in range(count)
    ]  # fmt: skip


def complete(
    tmp_path: Path, batches: list[bytes], base_offset: int = 0, interval: int = 4096
) -> LogView:
    """A log whose first segment is complete and has indexes; the active one is empty."""
    writer = LogWriter(tmp_path, base_offset=base_offset)
    writer.append(*batches)
    writer.roll(index_interval=interval)
    return writer.view()


# By offset


@pytest.mark.parametrize(
    "look_up",
    [
        lambda segment: segment.seek(0),
        lambda segment: segment.seek(1),
        lambda segment: segment.batch(2),
        lambda segment: segment.positions(0, 1),
        lambda segment: segment.next_offset,
        lambda segment: segment.find_timestamp(1 << 50, 0),
        lambda segment: segment.max_timestamp,
        lambda segment: newest_between(segment, 0, segment.end),
    ],
    ids=["first", "middle", "beyond", "positions", "end", "time", "largest", "newest"],
)
def test_a_look_up_has_one_large_batch_in_memory_at_a_time(
    tmp_path: Path, look_up: Callable[[LogSegment], object]
) -> None:
    size = 16 << 20
    made = [batch([Rec(bytes([number]) * size)], 2 * number) for number in range(3)]
    segment = complete(tmp_path, made, interval=1 << 30).segment_at(0)
    segment.files.ensure_open()
    del made
    tracemalloc.start()
    try:
        look_up(segment)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size < peak < 1.5 * size


@pytest.mark.parametrize("interval", [1, 4096, 1 << 30])
def test_every_offset_is_found_with_any_index(tmp_path: Path, interval: int) -> None:
    segment = complete(tmp_path, small(100), interval=interval).segment_at(0)
    for offset in range(300):
        found = segment.locate(offset)
        run = segment.batch(offset)
        assert found is not None
        assert run is not None
        assert found.base_offset == run.base_offset == offset - offset % 3
        assert found.position == run.position
    assert segment.locate(300) is segment.batch(300) is None


def test_a_look_up_reads_from_the_index_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than the interval, the batch, and what one read takes."""
    segment = complete(tmp_path, small(3000)).segment_at(0)
    segment.files.ensure_open()
    reads = []
    monkeypatch.setattr(SourceFile, "read_at", lambda self, at, size: reads.append((at, size)))
    assert segment.batch(8000) is not None
    assert reads == []


def test_a_large_index_is_not_kept_in_memory(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    made = [batch([Rec(b"")], offset) for offset in range(10_000)]
    writer.append(*made)
    writer.roll(index_interval=1)
    segment = writer.view().segment_at(0)
    index = writer.folder / f"{0:020}.index"
    assert index.stat().st_size > 64 * 1024
    for offset in (0, 1, 17, 5000, 9998, 9999):
        run = segment.batch(offset)
        assert run is not None
        assert run.base_offset == offset
    assert segment.batch(10_000) is None
    assert segment.files.ensure_open().hints.floor(5000).offset == 5000
    index.unlink()
    assert segment.batch(7777) is not None


def test_a_gap_gives_the_next_batch_to_locate_and_none_to_batch(tmp_path: Path) -> None:
    made = [*small(3), *small(3, base=100)]
    segment = complete(tmp_path, made, interval=1).segment_at(0)
    assert segment.batch(50) is None
    found = segment.locate(50)
    assert found is not None
    assert (found.base_offset, found.last_offset) == (100, 102)


def test_a_gap_at_the_end_leads_to_the_next_segment(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*small(2))
    writer.roll(50)
    writer.append(*small(1, base=50))
    view = writer.view()
    found = view.locate(20)
    assert found is not None
    assert (found[0].base_offset, found[1].base_offset) == (50, 50)
    assert view.record(20) is view.batch(20) is None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_offsets_inside_old_wrappers_are_found(
    tmp_path: Path, magic: int, codec: CompressionType
) -> None:
    made = [
        message_set([Rec(b"%d" % (5 * i + n)) for n in range(5)], 5 * i, codec, magic=magic)
        for i in range(30)
    ]
    writer = LogWriter(tmp_path)
    writer.append(*made)
    view = writer.view()
    for offset in range(150):
        found = view.record(offset)
        assert found is not None
        assert found[0].value(found[1]) == b"%d" % offset
    assert view.record(150) is None


def test_a_gap_in_an_old_log_is_a_gap(tmp_path: Path) -> None:
    """The header of an old wrapper names its last offset only: the records tell where it begins."""
    made = [
        message_set([Rec(b"a", offset=n) for n in range(5)], 0, CompressionType.GZIP, magic=1),
        message_set(
            [Rec(b"b", offset=n) for n in range(20, 25)], 20, CompressionType.GZIP, magic=1
        ),
        message(40, None, b"c"),
    ]
    writer = LogWriter(tmp_path)
    writer.append(*made)
    view = writer.view()
    assert [offset for offset in range(41) if view.record(offset)] == [
        *range(5),
        *range(20, 25),
        40,
    ]
    assert view.batch(10) is view.batch(30) is None


# Indexes that lie


@given(st.data())
def test_no_index_can_make_a_look_up_wrong(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    writer = LogWriter(tmp_path_factory.mktemp("log"))
    made = [*small(20), *small(20, base=100)]
    writer.append(*made)
    writer.roll()
    writer.append_records(b"end")
    ints = st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(0, 20_000), st.integers(0, 160))
    entries = data.draw(st.lists(st.tuples(ints, ints), max_size=30))
    (writer.folder / f"{0:020}.index").write_bytes(offset_index(entries))
    times = st.tuples(st.integers(0, 2**63 - 1) | st.integers(NOW, NOW + 200_000), ints)
    lies = data.draw(st.lists(times, max_size=5))
    (writer.folder / f"{0:020}.timeindex").write_bytes(time_index(lies))
    view = writer.view()
    for offset in Random(2).sample(range(160), 25):
        found = view.record(offset)
        assert (found is not None) == (offset < 60 or 100 <= offset < 160)
        assert found is None or found[0].offset[found[1]] == offset
    for second in (0, 30, 59, 100, 130):
        found_at = view.offset_for_time(NOW + 1000 * second)
        # A time index entry is taken on the word of the batch it names; lies that name a true pair pass.
        assert found_at is not None
        assert found_at.offset >= second
    assert offsets_of(view) == [*range(60), *range(100, 161)]


@pytest.mark.parametrize(
    "lie", [(30, 1), (30, 10**9), (30, -5), (6, 3000), (100, 0)], ids=lambda pair: str(pair)
)
def test_an_index_entry_that_is_wrong_is_noted_and_passed(
    tmp_path: Path, lie: tuple[int, int]
) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*small(40))
    writer.roll()
    (writer.folder / f"{0:020}.index").write_bytes(offset_index([lie]))
    view = writer.view()
    for offset in range(120):
        assert view.record(offset) is not None
    segment = view.segment_at(0)
    assert segment.seek(119).batch is not None


def test_an_index_of_odd_length_is_ignored_and_noted(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*small(40))
    writer.roll()
    with (writer.folder / f"{0:020}.index").open("ab") as file:
        file.write(b"x")
    view = writer.view()
    assert view.record(100) is not None
    assert [problem["kind"] for problem in view.problems] == ["offset_index"]


def test_an_index_that_is_a_folder_or_a_link_is_not_read(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*small(40))
    writer.roll()
    index = writer.folder / f"{0:020}.index"
    other = index.with_suffix(".elsewhere")
    index.rename(other)
    index.symlink_to(other.name)
    view = writer.view()
    assert view.record(100) is not None
    assert "symbolic link" in view.problems[0]["reason"]


# Damage


def test_a_record_in_a_damaged_batch_is_an_error_not_a_gap(tmp_path: Path) -> None:
    made = small(10)
    at = sum(map(len, made[:4]))
    writer = LogWriter(tmp_path)
    writer.append(*made)
    writer.records_file.write_bytes(patched(b"".join(made), at + 100, b"\xff"))
    view = writer.view()
    for offset in range(30):
        if 12 <= offset < 15:
            with pytest.raises(CorruptRecordError) as caught:
                view.record(offset)
            assert caught.value.position == at
            assert caught.value.expected != caught.value.found
        else:
            assert view.record(offset) is not None
    with pytest.raises(CorruptRecordError, match="checksum"):
        view.batch(13)
    good = view.batch(20)
    assert good is not None
    assert good[1].buffer == made[6]


def test_a_batch_that_states_anothers_offsets_hides_none(tmp_path: Path) -> None:
    """The base offset is outside of the checksum."""
    made = small(10)
    raised = patched(made[4], 0, struct.pack(">q", 2**20))
    writer = LogWriter(tmp_path)
    writer.append(*made[:4], raised, *made[5:])
    view = writer.view()
    assert view.log_end_offset == 30
    for offset in range(30):
        if 12 <= offset < 15:
            with pytest.raises(CorruptRecordError):
                view.record(offset)
        else:
            assert view.record(offset) is not None, offset


def test_a_batch_that_states_offsets_of_the_next_segment_leaves_no_gap(tmp_path: Path) -> None:
    made = small(5)
    writer = LogWriter(tmp_path)
    writer.append(*made[:4], patched(made[4], 0, struct.pack(">q", 20)))
    writer.roll(15, index_interval=None)
    writer.append(*small(2, base=15))
    view = writer.view()
    for offset in range(21):
        if 12 <= offset < 15:
            with pytest.raises(CorruptRecordError, match="another segment"):
                view.record(offset)
        else:
            assert view.record(offset) is not None


def test_a_duplicate_batch_is_found_where_it_stands_first(tmp_path: Path) -> None:
    made = small(4)
    writer = LogWriter(tmp_path)
    writer.append(*made, made[1], *small(2, base=12))
    view = writer.view()
    assert offsets_of(view) == [*range(18)]
    found = view.locate(4)
    assert found is not None
    assert found[1].position == len(made[0])
    assert view.log_end_offset == 18
    kinds = [item.kind for _, item in view.runs() if not isinstance(item, BatchRun)]
    assert kinds == ["offset_order"]


@given(st.data())
def test_look_ups_in_a_damaged_log_find_errors_or_the_truth(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    made = small(12)
    whole = b"".join(made)
    start = data.draw(st.integers(0, len(whole) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=min(900, len(whole) - start)))
    changed = patched(whole, start, noise)
    writer = LogWriter(tmp_path_factory.mktemp("log"))
    writer.append(*made)
    writer.roll(index_interval=data.draw(st.sampled_from([1, 1000, None])))
    writer.append_records(b"end")
    (writer.folder / f"{0:020}.log").write_bytes(changed)
    view = writer.view()
    at = 0
    for number, each in enumerate(made):
        is_same = changed[at : at + len(each)] == each
        at += len(each)
        for offset in range(3 * number, 3 * number + 3):
            if is_same:
                found = view.record(offset)
                assert found is not None
                assert found[0].offset[found[1]] == offset
            else:
                try:
                    found = view.record(offset)
                except CorruptRecordError:
                    continue
                assert found is not None, offset  # only something outside of its checksum changed


# Positions


def test_positions_hold_the_whole_batches_of_a_range(tmp_path: Path) -> None:
    made = [*small(10), *small(10, base=100)]
    places = [0]
    for each in made:
        places.append(places[-1] + len(each))
    view = complete(tmp_path, made, interval=1000)
    segment = view.segment_at(0)

    def batches(start: int, stop: int) -> tuple[int, int]:
        first, last = view.positions(segment, start, stop)
        return places.index(first), places.index(last)

    assert batches(0, MAX_INT64) == (0, 20)
    assert batches(0, 0) == (0, 0)
    assert batches(4, 5) == (1, 2)
    assert batches(3, 6) == (1, 2)
    assert batches(3, 7) == (1, 3)
    assert batches(40, 90) == (10, 10)
    assert batches(29, 101) == (9, 11)
    assert batches(130, 200) == (20, 20)


def test_damage_beside_a_range_belongs_to_it(tmp_path: Path) -> None:
    made = small(6)
    at = len(made[0] + made[1])
    writer = LogWriter(tmp_path)
    writer.append(*made)
    writer.records_file.write_bytes(patched(b"".join(made), at + 8, b"\0\0\0\1"))
    view = writer.view()
    for start, stop, expects in ((7, 30, True), (9, 30, False), (0, 6, False), (0, 7, True)):
        found = [item for _, item in view.runs(start, stop) if isinstance(item, Damage)]
        assert bool(found) == expects, (start, stop)


def test_a_batch_ahead_of_its_place_hides_none_of_a_range(tmp_path: Path) -> None:
    """Where no index leads past it."""
    made = small(10)
    writer = LogWriter(tmp_path)
    writer.append(*made)
    records = writer.records_file
    writer.roll(index_interval=1 << 30)
    made[3], made[6] = made[6], made[3]
    records.write_bytes(b"".join(made))
    view = writer.view()
    for start in range(31):
        for stop in range(start + 1, 31):
            found = {
                offset
                for _, item in view.runs(start, stop)
                if isinstance(item, BatchRun)
                for row in item.table
                for offset in range(row["base_offset"], row["last_offset"] + 1)
            }
            lost = {9, 10, 11, 18, 19, 20}
            assert found >= set(range(start, min(stop, 30))) - lost, (start, stop)


def test_the_positions_of_old_wrappers_count_their_first_offset(tmp_path: Path) -> None:
    made = [
        message_set([Rec(b"v") for _ in range(5)], base, CompressionType.GZIP, magic=1)
        for base in (0, 20)
    ]
    view = complete(tmp_path, made)
    segment = view.segment_at(0)
    assert view.positions(segment, 0, 22) == (0, len(made[0]) + len(made[1]))
    assert view.positions(segment, 0, 20) == (0, len(made[0]))
    assert view.positions(segment, 5, 10) == (len(made[0]), len(made[0]))


# By time


def test_the_first_record_in_offset_order_is_found_though_times_jump(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    seconds = [5, 3, 9, 9, 1, 7, 20, 2, 2, 15]
    for number, second in enumerate(seconds):
        writer.append_records(Rec(b"v", timestamp=NOW + second))
        if number % 3 == 2:
            writer.roll(index_interval=1)
    view = writer.view()
    for wanted in range(22):
        found = view.offset_for_time(NOW + wanted)
        first = next((n for n, second in enumerate(seconds) if second >= wanted), None)
        assert (None if found is None else found.offset) == first
    assert view.max_timestamp == FoundTimestamp(NOW + 20, 6, 0)


def test_a_hit_below_the_log_start_leads_on(tmp_path: Path) -> None:
    """Kafka gives none here: the first segment that is new enough has its only hit below the start."""
    writer = LogWriter(tmp_path)
    writer.append_records(Rec(b"v", timestamp=NOW + 9))
    writer.append_records(Rec(b"v", timestamp=NOW))
    writer.roll(index_interval=1)
    writer.append_records(Rec(b"v", timestamp=NOW + 9))
    writer.log_start(1)
    view = writer.view()
    assert view.offset_for_time(NOW + 5) == FoundTimestamp(NOW + 9, 2, 0)
    assert view.offset_for_time(NOW) == FoundTimestamp(NOW, 1, 0)
    assert view.max_timestamp == FoundTimestamp(NOW + 9, 2, 0)


def test_records_without_a_timestamp_are_passed(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(message(0, None, b"old", magic=0))
    writer.roll()
    writer.append(message(1, None, b"new", magic=1, timestamp=NOW))
    view = writer.view()
    assert view.offset_for_time(0) == FoundTimestamp(NOW, 1, -1)
    assert view.segment_at(0).max_timestamp == TimestampOffset(-1, 0)


def test_the_largest_timestamp_of_a_small_segment_takes_one_scan_and_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = complete(tmp_path, small(20), interval=1).segment_at(0)
    opened, scans = [], []
    open_file, scan = SourceRoot.open_fresh, LogSegment.scan
    monkeypatch.setattr(
        SourceRoot,
        "open_fresh",
        lambda self, name, **k: opened.append(name) or open_file(self, name, **k),
    )
    monkeypatch.setattr(
        LogSegment, "scan", lambda self, *a, **k: scans.append(a) or scan(self, *a, **k)
    )
    assert segment.max_timestamp == TimestampOffset(NOW + 1000 * 59, 59)
    assert len(scans) == 1
    assert not [name for name in opened if name.endswith(".timeindex")]


def test_what_is_known_of_a_growing_segment_is_not_found_out_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*small(500))
    first = writer.next_view().active_segment
    assert first is not None
    assert first.max_timestamp == TimestampOffset(NOW + 1000 * 1499, 1499)
    writer.append(*small(1, base=1500))
    grown = writer.next_view().active_segment
    assert grown is not None
    starts = []
    scan = LogSegment.scan
    monkeypatch.setattr(
        LogSegment, "scan", lambda self, at=0, *a, **k: starts.append(at) or scan(self, at, *a, **k)
    )
    assert grown.max_timestamp == TimestampOffset(NOW + 1000 * 1502, 1502)
    assert starts == [first.end]


def test_a_codec_that_is_missing_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine import kernel
    from engine.columns.batch_table import BatchProblem, Problem

    writer = LogWriter(tmp_path)
    writer.append_records(Rec(b"v", timestamp=NOW))
    view = writer.view()
    decode = kernel.decode

    def without(*args: object, **options: object) -> object:
        columns = decode(*args, **options)  # type: ignore[arg-type]
        columns.table = columns.table[:0]
        columns.problems = [BatchProblem(0, Problem.CODEC_MISSING, 0, "install cramjam")]
        return columns

    monkeypatch.setattr(kernel, "decode", without)
    monkeypatch.setattr(kernel, "read_record", lambda *_, **__: None)
    with pytest.raises(UnsupportedCodecError, match="install"):
        view.offset_for_time(NOW)
    with pytest.raises(UnsupportedCodecError, match="install"):
        view.record(0)


# Files


def test_only_so_many_segments_stay_open(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:020}.log").write_bytes(batch([Rec(b"v")], number))
    pool = OpenSegments(5)
    with SourceRoot(str(tmp_path)) as root:
        made = [
            LogSegment(SegmentFiles(root, "", n, open_segments=pool, problems=Problems()))
            for n in range(20)
        ]
        for _ in range(3):
            for segment in made:
                assert segment.batch(segment.base_offset) is not None
                assert sum(each.files.opened is not None for each in made) <= 5
                assert len(pool) <= 5


def test_a_segment_that_is_used_again_and_again_stays_open(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:020}.log").write_bytes(batch([Rec(b"v")], number))
    pool = OpenSegments(4)
    with SourceRoot(str(tmp_path)) as root:
        made = [
            LogSegment(SegmentFiles(root, "", n, open_segments=pool, problems=Problems()))
            for n in range(30)
        ]
        first = made[0].files.ensure_open()
        for segment in made[1:]:
            assert made[0].batch(0) is not None
            segment.batch(segment.base_offset)
        assert made[0].files.opened is first


def test_a_segment_larger_than_kafka_can_open_is_read_and_noted(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*small(3))
    with writer.records_file.open("r+b") as file:
        file.truncate(1 << 32)
    view = writer.view()
    assert view.log_end_offset == 9
    assert {problem["kind"] for problem in view.problems} == {"too_large", "zero_tail"}


def test_offsets_too_far_from_the_base_are_read_and_noted(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*small(1), *small(1, base=2**40))
    writer.roll(index_interval=None)
    view = writer.view()
    assert view.record(2**40 + 1) is not None
    list(view.runs())
    assert [problem["kind"] for problem in view.problems] == ["offset_range"]


def test_a_budget_bounds_what_is_taken_for_a_batch(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(batch([Rec(b"x" * 5000)]) + batch([Rec(b"v")], 1))
    with SourceRoot(str(tmp_path)) as root:
        files = SegmentFiles(root, "", 0, open_segments=OpenSegments(), problems=Problems())
        segment = LogSegment(files, budgets=Budgets(batch_bytes=1000))
        with pytest.raises(CorruptRecordError, match="above the limit"):
            segment.batch(0)
        run = segment.batch(1)
        assert isinstance(run, BatchRun)
        assert run.base_offset == 1


def test_walked_places_are_spaced_and_searched() -> None:
    class Behind:
        def floor(self, offset: int) -> str:
            return f"behind {offset}"

        def position(self, offset: int) -> int:
            return -offset

    hints = WalkedHints(Behind())  # type: ignore[arg-type]
    for number in range(100):
        hints.append(10 + number, number * 1000)
    assert hints.floor(9) == "behind 9"
    assert hints.position(5) == -5
    assert hints.floor(10) == (10, 0)
    assert hints.floor(12) == (10, 0)
    assert hints.position(9) == -9
    assert hints.position(10) == hints.position(14) == 0
    assert hints.position(15) == 5000
    assert hints.floor(15) == (15, 5000)
    assert hints.position(109) == 95_000
    hints.append(20, 10**9)  # offsets that go back are no places to begin at
    assert hints.position(109) == 95_000
