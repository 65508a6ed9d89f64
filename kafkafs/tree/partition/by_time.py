"""`time/` of a partition: instants are links to records, periods are folders.

Listings help to complete a path and show no record again, so that a walk over the mount reads each record once: days
are folders, and a day lists links to its hours. `records.jsonl`, `log` and `exact.jsonl` of a period can be looked
up, but are not listed; its README.txt names them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import partial

from engine.errors import KafkaStorageError
from engine.log.view.log_view import LogView
from engine.units import MAX_INT64, Timestamp
from kafkafs.tree.errors import BYTES, NotFound
from kafkafs.tree.listing import FIRST_COOKIE, README, entry, fixed_entries
from kafkafs.tree.lookups import offsets_of_period
from kafkafs.tree.node import Entry, Kind, Node
from kafkafs.tree.partition.exact_lines import ExactFile
from kafkafs.tree.partition.largest_timestamp import newest_timestamp
from kafkafs.tree.partition.line_files import LineFile
from kafkafs.tree.partition.link_targets import (
    AFTER_LANDMARKS,
    LINKS,
    offset_link,
    target_entries,
    target_link,
)
from kafkafs.tree.partition.log_slices import SliceFolder
from kafkafs.tree.partition.partition import Partition, retried
from kafkafs.tree.partition.readme import (
    readme_file,
    readme_of_period,
    readme_of_times,
)
from kafkafs.tree.partition.record_folder import RecordFolder
from kafkafs.tree.path_names import (
    DAY_NAME,
    PERIOD_NAMES,
    Period,
    instant_name,
    parse_instant,
    parse_period,
)
from kafkafs.tree.streams import LineSource

DAY_MS = 24 * 60 * 60 * 1000
MOST_LOOKS = 10
_PART = re.compile(r"[0-9]{2}")


class TimeFolder(RecordFolder):
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
        if name == README:
            return readme_file(path, partition, partial(readme_of_times, partition))
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
        yield from target_entries(self, partition, partition.view(), after)
        start = max(after - AFTER_LANDMARKS + 1, 0) * DAY_MS
        for name, period in periods_with_records(partition, Period(start, None), DAY_NAME):
            assert period.start_ms is not None
            cookie = period.start_ms // DAY_MS + AFTER_LANDMARKS
            yield entry(self, name, Kind.DIRECTORY, cookie)


def periods_with_records(
    partition: Partition, within: Period, length: int
) -> Iterator[tuple[str, Period]]:
    """Yield the periods with records that begin in a period: years, months, days, hours or minutes in UTC.

    The first record at or after a period's start is also the first one of all periods up to its own, so the periods
    between are empty, and one look-up leads to the next. Periods before 1970 are not searched.

    Args:
        within: its start is the start of such a period.
        length: the number of characters of their names.
    """
    start = max(within.start_ms or 0, 0)
    view, looks = partition.view(), 0
    while within.end_ms is None or start < within.end_ms:
        try:
            found = view.offset_for_time(start, records_only=True)
        except FileNotFoundError:  # the oldest segment was deleted in the meantime
            looks += 1
            if looks > MOST_LOOKS:
                return
            view = partition.view_again()
            continue
        except KafkaStorageError:
            return
        if found is None or (within.end_ms is not None and found.timestamp >= within.end_ms):
            return
        name = (instant_name(found.timestamp) or "")[:length]
        period = parse_period(name)
        if period is None or period.end_ms is None:
            return  # after the year 9999
        yield name, period
        start = period.end_ms


class PeriodFolder(RecordFolder):
    """`time/<period>/`: the records of a period as lines, and their batches as a broker has them on disk.

    A year lists links to its months with records, a month to its days, a day to its hours, an hour to its minutes.
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
        match name:
            case "records.jsonl":
                return LineFile(path, self.partition, self._lines)
            case "log":
                self.partition.refuse_masked(path, BYTES)
                return SliceFolder(path, self.partition, self._period)
            case "exact.jsonl":
                return ExactFile(path, self.partition, self._period)
            case "README.txt":
                return readme_file(path, self.partition, self._readme)
        part = self._part(name)
        if _PART.fullmatch(name) is None or parse_period(part) is None:
            raise NotFound(path)
        return target_link(path, self.partition, self.partition.view(), f"../{part}")

    def entries(self, after: int = 0) -> Iterator[Entry]:
        yield from fixed_entries(self, [(README, Kind.FILE)], after)
        first = self._part("01")
        if parse_period(first) is None:
            return
        for name, _ in periods_with_records(self.partition, self._period, len(first)):
            cookie = FIRST_COOKIE + 1 + int(name[-2:])
            if cookie > after:
                yield entry(self, name[-2:], Kind.LINK, cookie)

    def _part(self, digits: str) -> str:
        """Return the name of a part of this period, such as an hour of a day; no period's name if it has none."""
        own = posixpath.basename(self.path)
        return f"{own}{PERIOD_NAMES.get(len(own), '/')}{digits}"

    def _newest(self, view: LogView) -> Timestamp:
        return newest_timestamp(view, *offsets_of_period(view, self._period))

    def _lines(self, view: LogView) -> LineSource:
        start, end = offsets_of_period(view, self._period)
        # The file follows the log as long as no record is after the period.
        ends = self._period.end_ms
        is_open = ends is None or (
            end == view.log_end_offset and view.offset_for_time(ends, records_only=True) is None
        )
        return LineSource(self.partition.name, None, start, MAX_INT64 if is_open else end)

    def _readme(self, view: LogView) -> str:
        return readme_of_period(self.partition, view, self._period)
