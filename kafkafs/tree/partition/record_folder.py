"""Base class of the folders with records of a partition: their time is that of the newest record."""

from __future__ import annotations

from engine.errors import KafkaStorageError
from engine.log.view.log_view import LogView
from engine.units import NO_TIMESTAMP, Timestamp
from kafkafs.tree.lookups import first_on_disk
from kafkafs.tree.node import Attrs, mtime_of
from kafkafs.tree.partition.largest_timestamp import newest_timestamp
from kafkafs.tree.partition.partition import PartitionNode, retried


class RecordFolder(PartitionNode):
    """`offset/`, `time/`, `records/`, `committed/`, or a period.

    Without a record with a timestamp the time is that of the source's folder.
    """

    __slots__ = ()

    @retried
    def attrs(self) -> Attrs:
        attrs = super().attrs()
        try:
            timestamp = self._newest(self.partition.view())
        except KafkaStorageError:
            return attrs
        return attrs if timestamp == NO_TIMESTAMP else attrs._replace(mtime_ns=mtime_of(timestamp))

    def _newest(self, view: LogView) -> Timestamp:
        """Return the newest timestamp in the folder; NO_TIMESTAMP without one."""
        known = self.partition.newest
        if known is None or known[0] is not view:
            newest = newest_timestamp(view, first_on_disk(view), view.log_end_offset)
            self.partition.newest = known = view, newest
        return known[1]
