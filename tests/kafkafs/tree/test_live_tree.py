"""A log that is being written, rolled, compacted and deleted under the tree, and a snapshot of one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafs.tree.context import TTL_AT_REST, TTL_LIVE
from kafkafs.tree.errors import Cancelled, NotFound
from kafkafs.tree.node import File
from kafkafs.tree.partition import partition
from kafkafs.tree.tree import Tree
from tests import builders
from tests.builders import Producer, Rec
from tests.kafkafs.built_logs import (
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

P7 = Producer(id=7, epoch=0, sequence=0)
FIRST = f"{0:020}"


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(3), 0)
    return log


@pytest.fixture
def tree(log: BuiltLog) -> Iterator[Tree]:
    with tree_over(log.log_dir) as tree:
        yield tree


def opening(tree: Tree, path: str) -> File:
    node = tree.follow(tree.resolve(path))
    assert isinstance(node, File)
    return node


def test_new_records_show_up(tree: Tree, log: BuiltLog) -> None:
    with pytest.raises(NotFound):
        tree.resolve("orders-0/offset/30")
    log.append(text_batch(30, 5))
    look_again(tree)
    assert offsets_of(tree.resolve("orders-0/offset/30")) == [30]
    assert offsets_of(tree.resolve("orders-0/offset/28..")) == list(range(28, 35))
    assert tree.resolve("orders-0/offset/latest").target == "34"  # type: ignore[attr-defined]


def test_the_sources_summary_counts_appended_bytes(tree: Tree, log: BuiltLog) -> None:
    def size() -> object:
        return json.loads(content_of(tree.resolve("state/summary.json")))["segmentBytes"]

    before, batch = size(), text_batch(30, 5)
    log.append(batch)
    look_again(tree)
    assert size() == before + len(batch)


def test_an_open_stream_follows_the_log_as_tail_does(tree: Tree, log: BuiltLog) -> None:
    node = opening(tree, f"orders-0/records/{FIRST}.jsonl")
    content = node.open()
    shown = content.read(0, content.size)
    for first in (30, 31, 32):
        log.append(text_batch(first, 1))
        look_again(tree)
        attrs = node.attrs()
        assert attrs.exact
        assert attrs.size == content.size > len(shown)
        shown += content.read(len(shown), 10**6)
    content.close()
    assert shown == content_of(node)
    assert shown.count(b"\n") == 33


def test_stat_of_a_grown_stream_decodes_only_a_little(
    tree: Tree, log: BuiltLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkafs.tree.partition import line_files

    monkeypatch.setattr(line_files, "MEASURED_INLINE", 100)
    node = opening(tree, f"orders-0/records/{FIRST}.jsonl")
    content = node.open()
    size = content.size
    log.append(*batches_of(3, first=30))
    look_again(tree)
    attrs = node.attrs()
    assert (attrs.size, attrs.exact) == (size, False)
    content.close()
    attrs = node.attrs()
    assert attrs.size > size
    assert not attrs.exact
    assert len(content_of(node)) == node.attrs().size


def test_a_batch_that_is_being_written_is_not_there_yet(tree: Tree, log: BuiltLog) -> None:
    look_again(tree)
    log.append(text_batch(30, 5))
    look_again(tree)
    made = text_batch(35, 5)
    whole = log.active.stat().st_size
    with open(log.active, "ab") as file:
        file.write(made[:-10])
    look_again(tree)
    lines = lines_of(tree.resolve(f"orders-0/records/{FIRST}.jsonl"))
    assert [line.get("offset") for line in lines] == list(range(35))
    assert opening(tree, f"orders-0/segments/{FIRST}.log").attrs().size == whole
    with open(log.active, "ab") as file:
        file.write(made[-10:])
    look_again(tree)
    assert offsets_of(tree.resolve("orders-0/offset/35..")) == list(range(35, 40))
    assert opening(tree, f"orders-0/segments/{FIRST}.log").attrs().size == whole + len(made)


def test_a_roll_adds_a_file_and_the_old_one_stays(tree: Tree, log: BuiltLog) -> None:
    before = content_of(tree.resolve(f"orders-0/records/{FIRST}.jsonl"))
    log.segment(batches_of(1, first=30), 30)
    look_again(tree)
    assert names_in(tree.resolve("orders-0/records")) == [f"{FIRST}.jsonl", f"{30:020}.jsonl"]
    assert content_of(tree.resolve(f"orders-0/records/{FIRST}.jsonl")) == before
    assert offsets_of(tree.resolve("orders-0/offset/0..")) == list(range(40))


def test_a_deleted_segment_is_gone_and_stays_readable_where_it_is_open(
    tree: Tree, log: BuiltLog
) -> None:
    log.segment(batches_of(1, first=30), 30)
    look_again(tree)
    names = (f"orders-0/records/{FIRST}.jsonl", f"orders-0/segments/{FIRST}.log")
    nodes = [opening(tree, name) for name in names]
    expected = [content_of(node) for node in nodes]
    contents = [node.open() for node in nodes]
    tree.context.chunks.drop(next(iter(tree.context.chunks._chunks)))
    for path in log.folder.glob(f"{FIRST}.*"):
        path.unlink()
    look_again(tree)
    for node, content, data in zip(nodes, contents, expected, strict=True):
        assert content.read(0, 10**6) == data
        with pytest.raises(NotFound):
            node.attrs()
        with pytest.raises(NotFound):
            tree.resolve(node.path)
        content.close()
    with pytest.raises(NotFound):
        tree.resolve("orders-0/offset/5")
    assert tree.resolve("orders-0/offset/earliest").target == "30"  # type: ignore[attr-defined]


def test_a_compacted_segment_is_shown_at_once_and_old_readers_finish(
    tree: Tree, log: BuiltLog
) -> None:
    log.segment(batches_of(1, first=30), 30)
    look_again(tree)
    node = opening(tree, f"orders-0/records/{FIRST}.jsonl")
    content = node.open()
    before = content.read(0, 10**6)
    log.compact(0, builders.batch([Rec(b"kept", offset=5)], 5))
    look_again(tree)
    assert content.read(0, 10**6) == before
    content.close()
    assert offsets_of(node) == [5]
    assert content.identity != node.open().identity
    with pytest.raises(NotFound):
        tree.resolve("orders-0/offset/6")


def test_a_file_that_took_the_place_of_the_active_one_is_not_cut_at_its_end(
    tree: Tree, log: BuiltLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log.folder / f"{FIRST}.log"
    (known,) = tree.source.partitions().values()
    monkeypatch.setattr(known, "_has_broker", lambda: True)
    view = known.view(0.0)
    monkeypatch.setattr(type(known), "view", lambda *_: view)  # as long as nobody looks again
    node = opening(tree, f"orders-0/segments/{FIRST}.log")
    assert content_of(node) == path.read_bytes()
    longer = path.read_bytes() + text_batch(30, 50)
    cleaned = path.with_suffix(".log.swap")
    cleaned.write_bytes(longer)
    cleaned.replace(path)
    assert content_of(node) == longer


def test_a_topic_that_is_deleted_is_gone_with_all_below(tree: Tree, log: BuiltLog) -> None:
    nodes = [
        tree.resolve(path)
        for path in ("orders-0", "orders-0/offset", f"orders-0/records/{FIRST}.jsonl")
    ]
    for path in log.folder.iterdir():
        path.unlink()
    log.folder.rmdir()
    tree.source.partitions(0.0)
    with pytest.raises(NotFound):
        tree.resolve("orders-0")
    for log_of in {node.partition for node in nodes}:  # type: ignore[attr-defined]
        log_of.log._checked = 0.0
    for node in nodes:
        with pytest.raises(NotFound):
            node.attrs()


def test_the_end_of_a_transaction_shows_when_nobody_reads_the_old_state(
    tree: Tree, log: BuiltLog
) -> None:
    def states() -> list[str]:
        lines = lines_of(tree.resolve(f"orders-0/records/{FIRST}.jsonl"))
        return [line["transaction"]["state"] for line in lines if "transaction" in line]

    log.append(builders.batch([Rec(b"v")] * 2, 30, producer=P7, transactional=True))
    look_again(tree)
    node = opening(tree, f"orders-0/records/{FIRST}.jsonl")
    assert states() == ["open", "open"]
    assert len(lines_of(opening(tree, f"orders-0/committed/{FIRST}.jsonl"))) == 30
    reader = node.open()
    shown = reader.read(0, reader.size)
    log.append(builders.end_marker(32, P7, commit=True), text_batch(33, 1))
    look_again(tree)
    assert reader.read(0, len(shown)) == shown
    assert node.attrs().size == reader.size
    reader.close()
    assert states() == ["committed", "committed"]
    assert offsets_of(opening(tree, f"orders-0/committed/{FIRST}.jsonl")) == [*range(32), 33]


def test_committed_grows_with_the_last_stable_offset(tree: Tree, log: BuiltLog) -> None:
    log.append(builders.batch([Rec(b"v")], 30, producer=P7, transactional=True))
    log.append(text_batch(31, 2))
    look_again(tree)
    node = opening(tree, f"orders-0/committed/{FIRST}.jsonl")
    content = node.open()
    shown = content.read(0, 10**6)
    log.append(builders.end_marker(33, P7, commit=False))
    look_again(tree)
    assert node.attrs().size == content.size
    assert content.read(0, len(shown)) == shown
    assert offsets_of(node) == [*range(30), 31, 32]
    content.close()


def test_opening_can_be_given_up(tree: Tree) -> None:
    node = opening(tree, f"orders-0/records/{FIRST}.jsonl")
    with pytest.raises(Cancelled):
        node.open(lambda: True)
    assert offsets_of(node) == list(range(30))


def test_answers_may_be_kept_for_less_time_while_the_log_is_written(
    tree: Tree, log: BuiltLog
) -> None:
    look_again(tree)
    assert tree.resolve("orders-0/offset/3").attrs().ttl == TTL_AT_REST
    log.append(text_batch(30, 1))
    look_again(tree)
    assert tree.resolve("orders-0/offset/3").attrs().ttl == TTL_LIVE < TTL_AT_REST


# -- snapshot --------------------------------------------------------------------------------------


def test_a_snapshot_shows_what_was_there_whatever_happens(log: BuiltLog) -> None:
    log.segment(batches_of(1, first=30), 30)
    with tree_over(log.log_dir, snapshot=True) as tree:
        paths = [
            f"orders-0/records/{FIRST}.jsonl", f"orders-0/segments/{FIRST}.log",
            f"orders-0/segments/{30:020}.log", "orders-0/offset/35..", "orders-0/offset/5",
        ]  # fmt: skip
        attrs = {path: tree.resolve(path).attrs() for path in paths}
        expected = {path: content_of(tree.resolve(path)) for path in paths}
        log.append(text_batch(40, 5))
        (log.folder / f"{FIRST}.log").unlink()
        (log.folder / f"{FIRST}.index").unlink()
        look_again(tree)
        for path in paths:
            assert content_of(tree.resolve(path)) == expected[path], path
            assert tree.resolve(path).attrs().mtime_ns == attrs[path].mtime_ns
            assert tree.resolve(path).attrs().ttl == 3600.0
        with pytest.raises(NotFound):
            tree.resolve("orders-0/offset/40")


def test_a_very_large_folder_is_listed_without_a_look_at_the_log(
    tree: Tree, log: BuiltLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "_LARGE_FOLDER", 0)
    shown = tree.resolve("orders-0/segments")
    assert sorted(names_in(shown)) == sorted(file.name for file in log.folder.iterdir())
    assert shown.slow  # type: ignore[attr-defined]
    first, second = list(shown.entries())[:2]  # type: ignore[attr-defined]
    assert tree.resolve(f"orders-0/segments/{first.name}").attrs().inode == first.inode
    log.segment(batches_of(3, first=30), 30)
    look_again(tree)
    assert sorted(names_in(shown)) == sorted(file.name for file in log.folder.iterdir())
    assert next(shown.entries(first.cookie)) == second  # type: ignore[attr-defined]
