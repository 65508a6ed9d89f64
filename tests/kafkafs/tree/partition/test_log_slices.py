"""`log/` and `/time/<period>/`: whole batches of a period as files that a broker loads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.checkpoint.leader_epoch_checkpoint import parse_leader_epochs
from kafkafs.tree.errors import NotFound
from kafkafs.tree.tree import Tree
from tests import builders
from tests.builders import Rec
from tests.fixtures_data import log_dir, logs, truth_partitions
from tests.kafkafs.built_logs import (
    START_MS,
    BuiltLog,
    batches_of,
    content_of,
    look_again,
    names_in,
    offsets_of,
    text_batch,
    tree_over,
)


def at(offset: int) -> int:
    """When the record with an offset was written."""
    return START_MS + offset * 1000


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    log = BuiltLog(tmp_path / "data")
    for base in (0, 30, 60):
        log.segment(batches_of(3, first=base), base)
    (log.folder / "leader-epoch-checkpoint").write_text("0\n4\n0 0\n2 25\n3 60\n7 85\n")
    (log.folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    return log


@pytest.fixture
def tree(log: BuiltLog) -> Iterator[Tree]:
    with tree_over(log.log_dir) as tree:
        yield tree


def files_in(tree: Tree, period: str) -> dict[str, bytes]:
    """The period's .log files, from both places where they are shown."""
    path = f"orders-0/time/{period}/log"
    found = {
        name: content_of(tree.resolve(f"{path}/{name}")) for name in names_in(tree.resolve(path))
    }
    try:
        other = tree.resolve(f"time/{period}/orders-0")
    except NotFound:
        assert found == {}
        assert "orders-0" not in names_in(tree.resolve(f"time/{period}"))
    else:
        assert names_in(other) == list(found)
        assert "orders-0" in names_in(tree.resolve(f"time/{period}"))
        for name, data in found.items():
            assert content_of(tree.resolve(f"time/{period}/orders-0/{name}")) == data
    for name, data in found.items():
        attrs = tree.resolve(f"{path}/{name}").attrs()
        assert attrs.exact
        assert attrs.size == len(data)
    return found


def logs_in(tree: Tree, start: int, end: int) -> dict[str, bytes]:
    found = files_in(tree, f"{at(start)}..{at(end)}")
    return {name: data for name, data in found.items() if name.endswith(".log")}


def name_of(base: int) -> str:
    return f"{base:020}.log"


def test_slices_are_the_batches_that_hold_the_period(tree: Tree) -> None:
    assert logs_in(tree, 15, 75) == {
        name_of(10): text_batch(10, 10) + text_batch(20, 10),
        name_of(30): b"".join(batches_of(3, first=30)),
        name_of(60): text_batch(60, 10) + text_batch(70, 10),
    }


@pytest.mark.parametrize(("start", "end"), [(10, 20), (12, 13), (19, 20), (10, 11)])
def test_a_period_inside_a_batch_is_the_batch(tree: Tree, start: int, end: int) -> None:
    assert logs_in(tree, start, end) == {name_of(10): text_batch(10, 10)}


def test_whole_segments_keep_their_names(tree: Tree) -> None:
    found = logs_in(tree, 0, 90)
    assert list(found) == [name_of(base) for base in (0, 30, 60)]
    assert b"".join(found.values()) == b"".join(batches_of(9))


@pytest.mark.parametrize("period", ["2000", f"{at(15)}..{at(15)}", f"{at(90)}..", "..2001"])
def test_nothing_is_there_for_an_empty_period(tree: Tree, period: str) -> None:
    assert files_in(tree, period) == {}
    for name in (name_of(0), "leader-epoch-checkpoint", "partition.metadata"):
        with pytest.raises(NotFound):
            tree.resolve(f"orders-0/time/{period}/log/{name}")


@pytest.mark.parametrize("base", [0, 11, 15, 20, 60, 90])
def test_only_the_slices_are_there(tree: Tree, base: int) -> None:
    with pytest.raises(NotFound):
        tree.resolve(f"orders-0/time/{at(15)}..{at(55)}/log/{name_of(base)}")


@pytest.mark.parametrize(
    ("start", "end", "epochs"),
    [
        (0, 90, [(0, 0), (2, 25), (3, 60), (7, 85)]), (15, 75, [(0, 10), (2, 25), (3, 60)]),
        (30, 60, [(2, 30)]), (62, 64, [(3, 60)]), (86, 90, [(3, 80), (7, 85)]),
    ],
)  # fmt: skip
def test_epochs_are_cut_to_the_slices(
    tree: Tree, start: int, end: int, epochs: list[tuple[int, int]]
) -> None:
    path = f"orders-0/time/{at(start)}..{at(end)}/log/leader-epoch-checkpoint"
    assert parse_leader_epochs(content_of(tree.resolve(path))) == epochs


