"""`time/` of a partition: instants are links to records, periods are folders."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import KafkaStorageError
from engine.log.log_view import LogView
from engine.units import MAX_INT64
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import entry, fixed_entries
from kafkafs.tree.lookups import offsets_of_period
from kafkafs.tree.node import Entry, Kind, Node
from kafkafs.tree.partition.exact_lines import ExactFile
from kafkafs.tree.partition.landmarks import AFTER_LINKS, LINKS, link_entries, offset_link
from kafkafs.tree.partition.line_files import LineFile
from kafkafs.tree.partition.log_slices import SliceFolder
from kafkafs.tree.partition.partition import Partition, PartitionNode, retried
from kafkafs.tree.path_names import Period, day_name, parse_instant, parse_period
from kafkafs.tree.streams import LineSource

DAY_MS = 24 * 60 * 60 * 1000
MOST_LOOKS = 10


class TimeFolder(PartitionNode):
    """`time/`. Lists the first and the last record, and the days with records."""

    __slots__ = ()

    @property
    def slow(self) -> bool:
        return True

    @retried
    def lookup(self, name: str) -> Node:
        partition = self.partition
        view = partition.view()
        path = self.child(name)
        if name in LINKS:
            return offset_link(path, partition, view, LINKS[name](partition, view), "../offset/")
        instant = parse_instant(name)
        if instant is not None:
            found = view.offset_for_time(instant)
            if found is None:
                raise NotFound(path, "no record at or after this time")
            return offset_link(path, partition, view, found.offset, "../offset/")
        period = parse_period(name)
        if period is None:
            raise NotFound(path)
        return PeriodFolder(path, partition, period)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        partition = self.partition
        view = partition.view()
        yield from link_entries(self, partition, view, after)
        for day in days_with_records(partition, max(after - AFTER_LINKS + 1, 0)):
            day_of = day_name(day * DAY_MS)
            if day_of is None:
                return
            yield entry(self, day_of, Kind.DIRECTORY, day + AFTER_LINKS)


def days_with_records(partition: Partition, first_day: int) -> Iterator[int]:
    """Yield the days since 1970, from `first_day`, that have records in their period.

    The first record at or after a day's start is also the first one of all days up to its own, so the days between
    are empty, and one look-up leads to the next day. Days before 1970 are not searched.
    """
    day = first_day
    view, looks = partition.view(), 0
    while True:
        try:
            found = view.offset_for_time(day * DAY_MS, records_only=True)
        except FileNotFoundError:  # the oldest segment was deleted in the meantime
            looks += 1
            if looks > MOST_LOOKS:
                return
            view = partition.view_again()
            continue
        except KafkaStorageError:
            return
        if found is None:
            return
        day = found.timestamp // DAY_MS
        yield day
        day += 1


class PeriodFolder(PartitionNode):
    """`time/<period>/`: the records of a period as lines, and their batches as a broker has them on disk.

    exact.jsonl can be looked up but is not listed, so that a walk reads each record once.
    """

    __slots__ = ("_period",)

    def __init__(self, path: str, partition: Partition, period: Period) -> None:
        super().__init__(path, partition)
        self._period = period

    @property
    def slow(self) -> bool:
        return True

    def lookup(self, name: str) -> Node:
        path = self.child(name)
        if name == "log":
            return SliceFolder(path, self.partition, self._period)
        if name == "exact.jsonl":
            return ExactFile(path, self.partition, self._period)
        if name != "records.jsonl":
            raise NotFound(path)
        return LineFile(path, self.partition, self._lines)

    def entries(self, after: int = 0) -> Iterator[Entry]:
        names = [("records.jsonl", Kind.FILE), ("log", Kind.DIRECTORY)]
        return fixed_entries(self, names, after)

    def _lines(self, view: LogView) -> LineSource:
        start, end = offsets_of_period(view, self._period)
        # The file follows the log as long as no record is after the period.
        ends = self._period.end_ms
        is_open = ends is None or (
            end == view.log_end_offset and view.offset_for_time(ends, records_only=True) is None
        )
        return LineSource(self.partition.name, None, start, MAX_INT64 if is_open else end)
