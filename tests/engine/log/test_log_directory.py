from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import socket
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from engine.errors import SourceError, SourceGoneError
from engine.files.file_names import validate_topic
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource, Unread, open_source
from engine.log.partition_log import PartitionLog
from engine.log.segment.problems import Problems
from engine.log.source_checkpoints import SourceCheckpoints
from engine.units import TopicPartition
from tests.builders import Rec, batch, write_segment
from tests.engine.log.folders import LogWriter, offsets_of
from tests.fixtures_data import log_dir, partitions

ONE = [batch([Rec(b"a"), Rec(b"b")])]


def make_log_dir(path: Path, *names: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    for name in names:
        write_segment(path / name, ONE)
    return path


def names_of(source: LogSource) -> list[str]:
    return list(source.partitions(max_age=0))


# What a source can be


def test_one_file_has_the_base_offset_of_its_name_although_its_first_records_are_gone(
    tmp_path: Path,
) -> None:
    compacted = tmp_path / f"{7:020}.log.deleted"
    compacted.write_bytes(batch([Rec(b"v")], 9))
    (log,) = open_source(str(compacted)).partitions().values()
    assert log.view().segment_at(0).base_offset == 7


def test_an_unread_path_is_shown_with_its_reason() -> None:
    denied = Unread.of("a/b", PermissionError(errno.EACCES, "Permission denied"))
    assert str(denied).startswith("a/b: Permission denied (")
    assert str(Unread.of("a/b", OSError(errno.ENXIO, "No such device"))).endswith(
        "device or address"
    )


def test_a_log_dir_has_its_partitions_by_name() -> None:
    source = open_source(str(log_dir("current")))
    assert names_of(source) == sorted(partitions("current"))
    assert source.others == ()
    assert source.problems == []
    log = source.partitions()["mixed.codecs_in-one-7-0"]
    assert log.topic_partition == TopicPartition("mixed.codecs_in-one-7", 0)
    (properties,) = source.meta_properties
    assert properties is not None
    assert properties.node_id is not None


def test_opening_a_log_dir_looks_at_no_partition(tmp_path: Path) -> None:
    make_log_dir(tmp_path, "a-0", "a-1")
    source = open_source(str(tmp_path))
    logs = source.partitions().values()
    assert [log.is_loaded for log in logs] == [False, False]


def test_one_partition_folder_has_the_log_start_of_the_dir_it_lies_in() -> None:
    source = open_source(str(log_dir("current") / "trimmed-0"))
    assert names_of(source) == ["trimmed-0"]
    view = source.partitions()["trimmed-0"].view()
    assert (view.partition, view.log_start_offset) == (TopicPartition("trimmed", 0), 753)
    assert view.record(1000) is not None


def test_one_records_file_is_a_log_of_its_own() -> None:
    path = log_dir("current") / "orders-0" / "00000000000000000395.log"
    source = open_source(str(path))
    view = source.partitions()["orders-0"].view()
    assert (view.base_offsets, view.log_start_offset, view.log_end_offset) == ((395,), 395, 790)
    assert offsets_of(view) == list(range(395, 790))
    assert view.offset_for_time(0) is not None
    assert [entry.name.partition(".")[0] for entry in view.files] == [path.stem] * 4


def test_a_records_file_below_the_checkpointed_log_start_is_shown_whole(tmp_path: Path) -> None:
    make_log_dir(tmp_path, "t-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 500\n")
    source = open_source(str(tmp_path / "t-0" / f"{0:020}.log"))
    view = source.partitions()["t-0"].view()
    assert (view.log_start_offset, view.log_end_offset, view.problems) == (0, 2, [])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("copy.log", "copy-0"),
        ("copy.log.1", "copy-0"),
        ("payments-7.log", "payments-7"),
        ("mailed by Ann.log", "mailed_by_Ann-0"),
        ("f1234.dat", "f1234.dat-0"),
        ("ünïcode.log", "_n_code-0"),
        (f"{'x' * 230}-{2**40}.log", f"{'x' * 230}-{2**40}-0"),
        (f"{35:020}.log", "somewhere-0"),
        (f"{35:020}.log.deleted", "somewhere-0"),
        (f"{35:020}.log.swap", "somewhere-0"),
    ],
)
def test_a_renamed_records_file_tells_its_base_offset_itself(
    tmp_path: Path, name: str, shown: str
) -> None:
    path = tmp_path / "somewhere" / name
    path.parent.mkdir()
    path.write_bytes(batch([Rec(b"a"), Rec(b"b")], 35))
    source = open_source(str(path))
    (log,) = source.partitions().values()
    assert (log.name, str(log.topic_partition), log.is_named) == (shown, shown, False)
    validate_topic(log.topic_partition.topic)
    assert offsets_of(log.view()) == [35, 36]