def test_partition_metadata_is_the_partitions_own(tree: Tree, log: BuiltLog) -> None:
    own = (log.folder / "partition.metadata").read_bytes()
    assert files_in(tree, "2023")["partition.metadata"] == own


def test_without_partition_metadata_there_is_none(tree: Tree, log: BuiltLog) -> None:
    (log.folder / "partition.metadata").unlink()
    look_again(tree)
    assert "partition.metadata" not in files_in(tree, "2023")


def test_the_time_of_a_slice_is_its_newest_record(tree: Tree) -> None:
    path = f"orders-0/time/{at(15)}..{at(75)}/log"
    times = {
        name: tree.resolve(f"{path}/{name}").attrs().mtime_ns
        for name in names_in(tree.resolve(path))
    }
    assert times[name_of(10)] == at(29) * 1_000_000
    assert times[name_of(30)] == at(59) * 1_000_000
    assert times[name_of(60)] == at(79) * 1_000_000


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_is_named_by_its_first_record(tmp_path: Path, magic: int) -> None:
    log = BuiltLog(tmp_path / "old")
    gzip = builders.CompressionType.GZIP
    sets = []
    for base in (0, 5, 10):
        records = [Rec(b"x", timestamp=at(base + i)) for i in range(5)]
        sets.append(builders.message_set(records, base, gzip, magic=magic))
    log.segment(sets, 0)
    with tree_over(log.log_dir) as tree:
        if magic:
            assert logs_in(tree, 7, 8) == {name_of(5): sets[1]}
        else:
            assert logs_in(tree, 7, 8) == {}
            assert logs_in(tree, -(10**9), 8) == {}


def test_what_is_below_the_log_start_is_left_out_by_batches(tree: Tree, log: BuiltLog) -> None:
    log.start_at(45)
    with tree_over(log.log_dir) as again:
        found = logs_in(again, 0, 60)
    assert found == {name_of(40): text_batch(40, 10) + text_batch(50, 10)}


def test_a_damaged_batch_inside_a_period_is_copied_as_it_is(tree: Tree, log: BuiltLog) -> None:
    path = log.folder / name_of(30)
    data = bytearray(path.read_bytes())
    data[len(text_batch(30, 10)) + 90] ^= 1
    path.write_bytes(data)
    assert logs_in(tree, 30, 60) == {name_of(30): bytes(data)}
    records = tree.resolve(f"orders-0/time/{at(30)}..{at(60)}/records.jsonl")
    assert offsets_of(records) == [*range(30, 40), *range(50, 60)]


def test_an_open_period_follows_the_log(tree: Tree, log: BuiltLog) -> None:
    period = f"{at(75)}.."
    node = tree.resolve(f"orders-0/time/{period}/log/{name_of(70)}")
    content = node.open()  # type: ignore[attr-defined]
    assert content.size == 2 * len(text_batch(70, 10))
    log.append(text_batch(90, 10))
    look_again(tree)
    assert node.attrs().size == 3 * len(text_batch(70, 10))
    assert content.size == 2 * len(text_batch(70, 10))
    assert content.read(0, 10**6) == text_batch(70, 10) + text_batch(80, 10)


@pytest.mark.parametrize(
    "name", [n for n in truth_partitions("current") if n != "__cluster_metadata-0"]
)
def test_a_period_of_everything_is_everything_that_is_served(name: str) -> None:
    with tree_over(log_dir("current")) as tree:
        folder = tree.resolve(f"{name}/time/1970..2100/log")
        found = [file for file in names_in(folder) if file.endswith(".log")]
        shown = b"".join(content_of(tree.resolve(f"{name}/time/1970..2100/log/{f}")) for f in found)
        disk = b"".join(path.read_bytes() for path in logs("current", name))
        assert disk.endswith(shown)
        assert bool(found) == bool(disk)
        if name != "trimmed-0":
            assert shown == disk


def test_partitions_that_are_not_the_log_have_no_place_in_a_period() -> None:
    with tree_over(log_dir("current")) as tree:
        names = names_in(tree.resolve("time/1970..2100"))
        assert "__cluster_metadata-0" not in names
        assert not [name for name in names if name.endswith("-delete") or name.startswith("empty")]
        assert "orders-0" in names
