"""A source that vanishes under a tree makes errors, never an empty tree."""

from __future__ import annotations

import errno
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.errors import SourceGoneError
from engine.log.log_directory import open_source
from kafkafs.fuse.errnos import errno_of
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Directory, File
from kafkafs.tree.tree import Tree
from tests.fixtures_data import copy_of

Open = Callable[..., Tree]


@pytest.fixture
def opened() -> Iterator[Open]:
    """A tree over folders that was listed and read before anything happens."""
    trees = []

    def start(*paths: Path, snapshot: bool = False) -> Tree:
        tree = Tree(open_source([str(path) for path in paths], snapshot=snapshot))
        trees.append(tree)
        assert "orders-0" in names(tree, "")
        assert text(tree, "orders-0/offset/35")
        return tree

    yield start
    for tree in trees:
        tree.source.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A log dir with two partitions."""
    return copy_of("current", tmp_path, ["orders-0", "txn-0"])


def names(tree: Tree, path: str) -> list[str]:
    node = tree.resolve(path)
    assert isinstance(node, Directory)
    return [entry.name for entry in node.entries()]


def text(tree: Tree, path: str) -> bytes:
    node = tree.resolve(path)
    assert isinstance(node, File)
    return b"".join(node.chunks())


def errno_at(ask: Callable[[Tree, str], object], tree: Tree, path: str) -> int | None:
    with pytest.raises((OSError, NotFound)) as failed:
        ask(tree, path)
    return errno_of(failed.value)


def wait() -> None:
    """Until nobody trusts the last look any more."""
    time.sleep(0.25)


LISTED = (
    "",
    "time/2023",
    "orders-0/records",
    "orders-0/segments",
    "orders-0/offset",
    "orders-0/time",
)
READ = (
    "orders-0/offset/35",
    "orders-0/records/00000000000000000000.jsonl",
    "orders-0/state/offsets.json",
)


def assert_gone(tree: Tree) -> None:
    wait()
    for path in LISTED:
        assert errno_at(names, tree, path) == errno.ESTALE, path
    for path in READ:
        assert errno_at(text, tree, path) == errno.ESTALE, path
    assert errno_at(lambda tree, path: tree.resolve(path), tree, "nothing-0") == errno.ESTALE
    problem = json.loads(text(tree, ".kafkafs/problems").splitlines()[0])
    assert problem["kind"] == "source_gone"
    assert problem["file"] == tree.source.roots[0].path


def test_a_deleted_source_gives_errors(opened: Open, source: Path) -> None:
    tree = opened(source)
    shutil.rmtree(source)
    assert_gone(tree)


def test_a_folder_made_anew_in_its_place_is_not_taken_for_it(opened: Open, source: Path) -> None:
    tree = opened(source)
    moved = source.rename(source.with_name("moved"))
    shutil.copytree(moved, source)
    assert_gone(tree)


def test_the_same_folder_that_comes_back_is_served_again(opened: Open, source: Path) -> None:
    tree = opened(source)
    before = text(tree, "orders-0/offset/35")
    moved = source.rename(source.with_name("moved"))
    assert_gone(tree)
    moved.rename(source)
    assert {"orders-0", "txn-0"} <= set(names(tree, ""))
    assert text(tree, "orders-0/offset/35") == before


def test_a_source_that_was_emptied_is_no_empty_tree(opened: Open, source: Path) -> None:
    tree = opened(source)
    for entry in source.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    wait()
    assert errno_at(names, tree, "") == errno.ESTALE
    assert errno_at(names, tree, "time/2023") == errno.ESTALE
    assert b'"reason":"everything in the source folder was deleted' in text(
        tree, ".kafkafs/problems"
    )


def test_a_partition_that_a_broker_deletes_is_just_gone(opened: Open, source: Path) -> None:
    tree = opened(source)
    shutil.rmtree(source / "orders-0")
    wait()
    assert "txn-0" in names(tree, "")
    assert "orders-0" not in names(tree, "")
    assert errno_at(text, tree, "orders-0/offset/35") == errno.ENOENT
    assert b"source_gone" not in text(tree, ".kafkafs/problems")


def test_of_several_sources_the_others_are_served_and_no_list_lacks_the_one(
    opened: Open, tmp_path: Path
) -> None:
    first = copy_of("current", tmp_path / "1", ["orders-0"])
    second = copy_of("current", tmp_path / "2", ["txn-0"])
    tree = opened(first, second)
    kept = text(tree, "txn-0/offset/3")
    shutil.rmtree(first)
    assert_gone(tree)
    assert text(tree, "txn-0/offset/3") == kept
    assert "records" in names(tree, "txn-0")


def test_a_snapshot_holds_what_it_showed(opened: Open, source: Path) -> None:
    tree = opened(source, snapshot=True)
    records = text(tree, "orders-0/records/00000000000000000000.jsonl")
    shutil.rmtree(source)
    wait()
    assert "orders-0" in names(tree, "")
    assert text(tree, "orders-0/records/00000000000000000000.jsonl") == records


@pytest.mark.parametrize("named", ["orders-0", "orders-0/00000000000000000000.log"])
def test_a_part_of_a_log_dir_vanishes_alike(source: Path, named: str) -> None:
    tree = Tree(open_source([str(source / named)]))
    assert text(tree, "orders-0/offset/35")
    shutil.rmtree(source)
    wait()
    assert errno_at(names, tree, "") == errno.ESTALE
    assert errno_at(text, tree, "orders-0/offset/36") == errno.ESTALE
    tree.source.close()


def test_a_relative_path_is_the_one_that_was_meant(
    opened: Open, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source.parent)
    tree = opened(Path(source.name))
    monkeypatch.chdir(tmp_path)
    wait()
    assert "orders-0" in names(tree, "")


def test_every_look_at_a_vanished_folder_is_refused(source: Path) -> None:
    from engine.files.source_files import SourceRoot

    root = SourceRoot(str(source))
    shutil.rmtree(source)
    wait()
    for look in (root.list, root.stat, lambda: root.open("meta.properties")):
        with pytest.raises(SourceGoneError):
            look()
    root.close()
