"""`offset/`: single records, their parts and what is told about them, damage included."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import DamagedFileError
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Directory, File, Link
from kafkafs.tree.tree import Tree
from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import (
    START_MS,
    BuiltLog,
    batches_of,
    content_of,
    lines_of,
    look_again,
    names_in,
    offsets_of,
    text_batch,
    tree_over,
)


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    return BuiltLog(tmp_path / "data")


@pytest.fixture
def tree(log: BuiltLog) -> Iterator[Tree]:
    log.segment(batches_of(2), 0)
    log.segment(batches_of(2, first=20), 20)
    with tree_over(log.log_dir) as tree:
        yield tree


def opening(tree: Tree, path: str) -> File:
    node = tree.resolve(path)
    assert isinstance(node, File)
    return node


def broken(log: BuiltLog, position: int, name: int = 20) -> None:
    path = log.folder / f"{name:020}.log"
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_a_record_file_has_its_exact_size_and_time_before_it_is_opened(tree: Tree) -> None:
    node = opening(tree, "orders-0/offset/7")
    attrs = node.attrs()
    assert attrs.exact
    assert attrs.size == len(content_of(node))
    assert attrs.mtime_ns == (START_MS + 7000) * 1_000_000


def test_its_content_is_there_at_once(tree: Tree) -> None:
    node = opening(tree, "orders-0/offset/7")
    assert not node.slow
    content = node.open()
    data = content.read_now(0, 1 << 17)
    assert data is not None
    assert json.loads(data)["offset"] == 7
    assert content.read_now(3, 4) == data[3:7]
    assert content.read_now(content.size, 10) == b""
    assert content.identity == node.open().identity


def test_the_listing_is_the_bounds_and_a_record_of_each_segment(tree: Tree) -> None:
    assert names_in(tree.resolve("orders-0/offset")) == [
        "README.txt",
        "earliest",
        "latest",
        f"{0:020}",
        f"{20:020}",
    ]


def test_a_batch_file_is_the_batch_as_on_disk(tree: Tree) -> None:
    for offset in (20, 25, 29):
        node = opening(tree, f"orders-0/offset/{offset}.batch")
        assert content_of(node) == text_batch(20, 10)
        assert node.attrs().size == len(text_batch(20, 10))


def test_null_empty_and_present_are_three_things(tree: Tree, log: BuiltLog) -> None:
    log.append(builders.batch([Rec(None, None), Rec(b"", b""), Rec(b"null", b"k")], 40))
    assert content_of(tree.resolve("orders-0/offset/41.value")) == b""
    assert opening(tree, "orders-0/offset/41.key").attrs().size == 0
    assert content_of(tree.resolve("orders-0/offset/42.value")) == b"null"
    for name in ("40.key", "40.value", "43.value"):
        with pytest.raises(NotFound):
            tree.resolve(f"orders-0/offset/{name}")
    values = [lines_of(tree.resolve(f"orders-0/offset/{n}"))[0]["value"] for n in (40, 41, 42)]
    assert values == [None, "", "null"]


def test_xattrs_tell_what_the_batch_says_of_a_record(tree: Tree, log: BuiltLog) -> None:
    records = [Rec(b"x"), Rec(b"y")]
    producer = Producer(id=7, epoch=2, sequence=100)
    made = builders.batch(
        records, 40, builders.CompressionType.ZSTD, producer=producer, leader_epoch=3
    )
    log.append(made)
    facts = tree.resolve("orders-0/offset/41").xattrs()
    expected = {
        "offset": 41, "segment": 20, "magic": 2, "timestamp": START_MS, "leader_epoch": 3,
        "timestamp_type": "CreateTime", "compression": "zstd", "producer_id": 7,
        "producer_epoch": 2, "sequence": 101, "batch_base_offset": 40, "batch_last_offset": 41,
        "batch_position": 2 * len(text_batch(0, 10)), "batch_size": len(made),
        "is_transactional": "false", "is_control": "false",
    }  # fmt: skip
    for name, value in expected.items():
        assert facts[f"user.kafka.{name}"] == str(value).encode(), name


def test_a_record_of_magic_0_has_no_timestamp(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "old")
    path = log.segment([builders.message_set([Rec(b"x")], 0, magic=0)], 0)
    with tree_over(log.log_dir) as tree:
        node = tree.resolve("orders-0/offset/0")
        facts = node.xattrs()
        assert facts["user.kafka.timestamp_type"] == b"NoTimestampType"
        assert facts["user.kafka.timestamp"] == b"-1"
        assert "user.kafka.producer_id" not in facts
        assert node.attrs().mtime_ns == path.parent.stat().st_mtime_ns


@pytest.mark.parametrize("timestamp", [-5, 2**63 - 1, 253_402_300_800_000])
def test_times_that_no_file_can_have_are_clamped(tmp_path: Path, timestamp: int) -> None:
    log = BuiltLog(tmp_path / "odd")
    log.segment([builders.batch([Rec(b"x", timestamp=timestamp)], 0)], 0)
    with tree_over(log.log_dir) as tree:
        expected = min(max(timestamp, 0) * 1_000_000, 2**63 - 1)
        assert tree.resolve("orders-0/offset/0").attrs().mtime_ns == expected
        if timestamp > 0:
            assert tree.resolve(f"orders-0/records/{0:020}.jsonl").attrs().mtime_ns == expected
        (line,) = lines_of(tree.resolve("orders-0/offset/0"))
        assert line["timestamp"] == timestamp
        assert line["time"] is None


# -- ranges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("5..8", [5, 6, 7]), ("..3", [0, 1, 2]), ("37..", [37, 38, 39]), ("18+4", [18, 19, 20, 21]),
        ("-2", [38, 39]), ("-2..", [38, 39]), ("5..5", []), ("40..", []), ("39..1000", [39]),
        ("1000..2000", []), ("-0", []), ("0+0", []), ("-1000", list(range(40))),
    ],
)  # fmt: skip
def test_ranges(tree: Tree, name: str, expected: list[int]) -> None:
    node = opening(tree, f"orders-0/offset/{name}")
    before = node.attrs()
    assert bool(before.size) == bool(expected)
    assert offsets_of(node) == expected
    after = node.attrs()
    assert after.exact
    assert after.size == len(content_of(node))
    newest = max(expected, default=None)
    if newest is not None:
        batch_end = newest // 10 * 10 + 9
        assert after.mtime_ns == (START_MS + batch_end * 1000) * 1_000_000
    assert before.mtime_ns == after.mtime_ns


def test_a_range_is_not_decoded_by_looking_it_up(tree: Tree) -> None:
    node = opening(tree, "orders-0/offset/0..")
    assert node.slow
    node.attrs()
    assert len(tree.context.streams) == 0
    assert len(tree.context.chunks) == 0


# -- damage ----------------------------------------------------------------------------------------


def test_a_damaged_record_is_there_and_cannot_be_read(tree: Tree, log: BuiltLog) -> None:
    broken(log, 80)
    for name in ("25", "25.value", "25.key"):
        node = opening(tree, f"orders-0/offset/{name}")
        attrs = node.attrs()
        assert attrs.size > 0
        assert not attrs.exact
        with pytest.raises(DamagedFileError):
            node.open()
        facts = json.loads(node.xattrs()["user.kafka.error"])
        assert facts["file"] == f"orders-0/{20:020}.log"
        assert (facts["position"], facts["firstOffset"], facts["lastOffset"]) == (0, 20, 29)
    assert lines_of(tree.resolve("orders-0/offset/30"))


def test_a_damaged_beginning_leaves_the_links_and_the_landmarks(tree: Tree, log: BuiltLog) -> None:
    broken(log, 80, name=0)
    folder = tree.resolve("orders-0/offset")
    assert isinstance(folder, Directory)
    assert names_in(folder) == ["README.txt", "earliest", "latest", f"{0:020}", f"{20:020}"]
    earliest = folder.lookup("earliest")
    assert isinstance(earliest, Link)
    with pytest.raises(DamagedFileError):
        opening(tree, f"orders-0/offset/{earliest.target}").open()


def test_damage_in_a_range_is_a_line_and_the_stream_goes_on(tree: Tree, log: BuiltLog) -> None:
    broken(log, 80)
    node = opening(tree, "orders-0/offset/15..35")
    lines = lines_of(node)
    assert [line.get("offset", "error") for line in lines] == [
        *range(15, 20), "error", *range(30, 35),
    ]  # fmt: skip
    facts = json.loads(node.xattrs()["user.kafka.error"])
    assert facts["damagedPlaces"] == 1
    assert facts["first"][0]["lastOffset"] == 29


def test_a_batch_that_does_not_decode_can_still_be_had_raw(tree: Tree, log: BuiltLog) -> None:
    made = builders.batch([Rec(b"x")] * 3, 40, attributes=6)
    log.append(made)
    assert content_of(tree.resolve("orders-0/offset/41.batch")) == made
    with pytest.raises(DamagedFileError, match="codec"):
        opening(tree, "orders-0/offset/41").open()


def test_folders_have_the_time_of_their_newest_record(tree: Tree, log: BuiltLog) -> None:
    newest = max(line["timestamp"] for line in lines_of(tree.resolve("orders-0/offset/0..")))
    for name in ("offset", "time", "records", "committed", "time/2000.."):
        assert tree.resolve(f"orders-0/{name}").attrs().mtime_ns == newest * 1_000_000
    later = newest + 86_400_000
    log.append(builders.batch([Rec(b"x", timestamp=later)], 40))
    look_again(tree)
    assert tree.resolve("orders-0/offset").attrs().mtime_ns == later * 1_000_000
    assert tree.resolve("orders-0/time/2030").attrs().mtime_ns == log.folder.stat().st_mtime_ns


def test_a_log_without_records_lists_nothing(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "empty")
    log.segment([], 0)
    with tree_over(log.log_dir) as tree:
        assert names_in(tree.resolve("orders-0/offset")) == ["README.txt"]
        assert names_in(tree.resolve("orders-0/time")) == ["README.txt"]
        for name in ("earliest", "latest", "0"):
            with pytest.raises(NotFound):
                tree.resolve(f"orders-0/offset/{name}")


def test_the_last_record_is_found_behind_what_compaction_left(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "compacted")
    batches = [
        builders.batch([Rec(b"a", offset=3)], 0, last_offset_delta=9),
        builders.empty_batch(10, 14),
        builders.batch([Rec(b"b", offset=21)], 20, last_offset_delta=9),
        builders.empty_batch(40, 44),
        builders.empty_batch(50, 54),
    ]
    log.segment(batches, 0)
    with tree_over(log.log_dir) as tree:
        latest, earliest = (tree.resolve(f"orders-0/offset/{n}") for n in ("latest", "earliest"))
        assert isinstance(latest, Link)
        assert isinstance(earliest, Link)
        assert (earliest.target, latest.target) == ("3", "21")
        assert names_in(tree.resolve("orders-0/offset")) == [
            "README.txt",
            "earliest",
            "latest",
            f"{3:020}",
        ]
