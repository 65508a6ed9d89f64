"""The inodes that the kernel knows, by number.

An inode number is a function of its path, so nothing here has to survive a remount; the table holds what
the kernel may ask about by number alone. Every answer to a look-up adds one to the number's count, a
`forget` takes away, at 0 the record goes. The kernel forgets only when it needs the memory: past a limit we
ask it to (`oldest`), so that reading ten million records one by one costs no gigabytes here.

A file's node may hold the batch that its bytes come from. So only the last few files keep theirs; others
are looked up again by name when the kernel comes back to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kafkafs.tree.errors import NotADirectory
from kafkafs.tree.node import ROOT_INODE, Attrs, Content, Directory, Node

MAX_INODE = 2**63 - 1
NOTHING_TOLD = -1
FILE_NODES = 64
"""How many files keep their node between two requests."""


class InodeRecord:
    """What is known of an inode.

    Attributes:
        path, inode, parent: its path, its number and its folder's.
        node: the newest node of its path; None where it was let go.
        lookups: how many times the kernel was told of it and has not forgotten.
        identity: of the content last opened; None before the first open.
        attrs: the last that the node gave, kept with it and while it is open: a deleted file still has them.
        told_size: the size in the attributes the kernel got since its copy was last invalidated; None for
            different ones: which of two answers it takes last is not ours to know.
        contents: those that are open.
    """

    __slots__ = (
        "attrs", "contents", "identity", "inode", "lookups", "node", "parent", "path", "told_size",
    )  # fmt: skip

    def __init__(self, path: str, inode: int, parent: int) -> None:
        self.path = path
        self.inode = inode
        self.parent = parent
        self.node: Node | None = None
        self.lookups = 0
        self.identity: int | None = None
        self.attrs: Attrs | None = None
        self.told_size: int | None = NOTHING_TOLD
        self.contents: tuple[Content, ...] = ()

    @property
    def is_folder(self) -> bool:
        """Folders always keep their node."""
        return isinstance(self.node, Directory)


class InodeTable:
    """Records by inode number; the root is always there. Used from one thread only."""

    def __init__(self, root: Directory) -> None:
        self._root = InodeRecord("", ROOT_INODE, ROOT_INODE)
        self._root.node = root
        self._records: dict[int, InodeRecord] = {ROOT_INODE: self._root}
        self._with_node: dict[int, InodeRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    def get(self, inode: int) -> InodeRecord | None:
        """The record, None if the kernel should not know this number."""
        return self._records.get(inode)

    def remember(self, path: str, inode: int, parent: int, node: Node | None) -> InodeRecord:
        """Record a path that the kernel is told of; counts one look-up.

        Two paths of one hash are kept apart: the second gets the next free number.
        """
        records = self._records
        record = records.get(inode)
        while record is not None and record.path != path:
            inode = inode + 1 if inode < MAX_INODE else ROOT_INODE + 1
            record = records.get(inode)
        if record is None:
            record = records[inode] = InodeRecord(path, inode, parent)
        record.lookups += 1
        if node is not None and record is not self._root:
            self._keep(record, node)
        return record

    def _keep(self, record: InodeRecord, node: Node) -> None:
        record.node = node
        if isinstance(node, Directory):
            return
        kept = self._with_node
        kept[record.inode] = record
        if len(kept) > FILE_NODES:
            oldest = kept.pop(next(iter(kept)))
            oldest.node = None
            if not oldest.contents:
                oldest.attrs = None

    def node(self, record: InodeRecord) -> Node:
        """The record's node, looked up again where it was let go.

        Raises what the look-up raises: NotFound when it has gone.
        """
        node = record.node
        if node is None:
            parent = self._records.get(record.parent)
            name = record.path.rpartition("/")[2]
            if parent is not None and isinstance(parent.node, Directory):
                node = parent.node.lookup(name)
            else:
                node = self._walk(record.path)
            self._keep(record, node)
        return node

    def _walk(self, path: str) -> Node:
        """A path from the root; for a file handle whose folder the kernel has forgotten."""
        node = self._root.node
        for name in path.split("/"):
            if not isinstance(node, Directory):
                raise NotADirectory(path)
            node = node.lookup(name)
        assert node is not None
        return node

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
                self._with_node.pop(inode, None)

    def oldest(self, count: int, *, folders: bool) -> list[InodeRecord]:
        """Up to `count` records that may be dropped, the oldest first; open files never, folders if asked.

        Looks at 4 × count records at most; what it looked at is young again, so that the next call goes
        on behind.
        """
        found: list[InodeRecord] = []
        records = self._records
        for record in list(islice(records.values(), 4 * count)):
            if len(found) == count:
                break
            records[record.inode] = records.pop(record.inode)
            is_root = record is self._root
            if not (is_root or record.contents or (record.is_folder and not folders)):
                found.append(record)
        return found
