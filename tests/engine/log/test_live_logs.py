"""A log that somebody writes to while we look: appends, torn tails, rolls, truncations, compaction, deletion."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engine.clock import SYSTEM_CLOCK
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.folder_listing import FolderListing
from engine.log.log_directory import open_source
from engine.log.partition_log import PartitionLog
from engine.log.segment import active_tail
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_follower import LogFollower
from engine.record.batch_frame import HEADER
from tests.builders import Rec, batch, last_offset, patched
from tests.engine.log.folders import LogWriter, live_log, offsets_of
from tests.swap_states import SHAPES, Shape, replace_segments, write_state


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path)


# Appends


def test_a_view_is_behind_by_the_bytes_that_were_written_since(writer: LogWriter) -> None:
    writer.append_records(b"a", b"b")
    log = live_log(writer)
    assert log.lag() is None  # nobody looked
    log.view()
    seen = log.lag()
    assert seen is not None
    assert (seen.log_end_offset, seen.unread_bytes) == (2, 0)
    assert 0 <= seen.seconds < 60
    path = min(writer.folder.glob("*.log"))
    before = path.stat().st_size
    writer.append_records(b"c")
    lag = log.lag()
    assert lag is not None
    assert (lag.log_end_offset, lag.unread_bytes) == (2, path.stat().st_size - before)
    log.view(max_age=0)
    lag = log.lag()
    assert lag is not None
    assert (lag.log_end_offset, lag.unread_bytes) == (3, 0)


def test_a_log_at_rest_and_a_snapshot_have_no_lag(writer: LogWriter) -> None:
    writer.append_records(b"a")
    for log in (live_log(writer, is_live=False), live_log(writer, frozen=True)):
        log.view()
        assert log.lag() is None


def test_what_is_appended_is_in_the_next_view_and_not_in_the_last(writer: LogWriter) -> None:
    writer.append_records(b"a", b"b")
    before = writer.next_view()
    writer.append_records(b"c")
    after = writer.next_view()
    assert (before.log_end_offset, offsets_of(before)) == (2, [0, 1])
    assert (after.log_end_offset, offsets_of(after)) == (3, [0, 1, 2])
    assert before.record(2) is None
    assert after.record(2) is not None
    assert (after.generation, after.rewrites) == (before.generation + 1, before.rewrites)


def test_a_view_is_the_same_while_nothing_happens(writer: LogWriter) -> None:
    writer.append_records(b"a")
    view = writer.next_view()
    time.sleep(0.06)  # the folder is listed once more after a change
    assert writer.next_view() is view
    assert writer.next_view() is view


def test_a_view_may_be_as_old_as_was_asked(writer: LogWriter) -> None:
    writer.append_records(b"a")
    view = writer.log.view()
    writer.append_records(b"b")
    assert writer.log.view(max_age=60) is view
    assert writer.log.view(max_age=0).log_end_offset == 2


def test_following_costs_what_was_appended(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(200):
        writer.append_records(b"x" * 10_000)
    view = writer.next_view()
    bytes_read = []
    read_at = SourceFile.read_at

    def counting(self: SourceFile, position: int, size: int) -> bytes:
        data = read_at(self, position, size)
        bytes_read.append(len(data))
        return data

    monkeypatch.setattr(SourceFile, "read_at", counting)
    writer.append_records(b"y" * 10_000)
    grown = writer.next_view()
    assert grown.log_end_offset == view.log_end_offset + 1
    assert sum(bytes_read) < 25_000
    bytes_read.clear()
    assert writer.next_view() is grown
    assert (
        sum(bytes_read) <= HEADER.size
    )  # of the last batch, which may be another of the same tick


def test_look_ups_in_a_grown_log_begin_where_it_was_walked(writer: LogWriter) -> None:
    """The index on disk knows nothing yet of what was appended since."""
    writer.append_records(b"x" * 5000)
    view = writer.next_view()
    for _ in range(50):
        writer.append_records(b"x" * 5000)
        view = writer.next_view()
    active = view.active_segment
    assert active is not None
    hint = active.files.ensure_open().hints.floor(40)
    assert hint.position > 39 * 5000
    for offset in range(view.log_end_offset):
        assert view.record(offset) is not None


def test_a_segment_that_is_rolled_goes_on_in_the_next(writer: LogWriter) -> None:
    for number in range(5):
        writer.append_records(b"%d" % number)
        assert writer.next_view().log_end_offset == 2 * number + 1
        writer.roll()
        writer.append_records(b"%d" % number)
        view = writer.next_view()
        assert view.base_offsets[-1] == writer.base_offset
        assert offsets_of(view) == list(range(2 * number + 2))
    assert view.rewrites == 0


# Tails that are not there yet


@pytest.mark.parametrize("cut", [1, 11, 16, 17, 60, 61, 80])
def test_a_torn_batch_of_a_live_log_is_not_there_yet(writer: LogWriter, cut: int) -> None:
    log = live_log(writer)
    writer.append_records(b"a")
    new = batch([Rec(b"x" * 40)], 1)
    with writer.records_file.open("ab") as file:
        file.write(new[:cut])
    view = log.view(max_age=0)
    assert (view.log_end_offset, view.problems) == (1, [])
    assert all(isinstance(item, BatchRun) for _, item in view.runs())
    with writer.records_file.open("ab") as file:
        file.write(new[cut:])
    view = log.view(max_age=0)
    assert (view.log_end_offset, view.problems) == (2, [])
    assert view.record(1) is not None


def test_a_file_that_has_no_whole_batch_yet_may_grow(writer: LogWriter) -> None:
    new = batch([Rec(b"x" * 40)], 0)
    writer.records_file.write_bytes(new[:30])
    log = live_log(writer)
    before = log.view(max_age=0)
    with writer.records_file.open("ab") as file:
        file.write(new[30:])
    after = log.view(max_age=0)
    assert (before.log_end_offset, after.log_end_offset) == (0, 1)
    assert after.rewrites == before.rewrites


def test_a_torn_batch_of_a_dead_log_is_told(writer: LogWriter) -> None:
    writer.append_records(b"a")
    with writer.records_file.open("ab") as file:
        file.write(batch([Rec(b"x" * 40)], 1)[:-1])
    view = live_log(writer, is_live=False).view()
    damage = [item for _, item in view.runs() if isinstance(item, Damage)]
    assert [item.kind for item in damage] == ["torn_tail"]
    assert view.log_end_offset == 1
    assert [problem["kind"] for problem in view.problems] == ["torn_tail"]


def test_what_grows_is_being_written_even_if_no_lock_says_so(writer: LogWriter) -> None:
    """A source that another host writes to, over a network file system, say."""
    log = live_log(writer, is_live=False)
    writer.append_records(b"a")
    log.view(max_age=0)
    writer.append_records(b"b")
    log.view(max_age=0)
    with writer.records_file.open("ab") as file:
        file.write(batch([Rec(b"x" * 40)], 2)[:-1])
    view = log.view(max_age=0)
    assert view.live
    assert view.problems == []
    assert all(isinstance(item, BatchRun) for _, item in view.runs())


def test_a_preallocated_file_grows_without_changing_its_size(writer: LogWriter) -> None:
    log = live_log(writer)
    os.truncate(writer.records_file, 1 << 30)
    at = 0
    for number in range(20):
        new = batch([Rec(b"%d" % number)], number)
        with writer.records_file.open("r+b") as file:
            file.seek(at)
            file.write(new)
        at += len(new)
        view = log.view(max_age=0)
        assert (view.log_end_offset, view.end_position) == (number + 1, at)
    assert view.problems == []
    os.truncate(writer.records_file, at)
    writer.next_offset = 20
    writer.roll(index_interval=None)
    assert log.view(max_age=0).log_end_offset == 20


def test_a_batch_inside_a_torn_one_is_not_taken_for_the_log(writer: LogWriter) -> None:
    """Values may hold batches, as a mirror's do."""
    log = live_log(writer)
    writer.append_records(b"a")
    inner = batch([Rec(b"inner")], 500)
    outer = batch([Rec(inner + b"x" * 1000)], 1)
    with writer.records_file.open("ab") as file:
        file.write(outer[:-10])
    assert log.view(max_age=0).log_end_offset == 1
    with writer.records_file.open("ab") as file:
        file.write(outer[-10:])
    assert log.view(max_age=0).log_end_offset == 2


