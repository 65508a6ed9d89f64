"""The root: partitions by name, the status folder, several sources of different kinds."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Directory
from kafkafs.tree.tree import Tree
from tests.kafkafs.built_logs import (
    BuiltLog,
    batches_of,
    content_of,
    names_in,
    offsets_of,
    shape,
    tree_over,
)


def test_the_tree_as_a_value(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(1), 0)
    (log.log_dir / "meta.properties").write_text("version=0\n")
    with tree_over(log.log_dir) as tree:
        assert shape(tree.root()) == {
            "README.txt": "file",
            ".kafkafs": {"version": "file", "problems": "file"},
            "state": {
                "meta.properties.json": "file", "checkpoints.json": "file",
                "partitions.json": "file", "leftovers.json": "file", "summary.json": "file",
            },
            "time": {},
            "orders-0": {
                "offset": {
                    "README.txt": "file", "earliest": "-> 0", "latest": "-> 9", f"{0:020}": "-> 0",
                },
                "time": {
                    "README.txt": "file", "earliest": "-> ../offset/0", "latest": "-> ../offset/9",
                    "2023-11-14": {"README.txt": "file", "22": "-> ../2023-11-14T22"},
                },
                "records": {f"{0:020}.jsonl": "file"},
                "committed": {f"{0:020}.jsonl": "-> 0.jsonl"},
                "segments": {
                    f"{0:020}.index": "file", f"{0:020}.log": "file", f"{0:020}.timeindex": "file",
                },
                "state": {
                    "offsets.json": "file", "epochs.json": "file", "producers.json": "file",
                    "transactions.json": "file", "indexes.json": "file", "leftovers.json": "file",
                },
            },
        }  # fmt: skip


def test_partitions_come_and_go(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(1), 0)
    with tree_over(log.log_dir) as tree:
        assert names_in(tree.root())[4:] == ["orders-0"]
        BuiltLog(log.log_dir, "added-0").segment(batches_of(1), 0)
        tree.source.partitions(0.0)
        assert names_in(tree.root())[4:] == ["orders-0", "added-0"]
        log.folder.rename(log.log_dir / "orders-0.0123456789abcdef0123456789abcdef-delete")
        tree.source.partitions(0.0)
        assert len(names_in(tree.root())[4:]) == 2
        with pytest.raises(NotFound):
            tree.resolve("orders-0")


def test_a_second_copy_of_a_partition_stands_beside_the_first(tmp_path: Path) -> None:
    first, second = BuiltLog(tmp_path / "a"), BuiltLog(tmp_path / "b")
    first.segment(batches_of(1), 0)
    second.segment(batches_of(2), 0)
    source = open_source([str(first.log_dir), str(second.log_dir)])
    tree = Tree(source)
    assert names_in(tree.root())[4:] == ["orders-0", "orders-0@2"]
    assert len(offsets_of(tree.resolve(f"orders-0/records/{0:020}.jsonl"))) == 10
    assert len(offsets_of(tree.resolve(f"orders-0@2/records/{0:020}.jsonl"))) == 20
    assert names_in(tree.resolve("time/2023")) == ["orders-0"]
    assert b"orders-0@2" in content_of(tree.resolve(".kafkafs/problems"))
    for log_dir in (first.log_dir, second.log_dir):
        assert str(log_dir).encode() in content_of(tree.resolve("README.txt"))
    source.close()


def test_a_partition_folder_is_a_source(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(1), 0)
    with tree_over(log.folder) as tree:
        assert names_in(tree.root())[4:] == ["orders-0"]
        assert offsets_of(tree.resolve("orders-0/offset/3")) == [3]
        assert len(content_of(tree.resolve(f"orders-0/segments/{0:020}.log")))


def test_a_loose_log_file_is_a_source_and_takes_nobodys_place(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data", "x")
    path = log.segment(batches_of(1), 0)
    loose = tmp_path / "time.log"
    loose.write_bytes(path.read_bytes())
    with tree_over(loose) as tree:
        assert names_in(tree.root()) == ["README.txt", ".kafkafs", "state", "time", "time-0"]
        assert names_in(tree.resolve("time")) == []
        assert offsets_of(tree.resolve("time-0/offset/3")) == [3]


class Status:
    """A provider with a file of its own and one in the place of the tree's."""

    def __init__(self) -> None:
        self.count = 0

    def names(self) -> Sequence[str]:
        return ["status", "version"]

    def read(self, name: str) -> bytes:
        self.count += 1
        return f"{name} {self.count}".encode()


def test_a_mount_adds_files_to_the_status_folder(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(1), 0)
    source = open_source(str(log.log_dir))
    tree = Tree(source, status=Status())
    assert names_in(tree.resolve(".kafkafs")) == ["version", "problems", "status"]
    node = tree.resolve(".kafkafs/status")
    assert node.attrs().size == len("status 1")
    assert node.attrs().ttl == 0.0
    assert content_of(node) == b"status 3"
    assert content_of(tree.resolve(".kafkafs/version")).startswith(b"version")
    source.close()


def test_modes_are_the_sources_without_write(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    path = log.segment(batches_of(1), 0)
    path.chmod(0o640)
    log.folder.chmod(0o750)
    with tree_over(log.log_dir) as tree:
        assert tree.resolve("orders-0").attrs().mode == 0o550
        assert tree.resolve("orders-0/offset/3").attrs().mode == 0o440
        assert tree.resolve(f"orders-0/segments/{0:020}.log").attrs().mode == 0o440
        assert tree.resolve(f"orders-0/records/{0:020}.jsonl").attrs().mode == 0o440
    path.chmod(0o600)
    with tree_over(log.log_dir) as tree:
        assert tree.resolve("orders-0/offset").attrs().mode == 0o550
        assert tree.resolve("orders-0/offset/3").attrs().mode == 0o400


def test_a_look_at_the_root_opens_no_partition(tmp_path: Path) -> None:
    for number in range(20):
        BuiltLog(tmp_path / "data", f"t-{number}").segment(batches_of(1), 0)
    with tree_over(tmp_path / "data") as tree:
        for entry in tree.root().entries():
            node = tree.root().lookup(entry.name)
            node.attrs()
            if entry.name.startswith("t-"):
                assert isinstance(node, Directory)
                assert names_in(node)
                assert node.lookup("offset")
                assert node.slow
        logs = tree.source.partitions().values()
        assert not any(log.is_loaded for log in logs)
        folder = tree.resolve("t-3/offset")
        assert sum(log.is_loaded for log in logs) == 0
        assert isinstance(folder, Directory)
        folder.lookup("3")
        assert not folder.slow
        assert sum(log.is_loaded for log in logs) == 1
