"""The copies of a partition on several nodes are one log, which costs nothing until it is read and says what it took."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.lines.record_line import LineOptions
from engine.log.joined_logs import JoinedLog
from engine.log.log_directory import LogSource, open_source
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from engine.replicas import union_files
from engine.replicas.choice import choose
from engine.replicas.cluster_source import open_cluster
from engine.replicas.copies import replicas_of
from engine.replicas.proof import Held, held_in
from engine.replicas.union_files import JoinedFile
from engine.units import Offset
from engine.verdict.log_losses import losses_of
from engine.verdict.log_runs import runs
from tests import builders
from tests.builders import Rec

CLUSTER = "AAAAAAAAAAAAAAAAAAAABA"
TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"
OTHER_ID = "6Y0DrLRyRyGEHPlhCN0jIQ"


def batch(offset: int, epoch: int = 0, what: str = "main", count: int = 10) -> bytes:
    records = [Rec(f"{what} {offset + at}".encode(), b"k") for at in range(count)]
    return builders.batch(records, offset, leader_epoch=epoch)


def write_copy(
    log_dir: Path,
    node: int,
    segments: dict[int, list[bytes]],
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    *,
    name: str = "orders-0",
    topic_id: str = TOPIC_ID,
    cluster: str = CLUSTER,
) -> Path:
    folder = log_dir / name
    for base, batches in segments.items():
        builders.write_segment(folder, batches, base)
    lines = "".join(f"{epoch} {at}\n" for epoch, at in epochs)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    (log_dir / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\nnode.id={node}\n")
    return folder


def whole(stop: int = 100) -> dict[int, list[bytes]]:
    return {
        0: [batch(at) for at in range(0, min(stop, 50), 10)],
        50: [batch(at) for at in range(50, stop, 10)],
    }


@pytest.fixture
def dirs(tmp_path: Path) -> list[Path]:
    """Three nodes with the same 100 records; node 2 is behind by 20."""
    found = [tmp_path / f"b{node}" for node in (1, 2, 3)]
    write_copy(found[0], 1, whole())
    write_copy(found[1], 2, whole(80))
    write_copy(found[2], 3, whole())
    return found


def opened(dirs: Sequence[Path], **options: bool) -> LogSource:
    return open_cluster([str(each) for each in dirs], **options)


def offsets(view: LogView) -> list[int]:
    found = []
    for _, item in runs(view):
        if isinstance(item, BatchRun):
            for row in item.table:
                found += range(int(row["base_offset"]), int(row["last_offset"]) + 1)
    return found


def spoil(folder: Path, base: int, number: int) -> None:
    """Flip a byte of a batch of ten records."""
    path = folder / f"{base:020}.log"
    data = bytearray(path.read_bytes())
    size = len(data) // (5 if len(data) % 5 == 0 else 1)
    data[number * size + 70] ^= 1
    path.write_bytes(data)


def reasons(source: LogSource, kind: str) -> list[str]:
    return [each["reason"] for each in source.problems if each["kind"] == kind]


def test_a_list_of_the_partitions_opens_none_of_them(tmp_path: Path) -> None:
    dirs = [tmp_path / f"b{node}" for node in (1, 2, 3)]
    for node, log_dir in enumerate(dirs, 1):
        for number in range(100):
            write_copy(log_dir, node, {0: [batch(0)]}, name=f"orders-{number}")
    source = opened(dirs)
    assert len(source.partitions()) == 100
    logs = [*source.partitions().values(), *source.replicas().values()]
    assert len(logs) == 400
    assert not any(log.is_loaded for log in logs)
    assert source.nodes == [1, 2, 3]


def test_a_whole_leading_copy_is_read_from_its_own_files(dirs: list[Path]) -> None:
    source = opened(dirs)
    log = source.partitions()["orders-0"]
    assert isinstance(log, JoinedLog)
    view = log.view()
    assert (view.log_start_offset, view.log_end_offset) == (0, 100)
    assert offsets(view) == list(range(100))
    assert not any(isinstance(segment.file, JoinedFile) for segment in view.segments)
    assert [segment.file.path for segment in view.segments] == [
        str(dirs[0] / "orders-0" / f"{base:020}.log") for base in (0, 50)
    ]
    assert log.leading_node == 1
    assert source.problems == []


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_damage_is_filled_from_another_node_and_that_is_said(
    dirs: list[Path], in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(union_files, "_IN_MEMORY", in_memory)
    for number in (1, 3):
        spoil(dirs[0] / "orders-0", 0, number)
    source = opened(dirs)
    view = source.partitions()["orders-0"].view()
    assert offsets(view) == list(range(100))
    assert view.record(15) is not None
    assert not any(isinstance(item, Damage) for _, item in runs(view))
    assert reasons(source, "filled") == [
        f"offsets {first} to {first + 9} are missing or damaged in node 1 ({dirs[0]}), and taken"
        f" from node 3 ({dirs[2]})"
        for first in (10, 30)
    ]


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_what_no_node_has_is_lost_and_just_that(dirs: list[Path], lost: int) -> None:
    for log_dir in dirs[1:]:
        spoil(log_dir / "orders-0", 0, lost)
    for number in (1, 2, 3):
        spoil(dirs[0] / "orders-0", 0, number)
    view = opened(dirs).partitions()["orders-0"].view()
    first = 10 * lost
    assert offsets(view) == [each for each in range(100) if not first <= each < first + 10]
    (damage,) = [item for _, item in runs(view) if isinstance(item, Damage)]
    assert (damage.first_offset, damage.last_offset) == (first, first + 9)


def test_a_lost_segment_between_others_is_read_from_the_files_of_another_node(
    tmp_path: Path,
) -> None:
    dirs = [tmp_path / "b1", tmp_path / "b2"]
    segments = {base: [batch(base), batch(base + 10)] for base in (0, 20, 40)}
    for node, log_dir in enumerate(dirs, 1):
        write_copy(log_dir, node, segments)
    for suffix in (".log", ".index", ".timeindex"):
        (dirs[0] / "orders-0" / f"{20:020}{suffix}").unlink()
    view = opened(dirs).partitions()["orders-0"].view()
    assert view.base_offsets == (0, 20, 40)
    assert offsets(view) == list(range(60))
    files = [segment.file for segment in view.segments]
    assert [file.path.startswith(str(dirs[0])) for file in files] == [True, False, True]
    assert not any(isinstance(file, JoinedFile) for file in files)


def test_a_batch_of_an_epoch_that_lost_fills_nothing(tmp_path: Path) -> None:
    """Node 2's batch of 50 to 59 is of epoch 0, and its checkpoint says that it is of epoch 1."""
    dirs = [tmp_path / "b1", tmp_path / "b2"]
    newer = [batch(at, 1, "newer") for at in (50, 60, 70)]
    epochs = [(0, 0), (1, 50)]
    write_copy(dirs[0], 1, {0: whole()[0], 50: newer}, epochs)
    write_copy(dirs[1], 2, {0: whole()[0], 50: [batch(50), newer[1]]}, epochs)
    path = dirs[0] / "orders-0" / f"{50:020}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    data[len(newer[0]) + 70] ^= 1
    path.write_bytes(data)
    view = opened(dirs).partitions()["orders-0"].view()
    assert offsets(view) == [*range(50), *range(60, 80)]


