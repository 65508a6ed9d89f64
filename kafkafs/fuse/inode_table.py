"""The inodes that the kernel knows, with the nodes behind them.

An inode number is a function of its path, so nothing here has to survive a remount; the table holds what
the kernel may ask about by number alone. Every answer to a look-up adds one to the number's count, a
`forget` takes away, at 0 the record goes. The kernel forgets only when it needs the memory: past a limit we
ask it to (`oldest_files`), so that reading ten million records one by one costs no gigabytes here.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kafkafs.tree.node import ROOT_INODE, Content, Directory, Node


MAX_INODE = 2**63 - 1


class InodeRecord:
    """What is known of an inode.

    Attributes:
        node: the newest node of its path.
        inode, parent: its number and its folder's.
        lookups: how many times the kernel was told of it and has not forgotten.
        identity: of the content last opened; None before the first open.
        told_size: the size in the last attributes the kernel got; -1 for none.
        contents: those that are open.
    """

    __slots__ = ("contents", "identity", "inode", "lookups", "node", "parent", "told_size")

    def __init__(self, node: Node, inode: int, parent: int) -> None:
        self.node = node
        self.inode = inode
        self.parent = parent
        self.lookups = 0
        self.identity: int | None = None
        self.told_size = -1
        self.contents: list[Content] = []


class InodeTable:
    """Records by inode number; the root is always there. Used from one thread only."""

    def __init__(self, root: Directory) -> None:
        self._root = InodeRecord(root, ROOT_INODE, ROOT_INODE)
        self._records: dict[int, InodeRecord] = {ROOT_INODE: self._root}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, inode: int) -> InodeRecord | None:
        """The record, None if the kernel should not know this number."""
        return self._records.get(inode)

    def remember(self, node: Node, inode: int, parent: int) -> InodeRecord:
        """Record a node that the kernel is told of; counts one look-up.

        Two paths of one hash are kept apart: the second gets the next free number.
        """
        records = self._records
        record = records.get(inode)
        while record is not None and record.node.path != node.path:
            inode = inode + 1 if inode < MAX_INODE else ROOT_INODE + 1
            record = records.get(inode)
        if record is None:
            record = records[inode] = InodeRecord(node, inode, parent)
        elif record is not self._root:
            record.node = node
        record.lookups += 1
        return record

    def forget(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Take away look-ups: pairs (inode, count)."""
        records = self._records
        for inode, count in pairs:
            record = records.get(inode)
            if record is None or record is self._root:
                continue
            record.lookups -= count
            if record.lookups <= 0:
                del records[inode]

    def oldest_files(self, count: int) -> list[tuple[int, bytes]]:
        """(folder's inode, name) of up to `count` records that may be dropped, the oldest first.

        Folders stay: a process may be inside. Looks at 4 × count records at most; what it looked at is
        young again, so that the next call goes on behind.
        """
        found: list[tuple[int, bytes]] = []
        records = self._records
        for record in list(islice(records.values(), 4 * count)):
            if len(found) == count:
                break
            records[record.inode] = records.pop(record.inode)
            if isinstance(record.node, Directory) or record.contents:
                continue
            name = record.node.path.rpartition("/")[2]
            found.append((record.parent, name.encode("utf-8", "surrogateescape")))
        return found
