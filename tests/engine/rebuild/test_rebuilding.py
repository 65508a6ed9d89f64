"""What is chosen, renamed, brought back or done as a broker does it; and what stands in the log dir."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from random import Random

import pytest

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.clock import SystemClock
from engine.disk.disk import DISK
from engine.disk.file_lock import FileLock
from engine.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    log_file_name,
)
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.log_directory import open_source
from engine.log.view.log_bound import LogBound
from engine.rebuild.broker_mode import copy_file
from engine.rebuild.errors import RebuildFailedError, RebuildRefusedError
from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.rebuilding import rebuild
from engine.rebuild.target.manifest import MANIFEST, read_manifest
from engine.rebuild.target.rebuilt import Rebuilt
from engine.units import TopicPartition
from tests import builders
from tests.builders import Producer, Rec
from tests.engine.rebuild.made_logs import TOPIC_ID, MadeLog, facts_of, holes, make_log, state_of
from tests.fixtures_data import KINDS, copy_of, log_dir

MADE_BY_READERS = (".index", ".timeindex", ".txnindex", ".snapshot")
CURRENT_WRITTEN = 1_795_237_200_000
"""2026-11-21T05:00:00Z: the broker that wrote the log dir "current" stopped minutes before."""
ANOTHER_ID = "AAAAAAAAAAAAAAAAAAAABA"


def made_of(tmp_path: Path, source: Path | None = None, **options: object) -> Rebuilt:
    asked = RebuildOptions(**options)  # type: ignore[arg-type]
    return rebuild(str(source or tmp_path / "source"), str(tmp_path / "target"), asked)


def offsets_in(path: Path) -> dict[TopicPartition, int]:
    return parse_offset_checkpoint(path.read_bytes())


@pytest.mark.parametrize("kind", KINDS)
def test_an_undamaged_log_dir_comes_out_byte_for_byte(tmp_path, kind):
    source, target = log_dir(kind), tmp_path / "target"
    result = made_of(tmp_path, source)
    assert [holes(each) for each in result.partitions if each["losses"]] == []
    assert not result.lost_something
    for report in result.partitions:
        folder = source / report["partition"]
        for path in folder.glob("*.log"):
            made = target / folder.name / path.name
            data = path.read_bytes()
            start = data.find(made.read_bytes()[:17]) if made.exists() else 0
            if report["dropped"]:  # batches below the log start
                continue
            assert (start, made.read_bytes()) == (0, data), path
    if kind == "current":  # closed properly: a broker makes no other indexes and snapshots of it
        made = [path for path in target.glob("*/*") if path.suffix in MADE_BY_READERS]
        assert len(made) > 100
        for path in made:
            if path.parent.name != "trimmed-0":
                assert path.read_bytes() == (source / path.relative_to(target)).read_bytes(), path


def states_on_other_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Path, **options: object
) -> list[dict[str, bytes]]:
    """The hashes of what a rebuild makes ten years earlier, then, and ten years later."""
    states = []
    for years in (-10, 0, 10):
        now = CURRENT_WRITTEN + years * 365 * 86_400_000
        monkeypatch.setattr(SystemClock, "now_ms", lambda _, now=now: now)
        made_of(tmp_path, source, **options)
        (tmp_path / "target" / MANIFEST).unlink()  # says when it was made
        states.append({path: state[-1] for path, state in state_of(tmp_path / "target").items()})
        shutil.rmtree(tmp_path / "target")
    return states


def test_the_result_is_the_same_on_any_day(tmp_path, monkeypatch):
    before, then, after = states_on_other_days(tmp_path, monkeypatch, log_dir("current"))
    assert before == then == after


def test_what_a_broker_makes_of_a_log_dir_is_the_same_on_any_day(tmp_path, monkeypatch):
    made = MadeLog(tmp_path / "made")
    made.folder.mkdir(parents=True)
    for base, producer in ((0, 4), (3, 5)):
        records = [Rec(b"x", timestamp=CURRENT_WRITTEN - 60_000)] * 3
        data = builders.batch(records, base, producer=Producer(id=producer))
        made.path(base).write_bytes(data)
    made_of(tmp_path, made.log_dir)
    source = (tmp_path / "target").rename(tmp_path / "source")
    (source / "orders-0/00000000000000000006.snapshot").unlink()  # made again from the one before
    before, then, after = states_on_other_days(
        tmp_path, monkeypatch, source, mode=Mode.BROKER, clean=False
    )
    assert before == then == after


def test_nothing_is_changed_at_the_source(tmp_path):
    source = copy_of("current", tmp_path)
    before = state_of(source)
    made_of(tmp_path, source, deleted=True, below_log_start=True)
    shutil.rmtree(tmp_path / "target")
    made_of(tmp_path, source, mode=Mode.BROKER)
    assert state_of(source) == before


# The log dir


def test_the_checkpoints_are_true_and_no_clean_shutdown_is_claimed(tmp_path):
    source, target = log_dir("current"), tmp_path / "target"
    result = made_of(tmp_path, source)
    assert (source / CLEAN_SHUTDOWN).exists()
    assert not (target / CLEAN_SHUTDOWN).exists()
    assert (target / META_PROPERTIES).read_bytes() == (source / META_PROPERTIES).read_bytes()
    ends = {
        each["partition"]: each["logEndOffset"]
        for each in result.partitions
        if not each["partition"].startswith("__cluster_metadata")
    }
    points = offsets_in(target / RECOVERY_POINT_CHECKPOINT)
    assert {str(name): offset for name, offset in points.items()} == ends
    starts = offsets_in(target / LOG_START_OFFSET_CHECKPOINT)
    assert starts == {TopicPartition("trimmed", 0): 753}
    high = offsets_in(target / REPLICATION_OFFSET_CHECKPOINT)
    assert {str(name): offset for name, offset in high.items()} == ends
    cleaned = offsets_in(target / CLEANER_OFFSET_CHECKPOINT)
    assert cleaned == offsets_in(source / CLEANER_OFFSET_CHECKPOINT)


def test_meta_properties_are_left_out_when_asked_or_damaged(tmp_path):
    made = make_log(tmp_path / "source", Random(1))
    made_of(tmp_path, meta_properties=False)
    assert not (tmp_path / "target" / META_PROPERTIES).exists()
    shutil.rmtree(tmp_path / "target")
    (made.log_dir / META_PROPERTIES).write_bytes(b"version=\xff\n")
    result = made_of(tmp_path)
    assert not (tmp_path / "target" / META_PROPERTIES).exists()
    assert [Path(each.path).name for each in result.left_out] == [META_PROPERTIES]


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path):
    made = make_log(tmp_path / "source", Random(1))
    data = bytearray(made.path(0).read_bytes())
    data[len(data) // 2] ^= 1
    made.path(0).write_bytes(data)
    before = state_of(tmp_path)
    dry = rebuild(str(tmp_path / "source"), None)
    assert state_of(tmp_path) == before
    real = made_of(tmp_path)
    [told], [done] = dry.partitions, real.partitions
    assert dry.lost_something
    assert real.lost_something
    assert all(done[name] == value for name, value in told.items())
    assert read_manifest(str(tmp_path / "target"))["partitions"] == real.partitions


# Choosing and renaming


def some_topics(tmp_path: Path) -> Path:
    for name in ("orders-0", "orders-1", "payments-0", "old-0.0123456789abcdef-delete"):
        make_log(tmp_path / "source", Random(name), name=name)
    (tmp_path / "source/lost+found").mkdir()
    return tmp_path / "source"


def test_fault_136_topics_are_chosen_and_renamed_and_keep_their_id(tmp_path):
    some_topics(tmp_path)
    result = made_of(tmp_path, topics=("order*",), renames={"orders": "neu"})
    assert [each["partition"] for each in result.partitions] == ["neu-0", "neu-1"]
    assert facts_of(tmp_path / "target", "neu-1") == facts_of(tmp_path / "source", "orders-1")
    metadata = (tmp_path / "target/neu-0/partition.metadata").read_text()
    assert metadata == f"version: 0\ntopic_id: {TOPIC_ID}"
    assert {Path(each.path).name for each in result.left_out} == {
        *("payments-0", "lost+found", "old-0.0123456789abcdef-delete"),
    }


def test_fault_136_a_topic_gets_another_id_only_when_asked(tmp_path):
    some_topics(tmp_path)
    made_of(tmp_path, topics=("orders",), topic_ids={"orders": ANOTHER_ID})
    assert ANOTHER_ID in (tmp_path / "target/orders-1/partition.metadata").read_text()


def test_a_deleted_topics_folder_is_taken_when_it_is_named(tmp_path):
    some_topics(tmp_path)
    result = made_of(tmp_path, partitions=("old-0.*-delete",))
    assert [each["partition"] for each in result.partitions] == ["old-0"]
    assert facts_of(tmp_path / "target", "old-0")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"topics": ("nothing",)}, "no partition matches --topic nothing"),
        ({"renames": {"orders": "payments"}}, "would both be payments-0"),
        ({"renames": {"nobody": "x"}}, "no topic or partition 'nobody'"),
        ({"renames": {"orders": "a/b"}}, "no topic name"),
        ({"topic_ids": {"nobody": ANOTHER_ID}}, "no topic 'nobody'"),
        ({"mode": Mode.BROKER, "deleted": True}, "--deleted"),
        ({"mode": Mode.BROKER, "start": LogBound(offset=1)}, "--from"),
    ],
)
def test_what_cannot_be_done_is_refused(tmp_path, options, why):
    some_topics(tmp_path)
    with pytest.raises(RebuildRefusedError, match=why):
        made_of(tmp_path, **options)
    assert not (tmp_path / "target").exists()


def test_one_partitions_folder_or_one_records_file_is_a_source(tmp_path):
    made = make_log(tmp_path / "source", Random(4))
    made_of(tmp_path, made.folder)
    assert facts_of(tmp_path / "target") == facts_of(tmp_path / "source")
    shutil.rmtree(tmp_path / "target")
    made_of(tmp_path, made.path(0))
    assert (tmp_path / "target/orders-0" / made.path(0).name).read_bytes() == (
        made.path(0).read_bytes()
    )


# Bringing back


def deleted(path: Path) -> None:
    path.rename(path.with_name(path.name + ".deleted"))


def test_deleted_segments_come_back_at_both_ends_and_between(tmp_path):
    made = make_log(tmp_path / "source", Random(5), segments=6)
    expected = facts_of(tmp_path / "source")
    first, *_, third, _, last = made.bases
    for base in (first, third, last):
        deleted(made.path(base))
    (made.folder / "leader-epoch-checkpoint").unlink()
    result = made_of(tmp_path, deleted=True)
    assert not result.lost_something
    assert facts_of(tmp_path / "target") == expected


def test_deleted_segments_stay_away_unless_asked_for(tmp_path):
    made = make_log(tmp_path / "source", Random(5), segments=4)
    deleted(made.path(0))
    [report] = made_of(tmp_path).partitions
    assert report["logStartOffset"] == made.bases[1]


def test_what_was_deleted_by_another_leader_does_not_come_back(tmp_path):
    made = MadeLog(tmp_path / "source")
    made.folder.mkdir(parents=True)
    old = [builders.batch([Rec(b"old")] * 5, at, leader_epoch=1) for at in range(20, 40, 5)]
    new = [builders.batch([Rec(b"new")] * 5, at, leader_epoch=2) for at in range(0, 10, 5)]
    made.path(0).write_bytes(b"".join(new))
    made.path(20).with_name(made.path(20).name + ".deleted").write_bytes(b"".join(old))
    [report] = made_of(tmp_path, deleted=True).partitions
    assert report["logEndOffset"] == 10
    assert {each["kind"] for each in report["dropped"]} == {"diverged"}


def test_a_swap_file_stands_in_for_segments_that_are_gone(tmp_path):
    made = make_log(tmp_path / "source", Random(6), segments=3)
    expected = facts_of(tmp_path / "source")
    path = made.path(made.bases[1])
    path.rename(path.with_name(path.name + ".swap"))
    assert not made_of(tmp_path).lost_something
    assert facts_of(tmp_path / "target") == expected


@pytest.mark.parametrize("below", [False, True])
def test_records_below_the_log_start_stay_away_unless_asked_for(tmp_path, below):
    made = make_log(tmp_path / "source", Random(7), transactions=False)
    start = made.next_offset // 2
    (made.log_dir / LOG_START_OFFSET_CHECKPOINT).write_text(f"0\n1\norders 0 {start}\n")
    expected = facts_of(tmp_path / "source", below=below)
    [report] = made_of(tmp_path, below_log_start=below).partitions
    assert facts_of(tmp_path / "target") == expected
    assert report["logStartOffset"] == (0 if below else start)
    on_disk = facts_of(tmp_path / "target", below=True)
    batch = next(each for _, _, each in made.batches if builders.last_offset(each) >= start)
    assert min(on_disk) == (0 if below else int.from_bytes(batch[:8], "big"))


def test_a_log_start_past_the_log_end_is_not_believed(tmp_path):
    made = make_log(tmp_path / "source", Random(7))
    (made.log_dir / LOG_START_OFFSET_CHECKPOINT).write_text("0\n1\norders 0 999999\n")
    [report] = made_of(tmp_path).partitions
    assert report["logStartOffset"] == 0
    assert "999999" in " ".join(report["notes"])


def test_a_log_with_nothing_but_damage_keeps_its_place(tmp_path):
    made = MadeLog(tmp_path / "source")
    made.folder.mkdir(parents=True)
    made.path(50).write_bytes(Random(1).randbytes(4000))
    made.path(90).write_bytes(Random(2).randbytes(4000))
    [report] = made_of(tmp_path, allow_empty=True).partitions
    assert (report["logStartOffset"], report["logEndOffset"]) == (50, 90)
    assert holes(report) == [(50, 90)]


def test_transactions_without_an_end_are_named(tmp_path):
    made = MadeLog(tmp_path / "source")
    made.folder.mkdir(parents=True)
    data = builders.batch(
        [Rec(b"x")] * 3, 0, producer=Producer(id=4, epoch=1, sequence=0), transactional=True
    )
    made.path(0).write_bytes(data)
    [report] = made_of(tmp_path).partitions
    assert report["openTransactions"] == [{"producerId": 4, "producerEpoch": 1, "firstOffset": 0}]
    assert report["lastStableOffset"] == 0
    assert "kafka-transactions" in " ".join(report["notes"])


# As a broker


def with_indexes(made: MadeLog) -> None:
    """Empty ones: a broker recovers a segment that has none before it looks at any other."""
    for base in made.bases:
        made.path(base).with_suffix(".index").touch()
        made.path(base).with_suffix(".timeindex").touch()


def test_as_a_broker_the_log_ends_at_the_first_damage(tmp_path):
    made = make_log(tmp_path / "source", Random(8), segments=4, transactions=False)
    with_indexes(made)
    base = made.bases[1]
    _, position, batch = next(each for each in made.batches if each[0] == base)
    data = bytearray(made.path(base).read_bytes())
    data[position + len(batch) - 1] ^= 1
    made.path(base).write_bytes(data)
    result = made_of(tmp_path, mode=Mode.BROKER)
    [report] = result.partitions
    assert report["logEndOffset"] == base
    assert result.lost_something
    assert [each["file"] for each in report["changed"]] == [made.path(base).name]
    assert set(report["removed"]) >= {made.path(each).name for each in made.bases[2:]}
    assert list(facts_of(tmp_path / "target")) == list(range(base))


def test_a_broker_that_was_stopped_cleanly_notices_nothing(tmp_path):
    made = make_log(tmp_path / "source", Random(8), transactions=False)
    with_indexes(made)
    data = bytearray(made.path(0).read_bytes())
    data[100] ^= 1
    made.path(0).write_bytes(data)
    [report] = made_of(tmp_path, mode=Mode.BROKER, clean=True).partitions
    assert report["logEndOffset"] == made.next_offset
    assert (tmp_path / "target/orders-0" / made.path(0).name).read_bytes() == data


def test_each_log_dir_says_whether_the_broker_was_stopped_cleanly(tmp_path):
    for number, name in enumerate(("first", "second")):
        with_indexes(make_log(tmp_path / name, Random(8), name=f"orders-{number}"))
    (tmp_path / "second" / CLEAN_SHUTDOWN).touch()
    sources = [str(tmp_path / "first"), str(tmp_path / "second")]
    result = rebuild(sources, str(tmp_path / "target"), RebuildOptions(mode=Mode.BROKER))
    assert [report["clean"] for report in result.partitions] == [False, True]


def test_a_broker_takes_a_short_number_for_a_base_offset(tmp_path):
    made = make_log(tmp_path / "source", Random(8), segments=2)
    (made.folder / "5.log").touch()
    [report] = made_of(tmp_path, mode=Mode.BROKER).partitions
    assert report["logEndOffset"] == made.next_offset
    names = [path.name for path in (tmp_path / "target/orders-0").glob("*.log")]
    assert {"5.log", log_file_name(5)} <= set(names)


def test_where_a_broker_would_not_start_the_reason_is_given(tmp_path):
    made = make_log(tmp_path / "source", Random(8))
    (made.folder / "abc.log").write_bytes(b"x")
    with pytest.raises(RebuildFailedError, match=r"orders-0: .* NumberFormatException"):
        made_of(tmp_path, mode=Mode.BROKER)
    assert not (tmp_path / "target").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["source"]
    made_of(tmp_path)
    assert (tmp_path / "target" / MANIFEST).exists()


def test_a_records_file_too_large_for_a_broker_is_refused_before_anything_is_copied(tmp_path):
    made = make_log(tmp_path / "source", Random(8))
    os.truncate(made.path(made.bases[-1]), 8 << 30)
    copied: list[int] = []
    with pytest.raises(RebuildFailedError, match="8589934592 bytes, more than the 2147483647"):
        rebuild(
            str(tmp_path / "source"),
            str(tmp_path / "target"),
            RebuildOptions(mode=Mode.BROKER),
            advance=lambda _, count: copied.append(count),
        )
    assert copied == []


def test_a_log_that_no_broker_loads_never_vetoes_the_others(tmp_path):
    hurt = make_log(tmp_path / "source", Random(8))
    (hurt.folder / "abc.log").write_bytes(b"x")
    shutil.copytree(hurt.folder, hurt.log_dir / "orders-1", ignore=lambda *_: {"abc.log"})
    result = made_of(tmp_path, mode=Mode.BROKER)
    assert [report["partition"] for report in result.partitions] == ["orders-1"]
    [left_out] = result.left_out
    assert (left_out.path, left_out.is_loss) == (str(hurt.folder), True)
    name = hurt.folder / "abc.log"
    assert left_out.reason.startswith(
        f"a broker ends with NumberFormatException: {name} has no offset"
    )
    assert result.lost_something
    assert [path.name for path in (tmp_path / "target").glob("orders-*")] == ["orders-1"]


def test_holes_of_a_file_are_copied_as_holes(tmp_path):
    made = make_log(tmp_path / "source", Random(8))
    path, copy = made.path(made.bases[-1]), tmp_path / "copy"
    with path.open("r+b") as file:
        file.seek(64 << 20)
        file.write(b"behind a hole")
        file.truncate(100 << 20)
    source = open_source(str(made.log_dir))
    try:
        log = source.partitions()["orders-0"]
        assert copy_file(log, path.name, str(copy), DISK, lambda _: None) == 100 << 20
    finally:
        source.close()
    assert copy.stat().st_blocks * 512 <= 16 << 20
    assert copy.read_bytes() == path.read_bytes()


# Sources that are not as they should be


def test_what_the_device_does_not_give_is_named_and_the_rest_is_saved(tmp_path, monkeypatch):
    made = make_log(tmp_path / "source", Random(9), segments=4, transactions=False)
    expected = facts_of(tmp_path / "source")
    base, after = made.bases[1], made.bases[2]
    real = SourceFile.read_at

    def read_at(self: SourceFile, position: int, size: int) -> bytes:
        if self.name == made.path(base).name and position + size > 100:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        return real(self, position, size)

    monkeypatch.setattr(SourceFile, "read_at", read_at)
    result = made_of(tmp_path)
    monkeypatch.undo()
    [report] = result.partitions
    assert result.lost_something
    assert [each["kind"] for each in report["dropped"]] == ["unreadable"]
    assert holes(report) == [(base, after)]
    assert facts_of(tmp_path / "target") == {
        offset: each for offset, each in expected.items() if not base <= offset < after
    }


def test_a_partition_that_cannot_be_listed_is_left_out_and_the_others_are_made(
    tmp_path, monkeypatch
):
    some_topics(tmp_path)
    real = SourceRoot.list_apart

    def list_apart(self: SourceRoot, folder: str = "") -> object:
        if folder == "orders-1":
            raise OSError(errno.EIO, os.strerror(errno.EIO), folder)
        return real(self, folder)

    monkeypatch.setattr(SourceRoot, "list_apart", list_apart)
    result = made_of(tmp_path)
    assert [each["partition"] for each in result.partitions] == ["orders-0", "payments-0"]
    assert result.lost_something
    assert any(
        "orders-1" in each.path and "cannot be read" in each.reason for each in result.left_out
    )


def test_links_and_strange_names_are_left_alone(tmp_path):
    made = make_log(tmp_path / "source", Random(9), segments=3)
    expected = facts_of(tmp_path / "source")
    outside = tmp_path / "outside"
    outside.write_bytes(b"secret")
    (made.folder / "00000000000000099999.log").symlink_to(outside)
    (made.folder / "99999.log").write_bytes(b"x")
    os.mkfifo(made.folder / "00000000000000088888.log")
    (made.log_dir / "orders-7").symlink_to(made.folder)
    (made.log_dir / "a b-0").mkdir()
    result = made_of(tmp_path)
    assert [each["partition"] for each in result.partitions] == ["orders-0"]
    assert facts_of(tmp_path / "target") == expected
    assert {Path(each.path).name for each in result.left_out} == {"orders-7", "a b-0"}


def test_fault_138_a_live_source_is_salvaged_as_it_was_at_one_moment_and_not_loaded_as_a_broker(
    tmp_path,
):
    made = make_log(tmp_path / "source", Random(9), transactions=False)
    expected = facts_of(tmp_path / "source")
    lock = FileLock(tmp_path / "source" / LOCK)
    assert lock.try_lock()
    try:
        with pytest.raises(RebuildRefusedError, match="torn"):
            made_of(tmp_path, mode=Mode.BROKER)
        before = state_of(tmp_path / "source")
        [report] = made_of(tmp_path).partitions
        assert state_of(tmp_path / "source") == before
    finally:
        lock.destroy()
    assert f"consistent up to offset {made.next_offset}" in " ".join(report["notes"])
    assert facts_of(tmp_path / "target") == expected
