"""The inodes that the kernel knows, by number.

An inode number is a function of its path, so the table need not survive a remount; it holds what the kernel may
refer to by number alone. Each answer to a look-up increments the inode's count, `forget` decrements it; at 0 the
record is removed. The kernel forgets inodes only when it needs memory, so above a limit the daemon asks it to
(`oldest`). Otherwise reading ten million records one by one would cost gigabytes here.

A file's node may hold the batch of its bytes. So only the last few files keep their node; the others are looked up
again by name when the kernel asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from kafkafs.tree.errors import NotADirectory
from kafkafs.tree.node import ROOT_INODE, Attrs, Content, Directory, Node

MAX_INODE = 2**63 - 1
NO_SIZE = -1
FILE_NODES = 64
"""Number of files that keep their node between two requests."""


class InodeRecord:
    """State of an inode.

    Attributes:
        path, inode, parent: its path, its number, and the number of its folder.
        node: the newest node of its path; None if dropped.
        lookups: number of look-ups that the kernel has not forgotten.
        identity: identity of the last opened content; None before the first open.
        attrs: last attributes of the node; kept while the file is open, also after it was deleted.
        sent_size: size in the attributes sent to the kernel since its copy was last invalidated; None if several
            sizes were sent, because the kernel may apply two answers in either order.
        contents: the open contents.
        is_replaced: whether the path has another file now, and this inode is only for those who have it open.
    """

    __slots__ = (
        "attrs",
        "contents",
        "identity",
        "inode",
        "is_replaced",
        "lookups",
        "node",
        "parent",
        "path",
        "sent_size",
    )

    def __init__(self, path: str, inode: int, parent: int) -> None:
        self.path = path
        self.inode = inode
        self.parent = parent
        self.node: Node | None = None
        self.lookups = 0
        self.identity: int | None = None
        self.attrs: Attrs | None = None
        self.sent_size: int | None = NO_SIZE
        self.contents: tuple[Content, ...] = ()
        self.is_replaced = False

    def size(self, attrs: Attrs) -> int:
        """Return the size to send with attributes of the path.

        The kernel cuts a reader of its page cache at this size, so it is at least that of each open content: a
        shorter file may have replaced the one that they read.
        """
        if not self.contents:
            return attrs.size
        longest = max(content.size for content in self.contents)
        return longest if self.is_replaced or not attrs.exact else max(attrs.size, longest)

    @property
    def is_folder(self) -> bool:
        """Whether the node is a folder. Folders always keep their node."""
        return isinstance(self.node, Directory)


class InodeTable:
    """Inode records by number; the root is always present. Not thread-safe.

    Attributes:
        get: returns the record of an inode number; None for a number that the kernel should not know.
    """

    def __init__(self, root: Directory) -> None:
        self._root = InodeRecord("", ROOT_INODE, ROOT_INODE)
        self._root.node = root
        self._records: dict[int, InodeRecord] = {ROOT_INODE: self._root}
        self.get = self._records.get
        self._with_node: dict[int, InodeRecord] = {}

    def __len__(self) -> int:
        return len(self._records)

    def remember(self, path: str, inode: int, parent: int, node: Node | None) -> InodeRecord:
        """Add a path that is sent to the kernel, and count one look-up.

        If two paths have the same hash, the second one gets the next free number; so does a file in place of one that
        is open.
        """
        records = self._records
        record = records.get(inode)
        while record is not None and (record.path != path or record.is_replaced):
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
        """Return the record's node; look it up again if it was dropped.

        Raises the errors of the look-up: NotFound if the path no longer exists.
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
        """Look up a path from the root, for a file in a folder that the kernel has forgotten."""
        node = self._root.node
        for name in path.split("/"):
            if not isinstance(node, Directory):
                raise NotADirectory(path)
            node = node.lookup(name)
        assert node is not None
        return node

    def forget(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Subtract look-ups: pairs (inode, count)."""
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
        """Return up to `count` records that may be dropped, oldest first. No open files, no folders unless `folders`.

        Examines at most 4 × count records, and moves them to the end, so that the next call continues after them.
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
