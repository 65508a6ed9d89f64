"""Where a followed log ends: batches out of order, sectors that fail meanwhile, folders that change."""

from __future__ import annotations

import errno
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine.errors import SourceError, SourceGoneError
from engine.files.source_files import SourceRoot
from engine.log.log_directory import open_source
from engine.log.segment import active_tail
from engine.log.segment.problems import Problems
from engine.log.source_checkpoints import SourceCheckpoints
from engine.units import TopicPartition
from tests.builders import Rec, batch, patched
from tests.engine.log.folders import LogWriter, live_log, offsets_of
from tests.unreadable import unreadable_bytes

PAGE = 512


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path)


def write(writer: LogWriter, data: bytes) -> None:
    with writer.records_file.open("ab") as file:
        file.write(data)


def batch_of(size: int, offset: int) -> bytes:
    """A batch of about this many bytes."""
    return batch([Rec(b"x" * (size - 70))], offset)


# The log end


@pytest.mark.parametrize("at_a_time", [1, 2, 5])
def test_a_batch_that_states_too_large_an_offset_does_not_move_the_log_end_for_good(
    writer: LogWriter, at_a_time: int
) -> None:
    made = [batch([Rec(b"v")], offset) for offset in (0, 1, 90, 3, 4)]
    log = live_log(writer)
    view = log.view()
    for number in range(0, 5, at_a_time):
        write(writer, b"".join(made[number : number + at_a_time]))
        view = log.view(max_age=0)
    assert view.log_end_offset == 5
    assert offsets_of(view) == [0, 1, 3, 4]
    assert [problem["kind"] for problem in view.problems] == ["offset_order"]


@pytest.mark.parametrize(("base", "log_end"), [(9, 1001), (10, 20), (11, 21)])
def test_only_a_batch_above_the_one_before_the_last_shows_that_the_last_states_too_much(
    writer: LogWriter, base: int, log_end: int
) -> None:
    write(writer, batch([Rec(b"v")] * 10, 0) + batch([Rec(b"v")], 1000))
    write(writer, batch([Rec(b"v")] * 10, base))
    assert live_log(writer).view().log_end_offset == log_end


@pytest.mark.parametrize("at_a_time", [1, 2, 5])
def test_a_batch_that_states_too_small_an_offset_does_not_move_the_log_end_back(
    writer: LogWriter, at_a_time: int
) -> None:
    made = [batch([Rec(b"v")] * 2, offset) for offset in (10, 12, 14, 0, 18)]
    log = live_log(writer)
    ends = []
    for number in range(0, 5, at_a_time):
        write(writer, b"".join(made[number : number + at_a_time]))
        ends.append(log.view(max_age=0).log_end_offset)
    assert ends == {1: [12, 14, 16, 16, 20], 2: [14, 16, 20], 5: [20]}[at_a_time]
    view = log.view(max_age=0)
    assert [problem["kind"] for problem in view.problems] == ["offset_order"]
    for offset in (10, 13, 15, 19):
        assert view.record(offset) is not None


def test_a_first_batch_below_the_base_offset_is_out_of_order(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, base_offset=5)
    writer.append(batch([Rec(b"v")], 3), batch([Rec(b"v")], 5))
    view = writer.view()
    assert view.log_end_offset == 6
    (problem,) = view.problems
    assert (problem["kind"], problem["expected"], problem["found"]) == ("offset_order", 5, 3)


def test_a_small_file_and_a_large_one_end_at_the_same_offset(writer: LogWriter) -> None:
    log, ends = live_log(writer), []
    for number in range(12):
        writer.append_records(b"x" * 20_000, b"y")
        ends.append((log.view(max_age=0).log_end_offset, writer.view().log_end_offset))
        assert log.view(max_age=0).end_position == writer.records_file.stat().st_size
        assert number or writer.records_file.stat().st_size < 64 * 1024
    assert ends == [(2 * n, 2 * n) for n in range(1, 13)]
    assert writer.records_file.stat().st_size > 64 * 1024


