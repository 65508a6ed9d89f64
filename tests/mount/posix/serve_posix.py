"""A daemon over a log dir with the tree of the system calls beside it: python serve_posix.py SOURCE MOUNTPOINT."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from kafkafs.mount import daemon
from kafkafs.mount.log_tree import LogTree
from kafkafs.mount.mounting import MountOptions, parse_options
from kafkafs.mount.status import DaemonStatus
from kafkafs.tree.content import BytesContent
from kafkafs.tree.node import Attrs, Cancel, Content, Directory, Entry, File, Kind, Node
from tests.mount.fake_tree import Bytes, FakeLink, Folder, attrs_of
from tests.mount.posix.posix_tree import BESIDE, TREE, Branch, Item, Leaf, Link


class Padded(Content):
    """Zeros, and bytes at their end."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.identity = hash(leaf.data)

    @property
    def size(self) -> int:
        return max(self.leaf.size, len(self.leaf.data))

    def read_now(self, position: int, size: int) -> bytes:
        end = min(position + size, self.size)
        zeros = self.size - len(self.leaf.data)
        before = bytes(max(min(end, zeros) - position, 0))
        return before + self.leaf.data[max(position - zeros, 0) : max(end - zeros, 0)]

    read = read_now


class LeafNode(File):
    """A file of the description."""

    __slots__ = ("leaf",)

    def __init__(self, path: str, leaf: Leaf) -> None:
        super().__init__(path)
        self.leaf = leaf

    def attrs(self) -> Attrs:
        attrs = attrs_of(self, Kind.FILE, Padded(self.leaf).size)
        owner, mtime = self.leaf.owner, self.leaf.mtime_ns
        return attrs._replace(mode=self.leaf.mode, uid=owner, gid=owner, mtime_ns=mtime)

    def xattrs(self) -> dict[str, bytes]:
        return dict(self.leaf.xattrs)

    def open(self, cancel: Cancel | None = None) -> Content:
        return Padded(self.leaf) if self.leaf.size else BytesContent(self.leaf.data)


class BranchNode(Folder):
    """A folder of the description."""

    __slots__ = ("branch",)

    def __init__(self, path: str, branch: Branch) -> None:
        super().__init__(
            path, [node_of(f"{path}/{name}", each) for name, each in branch.children.items()]
        )
        self.branch = branch

    def attrs(self) -> Attrs:
        owner = self.branch.owner
        return super().attrs()._replace(mode=self.branch.mode, uid=owner, gid=owner)


class Arriving(Folder):
    """A folder that has another file after each look-up of `more`."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        if name == "more":
            arrived = f"arrived-{len(self.children)}"
            self.children[arrived] = Bytes(self.child(arrived), b"x")
        return super().lookup(name)


def node_of(path: str, item: Item) -> Node:
    if isinstance(item, Link):
        return FakeLink(path, item.target)
    return BranchNode(path, item) if isinstance(item, Branch) else LeafNode(path, item)


class Beside(Directory):
    """A root with one folder more."""

    __slots__ = ("beside", "root")

    def __init__(self, root: Directory, beside: Directory) -> None:
        super().__init__("")
        self.root = root
        self.beside = beside

    @property
    def slow(self) -> bool:
        return self.root.slow

    def attrs(self) -> Attrs:
        return self.root.attrs()

    def lookup(self, name: str) -> Node:
        return self.beside if name == BESIDE else self.root.lookup(name)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return self.root.entries(after)


class LogsAndBeside(LogTree):
    """The tree of a log dir with a folder beside the partitions."""

    def root(self) -> Directory:
        beside = BranchNode(BESIDE, TREE)
        beside.children["arriving"] = Arriving(
            f"{BESIDE}/arriving", [Bytes(f"{BESIDE}/arriving/first", b"x")]
        )
        return Beside(super().root(), beside)


def opener(paths: Sequence[str], options: MountOptions, status: DaemonStatus) -> LogsAndBeside:
    return LogsAndBeside(paths, options, status)


if __name__ == "__main__":
    source, mountpoint = sys.argv[1:]
    sys.exit(daemon.run([source], mountpoint, parse_options("foreground"), opener=opener))
