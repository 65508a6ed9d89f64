"""Look-up counts, collisions, and what is let go."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kafkafs.fuse import inode_table
from kafkafs.fuse.inode_table import InodeRecord, InodeTable
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import ROOT_INODE, Directory, Node
from tests.mount.fake_tree import Bytes, Folder, Numbers


def table_over(*nodes: Node) -> tuple[InodeTable, Directory]:
    root = Folder("", list(nodes))
    return InodeTable(root), root


def test_the_root_is_there_and_stays() -> None:
    table, root = table_over()
    table.forget([(ROOT_INODE, 1000)])
    record = table.get(ROOT_INODE)
    assert record is not None
    assert table.node(record) is root


def test_a_record_goes_with_its_last_look_up() -> None:
    table, _ = table_over()
    node = Bytes("a", b"")
    for _ in range(3):
        table.remember("a", 10, ROOT_INODE, node)
    table.forget([(10, 2)])
    assert table.get(10) is not None
    table.forget([(10, 1)])
    assert table.get(10) is None
    table.forget([(10, 1)])  # a kernel that forgets too much does no harm


def test_two_paths_of_one_number_are_kept_apart() -> None:
    table, _ = table_over()
    first = table.remember("a", 10, ROOT_INODE, None)
    second = table.remember("b", 10, ROOT_INODE, None)
    assert (first.inode, second.inode) == (10, 11)
    assert table.remember("b", 10, ROOT_INODE, None) is second
    last = table.remember("c", inode_table.MAX_INODE, ROOT_INODE, None)
    wrapped = table.remember("d", inode_table.MAX_INODE, ROOT_INODE, None)
    assert last.inode == inode_table.MAX_INODE
    assert wrapped.inode == ROOT_INODE + 1


def test_a_path_of_the_roots_number_is_not_the_root() -> None:
    table, root = table_over()
    record = table.remember("a", ROOT_INODE, ROOT_INODE, Bytes("a", b""))
    assert record.inode != ROOT_INODE
    assert table.node(table.get(ROOT_INODE)) is root  # type: ignore[arg-type]


def test_old_file_nodes_are_let_go_and_looked_up_again() -> None:
    numbers = Numbers("numbers", 1000)
    table, _ = table_over(numbers)
    folder = table.remember("numbers", 5, ROOT_INODE, numbers)
    records = [
        table.remember(f"numbers/{n}", 1000 + n, 5, numbers.lookup(str(n))) for n in range(500)
    ]
    assert sum(record.node is not None for record in records) == inode_table.FILE_NODES
    assert folder.node is numbers
    assert records[0].node is None
    assert table.node(records[0]).path == "numbers/0"
    assert sum(record.node is not None for record in records) == inode_table.FILE_NODES


def test_a_node_whose_folder_was_forgotten_is_found_by_its_path() -> None:
    numbers = Numbers("numbers", 10)
    table, _ = table_over(numbers)
    record = table.remember("numbers/7", 77, 5, None)
    assert table.node(record).path == "numbers/7"


def test_a_node_that_has_gone_is_not_found() -> None:
    table, _ = table_over(Numbers("numbers", 10))
    with pytest.raises(NotFound):
        table.node(table.remember("numbers/70", 77, 5, None))


def names(records: list[InodeRecord]) -> list[str]:
    return [record.path for record in records]


def test_the_oldest_come_first_and_open_files_never() -> None:
    table, _ = table_over()
    table.remember("folder", 2, ROOT_INODE, Folder("folder", []))
    for number in range(10, 20):
        table.remember(f"{number}", number, 2, None)
    opened = table.get(12)
    assert opened is not None
    opened.contents = (Bytes("x", b"").open(),)
    assert names(table.oldest(3, folders=False)) == ["10", "11", "13"]
    assert names(table.oldest(3, folders=False)) == ["14", "15", "16"]
    assert names(table.oldest(3, folders=True)) == ["17", "18", "19"]
    assert names(table.oldest(1, folders=True)) == ["folder"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(1, 3))))
def test_counts_agree_with_a_model(steps: list[tuple[bool, int, int]]) -> None:
    table, _ = table_over()
    model: dict[int, int] = {}
    for adds, name, count in steps:
        inode = 100 + name
        if adds:
            for _ in range(count):
                table.remember(str(name), inode, ROOT_INODE, Bytes(str(name), b""))
            model[inode] = model.get(inode, 0) + count
        else:
            table.forget([(inode, count)])
            model[inode] = model.get(inode, 0) - count
            if model[inode] <= 0:
                del model[inode]
        assert len(table) == len(model) + 1
        for known, lookups in model.items():
            record = table.get(known)
            assert record is not None
            assert record.lookups == lookups
