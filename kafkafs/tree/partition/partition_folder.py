"""`orders-0/`: the folder of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkafs.tree.errors import BYTES, NAMES, NotFound
from kafkafs.tree.listing import FIRST_COOKIE, entry, fixed_entries
from kafkafs.tree.node import Directory, Entry, Kind, Node
from kafkafs.tree.partition.by_key import KeyFolder, why_compacted
from kafkafs.tree.partition.by_offset import OffsetFolder
from kafkafs.tree.partition.by_segment import DecodedFolder
from kafkafs.tree.partition.by_time import TimeFolder
from kafkafs.tree.partition.partition import Partition, PartitionNode
from kafkafs.tree.partition.partition_state import StateFolder, view_xattrs
from kafkafs.tree.partition.source_folder import SourceFolder

_KEY = "key"
_SEGMENTS = "segments"
_FOLDERS: dict[str, Callable[[str, Partition], Directory]] = {
    "offset": OffsetFolder,
    "time": TimeFolder,
    "records": lambda path, partition: DecodedFolder(path, partition, committed=False),
    "committed": lambda path, partition: DecodedFolder(path, partition, committed=True),
    _SEGMENTS: SourceFolder,
    "state": StateFolder,
}


class PartitionFolder(PartitionNode):
    """Folder of one partition. Has `key/` if the topic is known to be compacted."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        if name == _SEGMENTS:
            self.partition.refuse_masked(self.child(name), BYTES)
        if name == _KEY:
            self.partition.refuse_masked(self.child(name), NAMES)
        make = _FOLDERS.get(name)
        if name == _KEY and why_compacted(self.partition) is not None:
            make = KeyFolder
        if make is None:
            raise NotFound(self.child(name))
        return make(self.child(name), self.partition)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        # A generator: whether the topic is compacted is looked up in the thread that asks for the last entry.
        if self.partition.mask is not None:
            names = [name for name in _FOLDERS if name != _SEGMENTS]
            yield from fixed_entries(self, [(name, Kind.DIRECTORY) for name in names], after)
            return
        yield from fixed_entries(self, [(name, Kind.DIRECTORY) for name in _FOLDERS], after)
        if after < FIRST_COOKIE + len(_FOLDERS) and why_compacted(self.partition) is not None:
            yield entry(self, _KEY, Kind.DIRECTORY, FIRST_COOKIE + len(_FOLDERS))

    def xattrs(self) -> dict[str, bytes]:
        return view_xattrs(self.partition)