def test_a_renamed_partition_folder_is_a_topic_of_its_own(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-0.backup", ONE)
    source = open_source(str(tmp_path / "orders-0.backup"))
    (log,) = source.partitions().values()
    assert (log.name, log.topic_partition) == ("orders-0.backup-0", ("orders-0.backup", 0))
    assert not log.is_named
    assert log.view().log_end_offset == 2


def test_a_records_file_without_its_start_begins_with_the_first_good_batch(tmp_path: Path) -> None:
    garbage = bytes(range(1, 200)) * 20
    (tmp_path / "carved.log").write_bytes(garbage + batch([Rec(b"a"), Rec(b"b")], 35))
    (log,) = open_source(str(tmp_path / "carved.log")).partitions().values()
    view = log.view()
    assert (view.log_start_offset, view.log_end_offset) == (35, 37)


@pytest.mark.parametrize("data", [b"", b"not a log", bytes(500), bytes(range(256)) * 40])
def test_a_file_of_another_kind_is_no_source(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "notes").write_bytes(data)
    with pytest.raises(SourceError, match="does not begin with a batch"):
        open_source(str(tmp_path / "notes"))


def test_a_link_to_a_records_file_is_followed(tmp_path: Path) -> None:
    write_segment(tmp_path / "orders-3", ONE)
    (tmp_path / "link").symlink_to(tmp_path / "orders-3" / f"{0:020}.log")
    (log,) = open_source(str(tmp_path / "link")).partitions().values()
    assert (log.name, log.is_named, offsets_of(log.view())) == ("orders-3", True, [0, 1])


def test_a_deleted_file_that_a_process_has_open_is_read_through_its_descriptor(
    tmp_path: Path,
) -> None:
    write_segment(tmp_path / "orders-3", ONE)
    path = tmp_path / "orders-3" / f"{0:020}.log"
    with path.open("rb") as held:
        path.unlink()
        (log,) = open_source(f"/proc/{os.getpid()}/fd/{held.fileno()}").partitions().values()
        assert (log.name, log.is_named, offsets_of(log.view())) == ("orders-3", False, [0, 1])


@pytest.mark.parametrize("ending", ["/", "//", "/.", ""])
def test_a_path_may_end_as_people_write_it(tmp_path: Path, ending: str) -> None:
    make_log_dir(tmp_path, "a-0")
    assert names_of(open_source(f"{tmp_path}{ending}")) == ["a-0"]
    assert names_of(open_source(f"{tmp_path}/a-0{ending}")) == ["a-0"]


def test_a_relative_path_and_a_link_to_a_source_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log_dir(tmp_path / "data", "a-0")
    monkeypatch.chdir(tmp_path)
    assert names_of(open_source("data")) == ["a-0"]
    assert names_of(open_source("data/a-0")) == ["a-0"]
    (tmp_path / "link").symlink_to("data")
    assert names_of(open_source("link")) == ["a-0"]


def test_a_log_dir_may_have_no_partition_yet(tmp_path: Path) -> None:
    make_log_dir(tmp_path)
    assert names_of(open_source(str(tmp_path))) == []


@pytest.mark.parametrize("file", ["00000000000000000200.snapshot", "00000000000000000000.index"])
def test_a_partition_that_lost_its_records_files_is_still_a_source(
    tmp_path: Path, file: str
) -> None:
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / file).touch()
    assert names_of(open_source(str(tmp_path / "a-0"))) == ["a-0"]


# What is no source


def test_what_is_no_source_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file.txt").touch()
    (tmp_path / "notes.txt").touch()
    os.mkfifo(tmp_path / "fifo")
    for path, reason in {
        "missing": "is not there",
        "empty": "is empty",
        "other": "is not a log dir",
        "notes.txt": "is not a .log file",
        "fifo": "is neither a folder nor a file",
        "notes.txt/x": "cannot be read",
    }.items():
        with pytest.raises(SourceError, match=reason) as caught:
            open_source(str(tmp_path / path))
        assert "\n" not in str(caught.value)
    with pytest.raises(SourceError, match="no source"):
        open_source([])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_source_that_may_not_be_read_says_who_may(tmp_path: Path) -> None:
    make_log_dir(tmp_path / "data", "a-0").chmod(0)
    with pytest.raises(SourceError, match="may not be read") as caught:
        open_source(str(tmp_path / "data"))
    assert "user that owns" in caught.value.hint


