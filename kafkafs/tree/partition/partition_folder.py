"""`orders-0/`: the folder of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import FIRST_COOKIE, entry, fixed_entries
from kafkafs.tree.node import Directory, Entry, Kind, Node
from kafkafs.tree.partition.by_key import KeyFolder, why_compacted
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
_KEY = "key"


class PartitionFolder(PartitionNode):
    """Folder of one partition. Has `key/` if the topic is known to be compacted."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        make = _FOLDERS.get(name)
        if name == _KEY and why_compacted(self.partition) is not None:
            make = KeyFolder
        if make is None:
            raise NotFound(self.child(name))
        return make(self.child(name), self.partition)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        # A generator: whether the topic is compacted is looked up in the thread that asks for the last entry.
        yield from fixed_entries(self, [(name, Kind.DIRECTORY) for name in _FOLDERS], after)
        if after < FIRST_COOKIE + len(_FOLDERS) and why_compacted(self.partition) is not None:
            yield entry(self, _KEY, Kind.DIRECTORY, FIRST_COOKIE + len(_FOLDERS))

    def xattrs(self) -> dict[str, bytes]:
        return view_xattrs(self.partition)
