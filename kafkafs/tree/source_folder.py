"""`segments/`: the partition's own files, byte for byte."""

from __future__ import annotations

import stat as st
from collections.abc import Iterator

from engine.errors import SourceRefusedError
from engine.log.partition_log import LogView
from engine.source_files import EntryKind
from kafkafs.tree.content import FileContent
from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import (
    MAX_MTIME_NS,
    Attrs,
    Cancel,
    Content,
    Entry,
    File,
    Kind,
    Node,
    inode_number,
)
from kafkafs.tree.partition import Partition, PartitionNode


class SourceFolder(PartitionNode):
    """`segments/`: regular files only; what else the folder holds is told in state/leftovers.json."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise NotFound(self.child(name))
        file = SourceFileNode(self.child(name), self.partition, name)
        file.attrs()
        return file

    def entries(self, after: int = 0) -> Iterator[Entry]:
        files = self.partition.view().files
        names = sorted(file.name for file in files if file.kind is EntryKind.FILE)
        return self.partition.slots.entries(self, [(name, Kind.FILE) for name in names], after)


class SourceFileNode(File):
    """A file of the source. The active .log of a live log ends with its last whole batch."""

    __slots__ = ("_name", "partition")

    def __init__(self, path: str, partition: Partition, name: str) -> None:
        super().__init__(path)
        self.partition = partition
        self._name = name

    def attrs(self) -> Attrs:
        partition = self.partition
        view = partition.view()
        try:
            status = partition.root.stat(partition.source_path(self._name))
        except (FileNotFoundError, SourceRefusedError, ValueError):
            raise NotFound(self.path) from None
        if not st.S_ISREG(status.st_mode):
            raise NotFound(self.path, "not a regular file")
        size = self._shown_size(view, status.st_size)
        mtime = min(max(status.st_mtime_ns, 0), MAX_MTIME_NS)
        return Attrs(
            Kind.FILE, status.st_mode & 0o444, size, mtime, inode_number(self.path), 1,
            status.st_uid, status.st_gid, True, partition.ttl(view),
        )  # fmt: skip

    def open(self, cancel: Cancel | None = None) -> Content:
        partition = self.partition
        view = partition.view()
        try:
            file = partition.root.open(partition.source_path(self._name), fresh=True)
        except (FileNotFoundError, SourceRefusedError, ValueError):
            raise NotFound(self.path) from None
        return FileContent(file, 0, self._shown_size(view, file.size()))

    def _shown_size(self, view: LogView, size: int) -> int:
        active = view.segments.last
        if view.live and active is not None and active.name == self._name:
            return min(view.end_position, size)
        return size