def test_damage_in_a_live_log_counts_once_it_stays(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = live_log(writer)
    writer.append_records(b"a")
    bad = patched(batch([Rec(b"b" * 50)], 1), 70, b"\xff\xff")
    with writer.records_file.open("ab") as file:
        file.write(bad + batch([Rec(b"c")], 2))
    view = log.view(max_age=0)
    assert (view.log_end_offset, view.problems) == (1, [])
    monkeypatch.setattr(active_tail, "PATIENCE", 0.0)
    view = log.view(max_age=0)
    assert view.log_end_offset == 3
    assert [problem["kind"] for problem in view.problems] == ["crc_mismatch"]
    assert offsets_of(view) == [0, 2]


@pytest.mark.parametrize("was_torn", [False, True], ids=["good before", "torn before"])
def test_each_bad_tail_of_a_live_log_has_its_own_time_to_become_whole(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch, was_torn: bool
) -> None:
    now = 100.0
    monkeypatch.setattr(active_tail, "monotonic", lambda: now)
    log = live_log(writer)
    writer.append_records(b"x" * (active_tail.LOOK_UP_CHUNK + 1))
    assert log.view(max_age=0).log_end_offset == 1
    if was_torn:
        torn = batch([Rec(b"b")], 1)
        with writer.records_file.open("ab") as file:
            file.write(torn[:-1])
        assert log.view(max_age=0).log_end_offset == 1
        with writer.records_file.open("ab") as file:
            file.write(torn[-1:])
        assert log.view(max_age=0).log_end_offset == 2
    now += active_tail.PATIENCE + 1
    end = 1 + was_torn
    bad = patched(batch([Rec(b"c" * 50)], end), 70, b"\xff\xff")
    with writer.records_file.open("ab") as file:
        file.write(bad + batch([Rec(b"d")], end + 1))
    view = log.view(max_age=0)
    assert (view.log_end_offset, view.problems) == (end, [])
    now += active_tail.PATIENCE + 1
    assert log.view(max_age=0).log_end_offset == end + 2


# Rewriting


def test_a_log_that_is_cut_off_ends_there(writer: LogWriter) -> None:
    for number in range(10):
        writer.append_records(b"%d" % number)
    before = writer.next_view()
    size = sum(map(len, writer.batches[:4]))
    os.truncate(writer.records_file, size)
    after = writer.next_view()
    assert (before.log_end_offset, after.log_end_offset) == (10, 4)
    assert after.rewrites == before.rewrites + 1
    assert after.record(5) is None


@pytest.mark.parametrize("longer_by", [0, 1, 5])
def test_a_log_that_is_cut_off_and_written_anew_shows_what_is_new(
    writer: LogWriter, longer_by: int
) -> None:
    """A leader change between two looks: the file is as long as before, or longer."""
    for number in range(10):
        writer.append_records(b"%d" % number)
    before = writer.next_view()
    size = sum(map(len, writer.batches[:4]))
    os.truncate(writer.records_file, size)
    writer.batches, writer.next_offset = [], 4
    for number in range(6 + longer_by):
        writer.append_records(b"%c" % (ord("A") + number), leader_epoch=1)
    after = writer.next_view()
    assert after.log_end_offset == 10 + longer_by
    assert after.rewrites == before.rewrites + 1
    for offset in range(4, 10):
        found = after.record(offset)
        assert found is not None
        assert found[0].value(found[1]) == b"%c" % (ord("A") + offset - 4)


def test_segments_that_are_cut_off_are_gone(writer: LogWriter) -> None:
    for _ in range(3):
        writer.append_records(b"a", b"b")
        writer.roll()
    writer.append_records(b"a")
    before = writer.next_view()
    assert before.base_offsets == (0, 2, 4, 6)
    for base in (4, 6):
        for path in writer.folder.glob(f"{base:020}.*"):
            path.unlink()
    after = writer.next_view()
    assert (after.base_offsets, after.log_end_offset) == ((0, 2), 4)
    assert after.rewrites > before.rewrites
    assert offsets_of(after) == [0, 1, 2, 3]


def test_compaction_replaces_a_segment_under_its_name(writer: LogWriter) -> None:
    writer.append_records(b"a", b"b")
    writer.append_records(b"c")
    writer.roll()
    writer.append_records(b"d")
    before = writer.next_view()
    assert offsets_of(before) == [0, 1, 2, 3]
    cleaned = writer.folder / f"{0:020}.log.swap"
    cleaned.write_bytes(batch([Rec(b"c")], 2))
    swapping = writer.next_view()
    assert [each.name for each in swapping.leftovers][:1] == [f"{0:020}.index"]
    assert offsets_of(swapping) == [2, 3]
    assert swapping.rewrites > before.rewrites
    os.replace(cleaned, writer.folder / f"{0:020}.log")
    after = writer.next_view()
    assert offsets_of(after) == [2, 3]
    assert after.record(0) is None
    assert after.rewrites > before.rewrites


@pytest.mark.parametrize("more", [0, 2000], ids=["small folder", "large folder"])
@pytest.mark.parametrize("shape", SHAPES[:2], ids=lambda shape: shape.name)
def test_a_compaction_under_way_shows_all_old_segments_or_all_new_ones(
    tmp_path: Path, shape: Shape, more: int
) -> None:
    """A broker renames files while we list them and open them; a large folder is not listed at once."""
    for number in range(10):
        folder = tmp_path / f"topic-{number}"
        write_state(folder, {**shape.others, **shape.old})
        for other in range(more):
            (folder / f"{other:020}.kept").touch()
        log = open_source(str(folder)).partitions()[folder.name]
        broker = threading.Thread(target=replace_segments, args=(folder, shape, Random(number)))
        broker.start()
        kinds = []
        while broker.is_alive() or not kinds or not kinds[-1]:
            try:
                found = offsets_of(log.view(max_age=0))
            except FileNotFoundError:  # readers look again
                continue
            assert found in (shape.before, shape.after)
            kinds.append(found == shape.after)
        broker.join()
        assert kinds == sorted(kinds)


@pytest.mark.parametrize(("age", "lists"), [(3600, 1), (0, 2)])
def test_a_large_folder_is_listed_again_only_when_it_changed_a_moment_ago(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch, age: int, lists: int
) -> None:
    writer.append_records(b"a")
    for number in range(1, 401):
        (writer.folder / f"{number:020}.snapshot").touch()
    changed = SYSTEM_CLOCK.now_ms() / 1000 - age
    os.utime(writer.folder, (changed, changed))
    listed: list[str] = []
    list_apart = SourceRoot.list_apart

    def counted(root: SourceRoot, folder: str = "") -> Any:
        listed.append(folder)
        return list_apart(root, folder)

    log = writer.log
    monkeypatch.setattr(SourceRoot, "list_apart", counted)
    assert offsets_of(log.view()) == [0]
    assert listed == [log.folder] * lists


def test_compaction_is_seen_when_no_name_tells_of_it(writer: LogWriter) -> None:
    writer.append_records(b"a", b"b")
    writer.append_records(b"c")
    writer.roll()
    writer.append_records(b"d")
    before = writer.next_view()
    assert offsets_of(before) == [0, 1, 2, 3]
    elsewhere = writer.log_dir.parent / "cleaned"
    elsewhere.write_bytes(batch([Rec(b"c")], 2))
    os.replace(elsewhere, writer.folder / f"{0:020}.log")
    after = writer.next_view()
    assert after.listing is before.listing
    assert offsets_of(after) == [2, 3]
    assert after.record(0) is None
    assert after.rewrites > before.rewrites


def test_an_older_view_may_be_read_while_the_folder_is_sorted_out(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        writer.append_records(b"a", b"b")
        writer.roll()
    before = writer.next_view()
    assert before.segment_at(0).batch(0) is not None
    unchanged = LogFollower._is_unchanged

    def read_meanwhile(log: LogFollower, segment: LogSegment, listing: FolderListing) -> bool:
        before.segment_at(1)  # another thread would
        return unchanged(log, segment, listing)

    monkeypatch.setattr(LogFollower, "_is_unchanged", read_meanwhile)
    writer.append_records(b"c")
    writer.roll()
    assert offsets_of(writer.next_view()) == list(range(7))


def test_retention_takes_the_oldest_segment(writer: LogWriter) -> None:
    for _ in range(3):
        writer.append_records(b"a", b"b")
        writer.roll()
    before = writer.next_view()
    held = before.segment_at(0)
    assert held.batch(0) is not None
    oldest = writer.folder / f"{0:020}.log"
    oldest.rename(oldest.with_suffix(".log.deleted"))
    after = writer.next_view()
    assert (after.log_start_offset, after.base_offsets) == (2, (2, 4, 6))
    assert after.record(0) is None
    oldest.with_suffix(".log.deleted").unlink()
    assert held.batch(0) is not None  # who has it open reads to the end


def test_deleting_records_moves_the_log_start(writer: LogWriter) -> None:
    writer.append_records(b"a", b"b", b"c")
    assert writer.view().log_start_offset == 0
    writer.log_start(2)
    view = writer.next_view()
    assert (view.log_start_offset, view.record(1)) == (2, None)
    writer.log_start(99)
    view = writer.view()
    assert (view.log_start_offset, view.log_end_offset) == (3, 3)
    assert [problem["kind"] for problem in view.problems] == ["checkpoint"]


def test_a_topic_that_is_made_anew_is_another_log(writer: LogWriter, tmp_path: Path) -> None:
    writer.append_records(b"old", b"old")
    log = live_log(writer)
    before = log.view()
    assert before.record(1) is not None
    shutil.move(writer.folder, tmp_path / "topic-0.0123-delete")
    with pytest.raises(FileNotFoundError):
        log.view(max_age=0)
    writer.folder.mkdir()
    (writer.folder / f"{0:020}.log").write_bytes(batch([Rec(b"new")]))
    after = log.view(max_age=0)
    assert after.log_end_offset == 1
    found = after.record(0)
    assert found is not None
    assert found[0].value(found[1]) == b"new"
    assert after.rewrites > before.rewrites


def test_a_log_without_segments_is_empty(writer: LogWriter) -> None:
    writer.records_file.unlink()
    view = writer.view()
    assert (view.log_start_offset, view.log_end_offset, len(view)) == (0, 0, 0)
    assert view.active_segment is None
    assert list(view.runs()) == []
    assert view.record(0) is view.offset_for_time(0) is view.max_timestamp is None
    assert view.segment_for(0) is None
    assert view.last_stable_offset == view.high_watermark == 0


def test_a_log_that_lost_its_only_segment_is_empty_until_it_has_another(writer: LogWriter) -> None:
    writer.append_records(b"a")
    log = live_log(writer)
    assert log.view(max_age=0).log_end_offset == 1
    data = writer.records_file.read_bytes()
    writer.records_file.unlink()
    empty = log.view(max_age=0)
    assert (empty.active_segment, empty.log_end_offset, len(empty)) == (None, 0, 0)
    writer.records_file.write_bytes(data + batch([Rec(b"b")], 1))
    again = log.view(max_age=0)
    assert (again.log_end_offset, offsets_of(again)) == (2, [0, 1])


# Snapshots


def test_a_frozen_log_stays_as_it_was_whatever_happens(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "data")
    for number in range(30):
        writer.append_records(*(b"%d" % number,) * 3)
        if number % 10 == 9:
            writer.roll(index_interval=10)
    writer.append_transactional(1, 2)
    writer.log_start(5)
    source = open_source(str(tmp_path / "data"), snapshot=True)
    log = source.partitions()["topic-0"]
    writer.append_records(b"later")
    writer.log_start(50)
    shutil.rmtree(tmp_path / "data")
    (tmp_path / "data").mkdir()
    assert list(source.partitions(max_age=0)) == ["topic-0"]
    view = log.view(max_age=0)
    assert (view.log_start_offset, view.log_end_offset) == (5, 92)
    assert offsets_of(view) == list(range(3, 92))  # whole batches
    assert all(view.record(offset) for offset in range(5, 92))
    assert view.last_stable_offset == 90
    found = view.offset_for_time(1_700_000_000_000)
    assert found is not None
    assert found.offset == 5


# All at once


class Reader(threading.Thread):
    """Looks up records and runs of them until it is told to stop; keeps what was wrong."""

    def __init__(self, log: PartitionLog, known: dict[str, int], seed: int) -> None:
        super().__init__()
        self.log = log
        self.known = known
        self.random = Random(seed)
        self.stopped = threading.Event()
        self.wrong: list[object] = []
        self.looks = 0

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self.look()
                self.looks += 1
            except FileNotFoundError:
                pass  # a segment that retention took since the view was made
            except Exception as error:  # noqa: BLE001  the test shows it
                self.wrong.append(repr(error))

    def look(self) -> None:
        first = self.known["start"]
        view = self.log.view(max_age=self.random.choice((0, 0.2)))
        first, last = max(first, view.log_start_offset), view.log_end_offset
        if first >= last:
            return
        offset = self.random.randrange(first, last)
        found = view.record(offset)
        is_right = found is not None and found[0].value(found[1]) == b"%d" % offset
        if not is_right and offset >= self.known["start"]:
            self.wrong.append(("record", offset, found))
        seen = offsets_of(view, max(first, last - 50), last)
        if seen and seen != list(range(seen[0], seen[0] + len(seen))):
            self.wrong.append(("run", seen))


def test_readers_beside_a_writer_find_every_record_that_is_there(tmp_path: Path) -> None:
    """Appends in torn pieces, rolls, retention and new views, under threads that look things up."""
    writer = LogWriter(tmp_path)
    log = live_log(writer)
    random = Random(5)
    known = {"start": 0}
    readers = [Reader(log, known, seed) for seed in range(3)]
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + 2.5
    while time.monotonic() < deadline:
        base = writer.next_offset
        new = batch([Rec(b"%d" % (base + n)) for n in range(random.randrange(1, 20))], base)
        cut = random.randrange(len(new))
        with writer.records_file.open("ab", buffering=0) as file:
            file.write(new[:cut])
            time.sleep(random.random() / 500)
            file.write(new[cut:])
        writer.batches.append(new)
        writer.next_offset = last_offset(new) + 1
        if random.random() < 0.05:
            writer.roll()
        bases = sorted(int(path.stem) for path in writer.folder.glob("*.log"))
        if len(bases) > 4:
            known["start"] = bases[1]
            (writer.folder / f"{bases[0]:020}.log").unlink()
    for reader in readers:
        reader.stopped.set()
        reader.join()
    assert [reader.wrong for reader in readers] == [[], [], []]
    assert min(reader.looks for reader in readers) > 20
    view = log.view(max_age=0)
    assert view.log_end_offset == writer.next_offset
    assert view.problems == []
    assert all(isinstance(item, BatchRun) for _, item in view.runs())


# Forgetting


def test_a_forgotten_log_is_read_again_and_a_frozen_one_is_kept(writer: LogWriter) -> None:
    writer.append_records(b"a")
    for frozen in (False, True):
        log = live_log(writer, frozen=frozen)
        before = log.view()
        log.forget()
        assert log.is_loaded == frozen
        assert (log.view() is before) == frozen
        assert offsets_of(log.view()) == [0]
