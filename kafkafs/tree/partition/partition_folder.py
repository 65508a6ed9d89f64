"""`orders-0/`: the folder of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import fixed_entries
from kafkafs.tree.node import Directory, Entry, Kind, Node
from kafkafs.tree.partition.by_offset import OffsetFolder
from kafkafs.tree.partition.by_segment import DecodedFolder
from kafkafs.tree.partition.by_time import TimeFolder
from kafkafs.tree.partition.partition import Partition, PartitionNode
from kafkafs.tree.partition.partition_state import StateFolder, view_xattrs
from kafkafs.tree.partition.source_folder import SourceFolder

_FOLDERS: dict[str, Callable[[str, Partition], Directory]] = {
    "offset": OffsetFolder,
    "time": TimeFolder,
    "records": lambda path, partition: DecodedFolder(path, partition, committed=False),
    "committed": lambda path, partition: DecodedFolder(path, partition, committed=True),
    "segments": SourceFolder,
    "state": StateFolder,
}


class PartitionFolder(PartitionNode):
    """Folder of one partition."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        make = _FOLDERS.get(name)
        if make is None:
            raise NotFound(self.child(name))
        return make(self.child(name), self.partition)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return fixed_entries(self, [(name, Kind.DIRECTORY) for name in _FOLDERS], after)

    def xattrs(self) -> dict[str, bytes]:
        return view_xattrs(self.partition)