# What else lies in it


def test_what_is_no_partition_stands_apart(tmp_path: Path) -> None:
    make_log_dir(tmp_path, "a-0")
    (tmp_path / "remote-log-index-cache").mkdir()
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "t--x").mkdir()
    (tmp_path / "notes.txt").touch()
    (tmp_path / "b-0").symlink_to("a-0")
    os.mkfifo(tmp_path / "c-0")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "d-0"))
    for name in ("replication-offset-checkpoint", ".kafka_cleanshutdown", ".lock"):
        (tmp_path / name).touch()
    source = open_source(str(tmp_path))
    assert names_of(source) == ["a-0"]
    others = {each.name: each.kind for each in source.others}
    assert others == {
        "remote-log-index-cache": EntryKind.DIRECTORY,
        "lost+found": EntryKind.DIRECTORY,
        "t--x": EntryKind.DIRECTORY,
        "notes.txt": EntryKind.FILE,
        "b-0": EntryKind.SYMLINK,
        "c-0": EntryKind.OTHER,
        "d-0": EntryKind.OTHER,
    }
    assert [os.path.basename(unread.path) for unread in source.unread_folders()] == ["b-0"]


def test_folders_on_their_way_out_or_in_have_their_full_name(tmp_path: Path) -> None:
    marked = [f"t-0.{'0' * 32}{suffix}" for suffix in ("-delete", "-future", "-stray")]
    make_log_dir(tmp_path, "t-0", *marked)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")
    source = open_source(str(tmp_path))
    assert names_of(source) == sorted(["t-0", *marked])
    logs = source.partitions()
    assert {log.topic_partition for log in logs.values()} == {TopicPartition("t", 0)}
    assert logs["t-0"].view().log_start_offset == 1
    assert {logs[name].view().log_start_offset for name in marked} == {0}


def test_a_second_copy_in_a_later_log_dir_is_told_apart(tmp_path: Path) -> None:
    first = make_log_dir(tmp_path / "one", "a-0", "b-0")
    second = make_log_dir(tmp_path / "two", "b-0", "c-0")
    third = make_log_dir(tmp_path / "three", "b-0")
    source = open_source([str(first), str(second), str(third)])
    assert names_of(source) == ["a-0", "b-0", "b-0@2", "b-0@3", "c-0"]
    logs = source.partitions()
    assert [logs[name].root.path for name in ("b-0", "b-0@2", "b-0@3")] == [
        str(first),
        str(second),
        str(third),
    ]
    assert [problem["kind"] for problem in source.problems] == ["second_copy"] * 2
    assert logs["b-0@2"].topic_partition == TopicPartition("b", 0)


def test_names_that_are_no_utf8_are_kept(tmp_path: Path) -> None:
    make_log_dir(tmp_path)
    odd = os.fsencode(str(tmp_path)) + b"/t\xff\n-0"
    os.mkdir(odd)
    (Path(os.fsdecode(odd)) / f"{0:020}.log").write_bytes(ONE[0])
    (name,) = names_of(open_source(str(tmp_path)))
    assert os.fsencode(name) == b"t\xff\n-0"


# Following


def test_partitions_come_and_go(tmp_path: Path) -> None:
    make_log_dir(tmp_path, "a-0", "b-0")
    source = open_source(str(tmp_path))
    a = source.partitions()["a-0"]
    write_segment(tmp_path / "c-0", ONE)
    shutil.rmtree(tmp_path / "b-0")
    assert names_of(source) == ["a-0", "c-0"]
    assert source.partitions()["a-0"] is a
    (tmp_path / "a-0").rename(tmp_path / f"a-0.{'1' * 32}-delete")
    assert names_of(source) == [f"a-0.{'1' * 32}-delete", "c-0"]


def test_the_list_is_made_again_only_when_it_can_have_changed(tmp_path: Path) -> None:
    make_log_dir(tmp_path, "a-0")
    source = open_source(str(tmp_path))
    first = source.partitions(max_age=0)
    time.sleep(0.06)
    source.partitions(max_age=0)
    again = source.partitions(max_age=0)
    assert source.partitions(max_age=0) is again
    assert dict(first) == dict(again)