def test_a_lost_segment_is_that_of_another_node(dirs: list[Path]) -> None:
    for log_dir in (dirs[0], dirs[2]):
        (log_dir / "orders-0" / f"{0:020}.log").unlink()
    view = opened(dirs).partitions()["orders-0"].view()
    assert view.base_offsets == (0, 50)
    assert offsets(view) == list(range(100))
    assert list(losses_of(view).cheap()) == []


def test_a_tail_that_lost_is_left_out_named_and_read_apart(tmp_path: Path) -> None:
    """Node 1 wrote 50 to 99 in epoch 0 to itself alone; node 2 began epoch 1 at 50."""
    old, new = tmp_path / "b1", tmp_path / "b2"
    write_copy(old, 1, whole())
    newer = {0: whole()[0], 50: [batch(50, 1, "newer"), batch(60, 1, "newer")]}
    write_copy(new, 2, newer, [(0, 0), (1, 50)])
    source = opened([old, new])
    log = source.partitions()["orders-0"]
    assert offsets(log.view()) == list(range(70))
    record = log.view().record(55)
    assert record is not None
    assert record[0].value(record[1]) == b"newer 55"
    (reason,) = reasons(source, "losing_tail")
    assert reason.startswith(
        f"offsets 50 to 99 of node 1 ({old}) lost to those of the newest leader"
    )
    assert reason.endswith(
        f"left out: orders-0@1 has them. node 2 ({new}) has the last batch of the newest epoch, 1;"
        " the others have 0"
    )
    assert list(source.partitions()) == ["orders-0"]
    apart = source.partitions()["orders-0@1"]
    assert offsets(apart.view()) == list(range(100))
    source.show_copies(["orders-0@1"])
    assert source.partitions()["orders-0"] is apart


def test_another_topic_of_the_name_is_not_joined(dirs: list[Path]) -> None:
    shutil.rmtree(dirs[2])
    write_copy(dirs[2], 3, {0: [batch(0, 7, "other")]}, [(7, 0)], topic_id=OTHER_ID)
    source = opened(dirs)
    assert offsets(source.partitions()["orders-0"].view()) == list(range(100))
    (reason,) = reasons(source, "stranger")
    assert reason.startswith(f"node 3 ({dirs[2]}) has the topic with the id {OTHER_ID}")


def test_log_dirs_of_one_node_are_its_own(dirs: list[Path]) -> None:
    for log_dir in dirs:
        (log_dir / "meta.properties").write_text(f"version=1\ncluster.id={CLUSTER}\nnode.id=1\n")
    source = opened(dirs)
    assert list(source.partitions()) == ["orders-0", "orders-0@2", "orders-0@3"]
    assert not source.nodes
    assert not source.replicas()
    assert len(reasons(source, "second_copy")) == 2


