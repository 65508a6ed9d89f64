"""`/time/<period>/`: all logs cut to a period, as a log dir that a broker can load.

`/time/` lists nothing: otherwise a tool that walks the mount would read everything twice. A period has a folder for
each partition with records in it. The metadata log of a KRaft cluster is left out, because a broker cannot start
in the middle of it. Groups, transactions and the cluster as of the period's end can be looked up but are not listed,
because the listing is copied as a log dir.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from engine.errors import KafkaStorageError
from engine.topics.topic_names import CLUSTER_METADATA
from kafkafs.tree.context import Context
from kafkafs.tree.errors import BYTES, NotFound
from kafkafs.tree.listing import entry
from kafkafs.tree.node import Attrs, Directory, Entry, Kind, Node
from kafkafs.tree.partition.log_slices import SliceFolder
from kafkafs.tree.partition.partition import Partition
from kafkafs.tree.path_names import Period, parse_period
from kafkafs.tree.root.internal_state import as_of, state_folder


class PartitionsByName(Protocol):
    """Protocol: the partitions of the tree."""

    def behind(self, cookie: int) -> Iterator[tuple[int, str]]:
        """Yield cookies and names after a cookie."""

    def find(self, name: str) -> Partition | None:
        """Return the partition of a name."""


class RootTimeFolder(Directory):
    """`/time/`: any period can be looked up."""

    __slots__ = ("_context", "_partitions")

    def __init__(self, path: str, context: Context, partitions: PartitionsByName) -> None:
        super().__init__(path)
        self._context = context
        self._partitions = partitions

    def attrs(self) -> Attrs:
        context = self._context
        return context.root_owner().directory(self.path, context.ttl(context.is_live))

    def lookup(self, name: str) -> Node:
        period = parse_period(name)
        if period is None:
            raise NotFound(self.child(name), "not a period such as 2024-01-01 or A..B")
        return RootPeriodFolder(self.child(name), self._context, self._partitions, period)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        return iter(())


class RootPeriodFolder(Directory):
    """`/time/<period>/`: a log dir cut to the period."""

    __slots__ = ("_context", "_partitions", "_period")

    def __init__(
        self, path: str, context: Context, partitions: PartitionsByName, period: Period
    ) -> None:
        super().__init__(path)
        self._context = context
        self._partitions = partitions
        self._period = period

    def attrs(self) -> Attrs:
        context = self._context
        return context.root_owner().directory(self.path, context.ttl(context.is_live))

    @property
    def slow(self) -> bool:
        return True

    def lookup(self, name: str) -> Node:
        folder = self._folder(name)
        if folder is None:
            state = state_folder(self.child(name), self._context, name, as_of(self._period))
            if state is not None:
                return state
            raise NotFound(self.child(name), "no records in this period")
        return folder

    def entries(self, after: int = 0) -> Iterator[Entry]:
        for slot, name in self._partitions.behind(after):
            partition = self._partitions.find(name)
            if partition is not None and partition.mask is not None:
                continue
            if self._folder(name) is not None:
                yield entry(self, name, Kind.DIRECTORY, slot)

    def _folder(self, name: str) -> SliceFolder | None:
        partition = self._partitions.find(name)
        if partition is None or name != str(partition.log.topic_partition):
            return None  # missing, being deleted, or a second copy
        if partition.log.topic_partition.topic == CLUSTER_METADATA:
            return None
        partition.refuse_masked(self.child(name), BYTES)
        folder = SliceFolder(self.child(name), partition, self._period)
        try:
            return None if folder.is_empty else folder
        except (KafkaStorageError, OSError):
            return folder  # reading the folder raises the error