def test_a_snapshot_stays_as_it_was(tmp_path: Path) -> None:
    make_log_dir(tmp_path, "a-0")
    source = open_source(str(tmp_path), snapshot=True)
    write_segment(tmp_path / "b-0", ONE)
    assert names_of(source) == ["a-0"]
    assert source.is_snapshot


def test_a_broker_that_holds_the_lock_is_seen(tmp_path: Path) -> None:
    import subprocess

    make_log_dir(tmp_path, "a-0")
    (tmp_path / ".lock").touch()
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    source = open_source(str(tmp_path))
    assert source.broker_pid is None
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        assert open_source(str(tmp_path)).broker_pid == process.pid
        below = open_source(str(tmp_path / "a-0"))
        assert below.broker_pid == process.pid
        assert below.partitions()["a-0"].is_live()
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    assert open_source(str(tmp_path)).broker_pid is None


@pytest.mark.slow
def test_ten_thousand_partitions_cost_less_than_a_kilobyte_each(tmp_path: Path) -> None:
    make_log_dir(tmp_path)
    for number in range(10_000):
        (tmp_path / f"topic-{number}").mkdir()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    source = open_source(str(tmp_path))
    assert len(source.partitions()) == 10_000
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / 10_000 < 1024


def test_closing_a_source_leaves_what_is_held(tmp_path: Path) -> None:
    make_log_dir(tmp_path, "a-0")
    source = open_source(str(tmp_path / "a-0"))
    view = source.partitions()["a-0"].view()
    segment = view.active_segment
    assert segment is not None
    file = segment.file
    source.close()
    assert file.read_at(0, 8) == bytes(8)


# Checkpoints


def test_checkpoints_are_read_when_they_change(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    partition = TopicPartition("topic", 0)
    with SourceRoot(str(tmp_path)) as root:
        problems = Problems()
        read = SourceCheckpoints(root, problems)
        frozen = SourceCheckpoints(root, problems, frozen=True)
        assert read.high_watermark(partition) is None
        for name in ("replication", "log-start", "recovery-point", "cleaner"):
            writer.checkpoint(f"{name}-offset-checkpoint", 17)
        time.sleep(0.25)
        assert read.high_watermark(partition) == 17
        assert read.log_start_offset(partition) == 17
        assert read.recovery_point(partition) == 17
        assert read.cleaner_offset(partition) == 17
        assert frozen.high_watermark(partition) is None
        writer.high_watermark(18)
        assert read.high_watermark(partition) == 17
        time.sleep(0.25)
        assert read.all_high_watermarks() == {partition: 18}
        assert len(problems) == 0


@pytest.mark.parametrize(
    "data", [b"", b"0\n", b"0\n2147483647\n", b"9\n0\n", b"0\n1\nx\n", b"\xff"]
)
def test_a_checkpoint_that_is_broken_is_as_if_it_were_not_there(
    tmp_path: Path, data: bytes
) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"a")
    for name in ("replication-offset-checkpoint", "log-start-offset-checkpoint"):
        (tmp_path / name).write_bytes(data)
    view = writer.view()
    assert (view.log_start_offset, view.high_watermark, view.log_end_offset) == (0, 0, 1)


@pytest.mark.parametrize(
    ("stated", "expected"), [(-7, 0), (0, 0), (2, 2), (3, 3), (4, 3), (2**62, 3)]
)
def test_a_high_watermark_lies_between_log_start_and_log_end(
    tmp_path: Path, stated: int, expected: int
) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"a", b"b", b"c")
    writer.high_watermark(stated)
    assert writer.view().high_watermark == expected


def test_a_list_without_an_answer_is_a_problem_although_attributes_are_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(log_dir("sample"), tmp_path / "data")
    with contextlib.closing(open_source(str(tmp_path / "data"))) as source:

        def unanswered(_root: SourceRoot, _folder: str = "") -> list[object]:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

        monkeypatch.setattr(SourceRoot, "list", unanswered)
        monkeypatch.setattr(source, "_checked", 0.0)
        os.utime(tmp_path / "data", (1, 1))
        with pytest.raises(SourceGoneError, match="does not answer: Transport endpoint is not"):
            source.check_there()
        assert [problem["kind"] for problem in source.problems] == ["source_gone"]