def test_a_log_dir_of_another_cluster_is_listed_apart(dirs: list[Path]) -> None:
    shutil.rmtree(dirs[2])
    write_copy(dirs[2], 3, whole(), cluster="BAAAAAAAAAAAAAAAAAAABA")
    source = opened(dirs)
    assert list(source.partitions()) == ["orders-0", "orders-0@3"]
    assert isinstance(source.partitions()["orders-0"], JoinedLog)
    assert source.partitions()["orders-0@3"].root.path == str(dirs[2])


def test_a_snapshot_stays_when_all_files_are_gone(dirs: list[Path]) -> None:
    spoil(dirs[0] / "orders-0", 0, 1)
    source = opened(dirs, snapshot=True)
    for log_dir in dirs:
        shutil.rmtree(log_dir / "orders-0")
    assert offsets(source.partitions()["orders-0"].view()) == list(range(100))


def test_a_copy_that_grows_is_followed(dirs: list[Path]) -> None:
    source = opened(dirs)
    log = source.partitions()["orders-0"]
    before = log.view(0)
    with (dirs[2] / "orders-0" / f"{50:020}.log").open("ab") as file:
        file.write(batch(100))
    after = log.view(0)
    assert after.log_end_offset == 110
    assert offsets(after) == list(range(110))
    assert offsets(before) == list(range(100))
    assert isinstance(log, JoinedLog)
    assert log.leading_node == 3


def test_a_look_up_of_one_offset_reads_no_segment_whole_unless_its_batch_is_damaged(
    dirs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def held(segment: LogSegment, first: Offset, stop: Offset, agreed: Offset) -> Held:
        read.append(segment.name)
        return held_in(segment, first, stop, agreed)

    monkeypatch.setattr(union_files, "held_in", held)
    spoil(dirs[0] / "orders-0", 0, 3)
    view = opened(dirs).partitions()["orders-0"].view()
    for offset in (5, 45, 75, 99):
        record = view.record(offset)
        assert record is not None
        assert record[0].value(record[1]) == f"main {offset}".encode()
        assert view.batch(offset) is not None
        assert view.line(offset, LineOptions("orders", 0)) is not None
    assert read == []
    record = view.record(35)
    assert record is not None
    assert record[0].value(record[1]) == b"main 35"
    assert read == [f"{0:020}.log"]


@contextmanager
def writer_of(log_dir: Path) -> Iterator[None]:
    """A broker that runs on a log dir, as far as its lock tells."""
    script = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
        "print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        broker.stdout.readline()
        yield
        broker.communicate()


def test_a_batch_that_a_live_leader_is_writing_is_no_damage_and_is_seen_once_it_is_whole(
    dirs: list[Path],
) -> None:
    """Node 3 leads from the first append on; the others have nothing of what it writes."""
    path = dirs[2] / "orders-0" / f"{50:020}.log"
    with writer_of(dirs[2]):
        source = opened(dirs)
        log = source.partitions()["orders-0"]
        assert offsets(log.view(0)) == list(range(100))
        for first in (100, 110):
            data = batch(first)
            for at in range(0, len(data), 40):
                with path.open("ab") as file:
                    file.write(data[at : at + 40])
                is_whole = at + 40 >= len(data)
                view = log.view(0)
                assert view.live
                assert view.log_end_offset == first + 10 * is_whole
                assert offsets(view) == list(range(first + 10 * is_whole))
                assert not any(isinstance(item, Damage) for _, item in runs(view))
        assert log.leading_node == 3
        assert source.problems == []


def test_a_folder_that_is_gone_leaves_the_other_copies(dirs: list[Path]) -> None:
    source = opened(dirs)
    log = source.partitions()["orders-0"]
    log.view(0)
    shutil.rmtree(dirs[0] / "orders-0")
    assert offsets(log.view(0)) == list(range(100))
    assert offsets(source.partitions(0)["orders-0"].view(0)) == list(range(100))


def test_what_compaction_took_is_not_filled_and_damage_is(dirs: list[Path]) -> None:
    kept = [batch(at) for at in (0, 20, 30, 40)]
    builders.write_segment(dirs[0] / "orders-0", kept, 0)
    (dirs[0] / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 50\n")
    (dirs[0] / "orders-0" / f"{0:020}.log").write_bytes(
        b"".join(kept[:2]) + bytes(len(kept[2])) + kept[3]
    )
    view = opened(dirs).partitions()["orders-0"].view()
    assert offsets(view) == [each for each in range(100) if not 10 <= each < 20]


@pytest.mark.parametrize("end", [0, 40])
def test_what_one_node_deleted_no_reader_gets(dirs: list[Path], end: int) -> None:
    (dirs[1] / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {end}\n")
    view = opened(dirs).partitions()["orders-0"].view()
    assert view.log_start_offset == end
    assert offsets(view)[0] == end


def test_copies_are_found_over_several_sources_with_what_decides_between_them(
    dirs: list[Path],
) -> None:
    sources = [open_source(str(each)) for each in dirs]
    (copies,) = replicas_of(sources).values()
    assert [copy.node_id for copy in copies] == [1, 2, 3]
    assert [copy.facts().lineage for copy in copies] == [(0, 100), (0, 80), (0, 100)]
    assert choose([copy.facts() for copy in copies]).agreed == (100, 80, 100)