def test_zeros_behind_the_last_batch_are_no_reason_to_scan(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append_records(b"a")
    size = writer.records_file.stat().st_size
    os.truncate(writer.records_file, 100_000)
    log = live_log(writer)
    assert log.view().end_position == size
    monkeypatch.setattr(
        active_tail, "scan_in_order", lambda *_, **__: pytest.fail("there is nothing new")
    )
    for _ in range(3):
        assert log.view(max_age=0).end_position == size
    monkeypatch.undo()
    with writer.records_file.open("r+b") as file:
        file.seek(size)
        file.write(batch([Rec(b"b")], 1))
    assert log.view(max_age=0).log_end_offset == 2


def test_rubbish_in_a_log_without_a_writer_is_searched_once(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append_records(b"a")
    write(writer, b"rubbish" * 100)
    log = live_log(writer, is_live=False)
    view = log.view()
    searches = []
    scan = active_tail.scan_in_order

    def noted(*args: object, resync: bool, **options: object) -> object:
        searches.append(resync)
        return scan(*args, resync=resync, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(active_tail, "scan_in_order", noted)
    for _ in range(3):
        assert log.view(max_age=0) is view
    assert True not in searches
    write(writer, b"more")
    log.view(max_age=0)
    assert searches.count(True) == 1


# Sectors that fail


def test_a_last_batch_that_cannot_be_read_any_more_ends_the_log_before_it(
    writer: LogWriter,
) -> None:
    """Whether it is still the same batch cannot be told."""
    write(writer, batch_of(PAGE, 0) + batch_of(PAGE, 1))
    first = len(batch_of(PAGE, 0))
    log = live_log(writer)
    before = log.view()
    assert before.log_end_offset == 2
    os.utime(writer.records_file, (1, 1))
    with unreadable_bytes({writer.records_file: [(first, first + PAGE)]}):
        after = log.view(max_age=0)
        assert after.rewrites == before.rewrites + 1
        assert after.log_end_offset == 1
        assert after.record(0) is not None


def test_bytes_behind_the_log_end_that_cannot_be_read_are_not_there_yet(
    writer: LogWriter,
) -> None:
    write(writer, batch_of(PAGE, 0))
    size = writer.records_file.stat().st_size
    log = live_log(writer)
    log.view()
    write(writer, batch_of(PAGE, 1))
    with unreadable_bytes({writer.records_file: [(size, 2 * size)]}):
        assert log.view(max_age=0).log_end_offset == 1


# The folder


def test_a_segment_that_was_not_read_may_be_replaced_unseen(writer: LogWriter) -> None:
    """A view of a file that nobody opened shows no record of it yet."""
    for _ in range(3):
        writer.append_records(b"a", b"b")
        writer.roll()
    before = writer.next_view()
    assert before.segment_at(0).batch(0) is not None
    before.segment_at(1)
    os.replace(writer.folder / f"{2:020}.log", writer.folder / "aside")
    (writer.folder / f"{2:020}.log").write_bytes(batch([Rec(b"c")], 3))
    after = writer.next_view()
    assert offsets_of(after) == [0, 1, 3, 4, 5]
    assert after.segment_at(0) is before.segment_at(0)


def test_a_file_in_the_folder_that_comes_or_goes_rewrites_nothing(writer: LogWriter) -> None:
    for _ in range(2):
        writer.append_records(b"a", b"b")
        writer.roll()
    before = writer.next_view()
    assert [before.segment_at(place).batch(2 * place) is None for place in (0, 1)] == [False] * 2
    (writer.folder / "notes.txt").touch()
    after = writer.next_view()
    assert after is not before
    assert (after.rewrites, after.generation) == (before.rewrites, before.generation + 1)
    assert [each.name for each in after.leftovers] == ["notes.txt"]
    assert after.segment_at(0) is before.segment_at(0)


def test_each_change_of_a_log_that_is_not_an_append_counts_once(writer: LogWriter) -> None:
    for _ in range(3):
        writer.append_records(b"a", b"b")
        writer.roll()
    writer.append_records(b"c")
    log = live_log(writer)
    first = log.view()
    assert (first.generation, first.rewrites) == (0, 0)
    first.segment_at(0).batch(0)
    writer.append_records(b"d")
    grown = log.view(max_age=0)
    assert (grown.generation, grown.rewrites) == (1, 0)
    os.truncate(writer.records_file, 0)
    cut = log.view(max_age=0)
    assert (cut.generation, cut.rewrites, cut.log_end_offset) == (2, 1, 6)
    shutil.copyfile(writer.folder / f"{0:020}.log", writer.folder / "new")
    os.replace(writer.folder / "new", writer.folder / f"{0:020}.log")
    replaced = log.view(max_age=0)
    assert replaced.rewrites == 2
    for path in (*writer.folder.glob(f"{6:020}.*"), *writer.folder.glob(f"{4:020}.*")):
        path.unlink()
    shorter = log.view(max_age=0)
    assert (shorter.rewrites, shorter.log_end_offset) == (3, 4)


@pytest.mark.parametrize(("head", "base"), [(7, 7), (-5, 0), (2**63 - 1, 2**63 - 1)])
def test_a_renamed_records_file_has_the_base_offset_of_its_first_batch(
    tmp_path: Path, head: int, base: int
) -> None:
    path = tmp_path / "saved.log"
    path.write_bytes(patched(batch([Rec(b"v")], 0), 0, head.to_bytes(8, "big", signed=True)))
    view = next(iter(open_source(str(path)).partitions().values())).view()
    assert view.base_offsets == (base,)
    assert view.log_start_offset == base


def test_an_empty_log_of_a_topic_has_its_start_from_the_checkpoint(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.records_file.unlink()
    view = writer.view()
    assert (view.log_start_offset, view.log_end_offset) == (0, 0)
    writer.log_start(12)
    view = writer.view()
    assert (view.log_start_offset, view.log_end_offset, view.problems) == (12, 12, [])
    writer.log_start(-3)
    view = writer.view()
    assert (view.log_start_offset, view.log_end_offset) == (0, 0)


def test_a_folder_that_a_broker_deleted_is_no_problem_and_one_that_fails_is(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append_records(b"v")
    for is_live, is_gone in ((True, True), (True, False), (False, True), (False, False)):
        log = live_log(writer, is_live=is_live)

        def fails(_root: SourceRoot, _folder: str = "", *, gone: bool = is_gone) -> object:
            number = errno.ENOENT if gone else errno.EIO
            raise OSError(number, os.strerror(number))

        with monkeypatch.context() as patch:
            patch.setattr(SourceRoot, "list_apart", fails)
            assert log.view_or_none() is None
        assert log.has_unread is not (is_live and is_gone)
        assert log.view_or_none() is not None


# The source


def test_a_source_whose_entries_are_all_gone_keeps_its_partitions_and_says_so(
    tmp_path: Path,
) -> None:
    for name in ("a-0", "b-0"):
        LogWriter(tmp_path / "data", name).append_records(b"v")
    source = open_source(str(tmp_path / "data"))
    assert list(source.partitions()) == ["a-0", "b-0"]
    for name in ("a-0", "b-0"):
        shutil.rmtree(tmp_path / "data" / name)
    assert list(source.partitions(max_age=0)) == ["a-0", "b-0"]
    assert [problem["kind"] for problem in source.problems] == ["source_gone"]
    with pytest.raises(SourceGoneError, match="everything in the source folder was deleted"):
        source.check_there()


def test_the_only_partition_of_a_source_may_be_deleted(tmp_path: Path) -> None:
    LogWriter(tmp_path / "data", "a-0").append_records(b"v")
    source = open_source(str(tmp_path / "data"))
    shutil.rmtree(tmp_path / "data" / "a-0")
    assert list(source.partitions(max_age=0)) == []
    source.check_there()
    assert source.problems == []


def test_a_source_is_listed_again_when_its_list_is_as_old_as_was_asked(
    tmp_path: Path,
) -> None:
    LogWriter(tmp_path, "a-0").append_records(b"v")
    source = open_source(str(tmp_path))
    source.partitions(max_age=0)
    LogWriter(tmp_path, "b-0").append_records(b"v")
    assert list(source.partitions(max_age=1000)) == ["a-0"]
    assert list(source.partitions(max_age=0)) == ["a-0", "b-0"]
    frozen = open_source(str(tmp_path), snapshot=True)
    LogWriter(tmp_path, "c-0").append_records(b"v")
    assert list(frozen.partitions(max_age=0)) == ["a-0", "b-0"]
    frozen.check_there()


def open_folders(folder: Path) -> set[str]:
    """Paths of the folders from a folder on down that this process has open."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if path.is_relative_to(folder) and path.is_dir():
                found.add(str(path.relative_to(folder)))
    return found


def test_closing_a_source_closes_its_folder_and_the_log_dir_above(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"v")
    writer.high_watermark(1)
    source = open_source(str(writer.folder))
    assert source.partitions()["topic-0"].view().high_watermark == 1
    assert open_folders(tmp_path) == {".", "topic-0"}
    (root,), (log_dir,) = source.roots, source.log_dirs
    assert log_dir is not None
    source.close()
    for each in (root, log_dir):
        with pytest.raises(ValueError, match="is closed"):
            each.list()
    assert not open_folders(tmp_path)


@pytest.mark.parametrize("size", [100, 70_000], ids=["small", "large"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_last_batch_that_was_written_anew_is_seen_though_the_size_is_the_same(
    writer: LogWriter, size: int, count: int
) -> None:
    log = live_log(writer)
    log.view()
    write(writer, b"".join(batch_of(size, offset) for offset in range(count)))
    before = log.view(max_age=0)
    assert before.log_end_offset == count
    kept = len(batch_of(size, 0)) * (count - 1)
    os.truncate(writer.records_file, kept)
    write(writer, batch([Rec(b"y" * (size - 70))], count - 1))
    os.utime(writer.records_file, (5, 5))
    after = log.view(max_age=0)
    assert after.rewrites == before.rewrites + 1
    found = after.record(count - 1)
    assert found is not None
    assert found[0].value(found[1]) == b"y" * (size - 70)


def test_a_file_that_was_only_touched_is_the_same_log(writer: LogWriter) -> None:
    write(writer, batch_of(100, 0) + batch_of(100, 1))
    log = live_log(writer)
    before = log.view()
    os.utime(writer.records_file, (5, 5))
    assert log.view(max_age=0) is before


def test_a_folder_that_was_only_touched_gives_the_same_view(writer: LogWriter) -> None:
    for _ in range(2):
        writer.append_records(b"a")
        writer.roll()
    log = live_log(writer)
    before = log.view()
    assert before.segment_at(0).batch(0) is not None
    for number in range(3):
        os.utime(writer.folder, (number, number))
        assert log.view(max_age=0) is before


def test_a_segment_that_vanished_under_a_listed_name_is_read_again(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        writer.append_records(b"a", b"b")
        writer.roll()
    log = live_log(writer)
    before = log.view()
    assert before.segment_at(0).batch(0) is not None
    stat = SourceRoot.stat

    def fails(self: SourceRoot, relative: str = "") -> os.stat_result:
        if relative.endswith(f"{0:020}.log"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return stat(self, relative)

    monkeypatch.setattr(SourceRoot, "stat", fails)
    (writer.folder / "notes.txt").touch()
    after = log.view(max_age=0)
    assert after.rewrites == before.rewrites + 1
    assert after.segment_at(0) is not before.segment_at(0)
    assert offsets_of(after) == [0, 1, 2, 3]


def test_a_log_that_was_cut_off_has_nothing_unread_and_one_that_is_gone_has_no_lag(
    writer: LogWriter,
) -> None:
    write(writer, batch_of(100, 0) + batch_of(100, 1))
    log = live_log(writer)
    log.view()
    os.truncate(writer.records_file, 10)
    lag = log.lag()
    assert lag is not None
    assert (lag.log_end_offset, lag.unread_bytes) == (2, 0)
    writer.records_file.unlink()
    assert log.lag() is None


def test_holding_a_partition_open_takes_two_descriptors_a_segment(writer: LogWriter) -> None:
    for _ in range(3):
        writer.append_records(b"v")
        writer.roll()
    log = live_log(writer)
    assert [log.freeze(most) for most in (0, 1, 2, 5, 8, 100)] == [0, 0, 2, 4, 8, 8]


def test_a_topic_made_anew_shares_no_segment_with_the_old_one(writer: LogWriter) -> None:
    writer.append_records(b"old")
    writer.roll()
    log = live_log(writer)
    before = log.view()
    assert before.segment_at(0).batch(0) is not None
    aside = writer.folder.with_name("aside")
    writer.folder.rename(aside)
    shutil.copytree(aside, writer.folder)
    after = log.view(max_age=0)
    assert after.segment_at(0) is not before.segment_at(0)
    assert after.rewrites > before.rewrites


def test_a_checkpoint_that_did_not_change_is_not_read_again(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.high_watermark(3)
    partition = TopicPartition("topic", 0)
    with SourceRoot(str(writer.log_dir)) as root:
        known = SourceCheckpoints(root, Problems())
        assert known.high_watermark(partition) == 3
        time.sleep(0.25)
        assert known.high_watermark(partition) == 3  # read once more: a tick has passed
        monkeypatch.setattr(SourceRoot, "read", lambda *_, **__: pytest.fail("it is the same"))
        known.refresh(max_age=0)
        assert known.high_watermark(partition) == 3


@pytest.mark.parametrize(
    ("folders", "files"), [(["notes"], []), ([], ["orders-0"]), (["notes"], ["orders-0"])]
)
def test_only_folders_with_names_of_partitions_make_a_log_dir(
    tmp_path: Path, folders: list[str], files: list[str]
) -> None:
    for name in folders:
        (tmp_path / name).mkdir()
    for name in files:
        (tmp_path / name).touch()
    with pytest.raises(SourceError, match="is not a log dir"):
        open_source(str(tmp_path))
    (tmp_path / "orders-1").mkdir()
    assert list(open_source(str(tmp_path)).partitions()) == ["orders-1"]