def test_a_list_that_fails_is_the_error_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log_dir(tmp_path, "a-0")
    source = open_source(str(tmp_path))

    def refused(_root: SourceRoot, _folder: str = "") -> list[object]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(SourceRoot, "list", refused)
    os.utime(tmp_path, (1, 1))
    with pytest.raises(PermissionError):
        source.partitions(max_age=0)
    assert source.problems == []


# Snapshots


def test_a_snapshot_says_which_partitions_are_too_many_to_hold_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path)
    for _ in range(3):
        writer.append_records(b"v")
        writer.roll()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (261, 261))
    source = open_source(str(tmp_path), snapshot=True)
    (problem,) = source.problems
    assert (problem["kind"], problem["expected"], problem["found"]) == ("not_held_open", 4, 2)
    view = source.partitions()["topic-0"].view()
    opened = [view.segment_at(place).files.opened is not None for place in range(3)]
    assert opened == [True, True, False]


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 4096, (4096, 4096)),
        (1024, resource.RLIM_INFINITY, (1 << 20, resource.RLIM_INFINITY)),
        (1024, 1024, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
@pytest.mark.parametrize("is_refused", [False, True])
def test_a_snapshot_raises_the_limit_of_descriptors_as_far_as_it_may(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    soft: int,
    hard: int,
    wanted: tuple[int, int] | None,
    is_refused: bool,
) -> None:
    make_log_dir(tmp_path, "a-0")
    asked, left = [], []

    def set_limit(_: int, limits: tuple[int, int]) -> None:
        asked.append(limits)
        if is_refused:
            raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", set_limit)
    monkeypatch.setattr(PartitionLog, "freeze", lambda _, most: left.append(most) or 1)
    open_source(str(tmp_path), snapshot=True)
    assert asked == ([] if wanted is None else [wanted])
    most = 1 << 20 if soft == resource.RLIM_INFINITY else soft
    if wanted is not None and not is_refused:
        most = wanted[0]
    assert left == [most - 256]


def test_a_partition_that_a_snapshot_cannot_open_is_a_problem_and_the_others_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log_dir(tmp_path, "a-0", "b-0")
    freeze = PartitionLog.freeze

    def failing(log: PartitionLog, most_files: int) -> int:
        if log.name == "a-0":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return freeze(log, most_files)

    monkeypatch.setattr(PartitionLog, "freeze", failing)
    source = open_source(str(tmp_path), snapshot=True)
    (problem,) = source.problems
    assert (problem["partition"], problem["kind"], problem["file"], problem["errno"]) == (
        *("a-0", "unreadable"),
        *("a-0", "EIO"),
    )
    (unread,) = source.unread()
    assert (unread.path, unread.errno) == (str(tmp_path / "a-0"), "EIO")
    assert source.partitions()["b-0"].is_loaded


@pytest.mark.parametrize("how", ["removed", "broken", "a folder"])
def test_offsets_of_a_checkpoint_that_is_gone_are_forgotten(tmp_path: Path, how: str) -> None:
    writer = LogWriter(tmp_path)
    partition = TopicPartition("topic", 0)
    writer.high_watermark(7)
    path = tmp_path / "replication-offset-checkpoint"
    with SourceRoot(str(tmp_path)) as root:
        problems = Problems()
        read = SourceCheckpoints(root, problems)
        assert read.high_watermark(partition) == 7
        path.unlink()
        if how == "broken":
            path.write_text("rubbish")
        elif how == "a folder":
            path.mkdir()
        time.sleep(0.25)
        assert read.high_watermark(partition) is None
        assert len(problems) == (how != "removed")
        if how != "a folder":
            writer.high_watermark(9)
            time.sleep(0.25)
            assert read.high_watermark(partition) == 9


def test_without_a_log_dir_nothing_is_known_of_its_checkpoints() -> None:
    read = SourceCheckpoints(None, Problems())
    partition = TopicPartition("topic", 0)
    assert read.high_watermark(partition) is read.recovery_point(partition) is None
    assert not read.stopped_cleanly()


def test_checkpoints_are_looked_at_again_after_a_fifth_of_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path)
    partition = TopicPartition("topic", 0)
    now = 100.0
    monkeypatch.setattr("engine.log.source_checkpoints.monotonic", lambda: now)
    with SourceRoot(str(tmp_path)) as root:
        writer.high_watermark(5)
        read = SourceCheckpoints(root, Problems())
        assert read.high_watermark(partition) == 5
        writer.high_watermark(6)
        now = 100.1875
        assert read.high_watermark(partition) == 5
        now = 100.21
        assert read.high_watermark(partition) == 6
