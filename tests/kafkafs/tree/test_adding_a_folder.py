"""The recipe of kafkafs/README.md: a folder in a partition is a node and a row of a table."""

from collections.abc import Iterator

import pytest

from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import fixed_entries
from kafkafs.tree.node import Entry, Kind, Node
from kafkafs.tree.partition import partition_folder
from kafkafs.tree.partition.partition import PartitionNode
from kafkafs.tree.plain_files import PlainLink
from tests.fixtures_data import log_dir
from tests.kafkafs.built_logs import names_in, tree_over


class EndsFolder(PartitionNode):
    """`ends/`: a link to the first record, and one to the last."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        if name not in ("earliest", "latest"):
            raise NotFound(self.child(name))
        owner = self.partition.owner
        return PlainLink(self.child(name), f"../offset/{name}", owner, mtime_ns=0, ttl=1.0)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return fixed_entries(self, [("earliest", Kind.LINK), ("latest", Kind.LINK)], after)


def test_a_folder_is_a_node_and_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(partition_folder._FOLDERS, "ends", EndsFolder)
    with tree_over(log_dir("current")) as tree:
        assert "ends" in names_in(tree.resolve("orders-0"))
        assert names_in(tree.resolve("orders-0/ends")) == ["earliest", "latest"]
        assert tree.follow(tree.resolve("orders-0/ends/latest")).path.startswith("orders-0/offset/")
        with pytest.raises(NotFound):
            tree.resolve("orders-0/ends/middle")
