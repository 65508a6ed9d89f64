"""`key/`: links to the newest record of each key, in partitions of compacted topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import CorruptRecordError
from kafkafs.decode.searching.key_search import KeySearch
from kafkafs.escaped_names import escaped
from kafkafs.tree.errors import Cancelled, NotFound
from kafkafs.tree.node import Kind, Link, Node
from kafkafs.tree.tree import Tree
from tests.builders import Rec, batch
from tests.fixtures_data import log_dir, truth_records
from tests.kafkafs.built_logs import (
    BuiltLog,
    content_of,
    lines_of,
    look_again,
    names_in,
    tree_over,
)


def record(key: bytes | None, offset: int, value: bytes | None = b"v") -> bytes:
    return batch([Rec(value, key=key)], offset)


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    built = BuiltLog(tmp_path)
    built.segment([record(b"a", 0), record(b"b", 1)], 0)
    built.segment([record(b"a", 2), record(b"c", 3)], 2)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    return built


@pytest.fixture
def tree(log: BuiltLog) -> Iterator[Tree]:
    with tree_over(log.log_dir) as tree:
        yield tree


def offset_of(tree: Tree, name: str, partition: str = "orders-0") -> int:
    node = tree.resolve(f"{partition}/key/{name}")
    assert isinstance(node, Link)
    assert node.attrs().kind is Kind.LINK
    assert node.attrs().size == len(node.target)
    (line,) = lines_of(tree.follow(node))
    assert int(node.target.removeprefix("../offset/")) == line["offset"]
    return int(line["offset"])


def test_a_key_leads_to_its_newest_record(tree: Tree) -> None:
    assert [offset_of(tree, name) for name in "abc"] == [2, 1, 3]


def test_every_key_of_kafkas_own_topic_leads_to_the_last_record_that_a_consumer_got() -> None:
    name = "__consumer_offsets-0"
    newest = {each.key: each.offset for each in truth_records("current", name)}
    assert len(newest) > 1
    with tree_over(log_dir("current")) as tree:
        for key, offset in newest.items():
            assert key is not None
            assert offset_of(tree, escaped(key.decode("utf-8", "surrogateescape")), name) == offset


def test_the_link_of_a_key_without_a_record_leads_nowhere(tree: Tree) -> None:
    node = tree.resolve("orders-0/key/none")
    assert node.attrs().kind is Kind.LINK
    with pytest.raises(NotFound):
        tree.follow(node)
    with pytest.raises(NotFound):
        tree.follow(node)


def test_a_look_up_reads_no_record(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: KeySearch) -> Node:
        raise AssertionError(self)

    monkeypatch.setattr(KeySearch, "newest", refuse)
    node = tree.resolve("orders-0/key/a")
    assert node.attrs().size == len("../offset/") + 20
    assert node.xattrs() == {}


def test_only_a_readme_is_listed_which_says_why_the_folder_is_there(tree: Tree) -> None:
    assert names_in(tree.resolve("orders-0"))[-1] == "key"
    assert names_in(tree.resolve("orders-0/key")) == ["README.txt"]
    text = content_of(tree.resolve("orders-0/key/README.txt")).decode()
    assert "cleaner-offset-checkpoint has the partition" in text


def test_a_topic_that_is_not_known_to_be_compacted_has_no_keys(log: BuiltLog) -> None:
    (log.log_dir / "cleaner-offset-checkpoint").unlink()
    with tree_over(log.log_dir) as tree:
        assert "key" not in names_in(tree.resolve("orders-0"))
        with pytest.raises(NotFound):
            tree.resolve("orders-0/key/a")


def test_the_clusters_metadata_decides_where_the_source_has_it() -> None:
    with tree_over(log_dir("current")) as tree:
        image = tree.context.state.cluster.image()
        compacted = {
            item.facts["name"]
            for item in image.table("topics").values()
            if "compact" in str((image.table("configs").get(("topic", item.facts["name"]))
                                 or item).facts.get("configs", {}).get("cleanup.policy"))
        } | {"__consumer_offsets", "__transaction_state"}  # fmt: skip
        names = tree.source.partitions()
        shown = {name for name in names if "key" in names_in(tree.resolve(name))}
        wanted = {name for name in names if name.rpartition("-")[0] in compacted}
        assert shown == wanted
        assert len(shown) < len(names)


def test_records_that_are_appended_are_found(tree: Tree, log: BuiltLog) -> None:
    assert [offset_of(tree, name) for name in "ab"] == [2, 1]
    with pytest.raises(NotFound):
        offset_of(tree, "d")
    log.append(record(b"b", 4, None), record(b"d", 5))
    look_again(tree)
    assert [offset_of(tree, name) for name in "abd"] == [2, 4, 5]
    assert lines_of(tree.follow(tree.resolve("orders-0/key/b")))[0]["value"] is None


def test_a_second_search_reads_later_records_only(
    tree: Tree, log: BuiltLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offset_of(tree, "b") == 1
    starts = []
    search = KeySearch.newest

    def newest(self: KeySearch, *args: object) -> object:
        starts.append(self._options.from_offset)
        return search(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(KeySearch, "newest", newest)
    assert offset_of(tree, "b") == 1
    assert starts == []
    log.append(record(b"a", 4))
    look_again(tree)
    assert offset_of(tree, "b") == 1
    assert set(starts) == {4}


def test_a_record_that_compaction_or_truncation_took_is_no_longer_found(
    tree: Tree, log: BuiltLog
) -> None:
    assert [offset_of(tree, name) for name in "bc"] == [1, 3]
    log.compact(0, record(b"x", 1))
    log.active.write_bytes(record(b"a", 2))
    look_again(tree)
    for name in "bc":
        with pytest.raises(NotFound):
            offset_of(tree, name)
    assert offset_of(tree, "x") == 1


def test_a_record_below_the_log_start_is_not_found(tree: Tree, log: BuiltLog) -> None:
    assert offset_of(tree, "b") == 1
    for path in log.folder.glob(f"{0:020}.*"):
        path.unlink()
    look_again(tree)
    with pytest.raises(NotFound):
        offset_of(tree, "b")
    log.start_at(3)
    with tree_over(log.log_dir) as later, pytest.raises(NotFound):
        offset_of(later, "a")


@pytest.mark.parametrize(
    ("key", "name"),
    [(b"", "%"), (b"a/b", "a%2Fb"), (b"..", "%2E%2E"), (b"\xff\x00", "%FF%00"),
     ("ключ".encode(), "ключ"), (b"README.txt", "README%2Etxt")],
)  # fmt: skip
def test_bytes_that_a_name_cannot_hold_are_escaped(log: BuiltLog, key: bytes, name: str) -> None:
    log.append(record(key, 4), record(None, 5))
    with tree_over(log.log_dir) as tree:
        assert offset_of(tree, name) == 4


@pytest.mark.parametrize("name", ["a%2", "%61", "x%~0123456789abcdef"])
def test_a_name_that_no_key_has_does_not_exist(tree: Tree, name: str) -> None:
    with pytest.raises(NotFound):
        tree.resolve(f"orders-0/key/{name}")


def test_damage_that_may_hide_a_newer_record_is_an_error(log: BuiltLog) -> None:
    data = bytearray(log.active.read_bytes())
    data[-1] ^= 1
    log.append(record(b"x", 4))
    whole = log.active.read_bytes()
    log.active.write_bytes(bytes(data) + whole[len(data) :])
    with tree_over(log.log_dir) as tree:
        assert offset_of(tree, "x") == 4
        for name in ("b", "none"):
            with pytest.raises(CorruptRecordError, match="a newer record of the key may be lost"):
                tree.follow(tree.resolve(f"orders-0/key/{name}"))


def test_a_search_can_be_cancelled(tree: Tree) -> None:
    node = tree.resolve("orders-0/key/b")
    assert isinstance(node, Link)
    with pytest.raises(Cancelled):
        node.find(lambda: True)
    assert node.find(lambda: False) == f"../offset/{1:020}"
