"""A partition's log at one moment: what it holds, and every way of looking something up in it.

What Kafka serves is right: offsets, time look-ups and the fate of transactions are those of a broker that
has this log. Where Kafka's time look-up finds nothing only because the first segment that is new enough
has its hit below the log start, the search goes on in the next segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.columns.columns import Columns
from engine.errors import CorruptRecordError, OffsetOutOfRangeError
from engine.files.file_names import kraft_checkpoint_name
from engine.files.folder_entries import SourceEntry
from engine.files.unreadable import Stretch
from engine.log import stable_offset
from engine.log.fetch import FetchIsolation, offset_metadata, read_up_to, upper_bound
from engine.log.folder_listing import FolderListing, KRaftSnapshot, Leftover
from engine.log.log_segments import LogSegments
from engine.log.proven_end import end_of_clean_stop
from engine.log.segment.batch_search import check_gap
from engine.log.segment.decode_errors import decode_error
from engine.log.segment.fetched_records import FetchedRecords
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.places import BatchLocation, Extent
from engine.log.segment.problems import ProblemEntry
from engine.log.segment.scan import BatchRun, Damage
from engine.log.segment.segment_times import max_timestamp_of
from engine.log.time_look_ups import TimeLookUps
from engine.log.transactions import FateFinder, MarkedSegment, OngoingTxn, TransactionState
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import (
    MAX_INT64,
    FoundTimestamp,
    Offset,
    Position,
    Timestamp,
    TopicPartition,
)

if TYPE_CHECKING:
    from engine.log.partition_log import PartitionLog

T = TypeVar("T")


class LogView:
    """One state of a log; never changes, so threads share it without locks.

    Attributes:
        log: the partition it is a view of.
        generation: counts the views of the partition.
        rewrites: counts the times that something shown before may have been replaced or cut off; while it
            stays, views only gain records.
        listing: the partition's folder.
        base_offsets: of the segments, ascending.
        log_start_offset: the first offset that is served.
        log_end_offset: one past the last record: the offset of the next one.

    Look-ups raise FileNotFoundError for a segment that is gone meanwhile, other OSError.
    """

    __slots__ = (
        "_active", "_lazy", "_segments", "_times", "base_offsets", "generation", "listing", "log",
        "log_end_offset", "log_start_offset", "rewrites",
    )  # fmt: skip

    def __init__(
        self,
        log: PartitionLog,
        listing: FolderListing,
        segments: dict[Offset, LogSegment],
        active: LogSegment | None,
        *,
        log_start_offset: Offset,
        log_end_offset: Offset,
        generation: int = 0,
        rewrites: int = 0,
        after: LogView | None = None,
        transactions: TransactionState | None = None,
    ) -> None:
        self.log = log
        self.listing = listing
        self.base_offsets = listing.base_offsets
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.generation = generation
        self.rewrites = rewrites
        self._segments = segments
        self._active = active
        self._lazy: dict[str, Any] = {}
        self._times = TimeLookUps()
        if transactions is not None:
            self._lazy["transactions"] = transactions
        if after is not None and after.rewrites == rewrites:
            known = len(after.base_offsets)
            is_same = self.base_offsets is after.base_offsets
            if is_same or self.base_offsets[:known] == after.base_offsets:
                self._times = after._times.of_later_view(max(known - 1, 0), log_start_offset)

    def __repr__(self) -> str:
        return f"<{self.name}: offsets {self.log_start_offset} to {self.log_end_offset}>"

    # What it is

    @property
    def name(self) -> str:
        """The partition's name in its source."""
        return self.log.name

    @property
    def partition(self) -> TopicPartition:
        """Topic and partition; the number is -1 when the folder's name does not tell."""
        return self.log.topic_partition

    @property
    def live(self) -> bool:
        """Whether somebody writes to it, as far as can be told."""
        return self.log.is_live()

    @property
    def files(self) -> tuple[SourceEntry, ...]:
        """Everything in the partition's folder, sorted by name."""
        return self.listing.entries

    @property
    def leftovers(self) -> tuple[Leftover, ...]:
        """What lies in the folder and is not part of the log."""
        return self.listing.leftovers + tuple(
            Leftover(
                kraft_checkpoint_name(*snapshot), "a snapshot of what lies before the log start"
            )
            for snapshot in self.listing.kraft_snapshots
            if snapshot.end_offset < self.log_start_offset
        )

    @property
    def kraft_snapshots(self) -> tuple[KRaftSnapshot, ...]:
        """The complete snapshots of a KRaft log that are not older than it."""
        return tuple(
            snapshot
            for snapshot in self.listing.kraft_snapshots
            if snapshot.end_offset >= self.log_start_offset
        )

    @property
    def problems(self) -> list[ProblemEntry]:
        """What was found wrong so far; look-ups add to it."""
        return self.log.problems.entries()

    # Segments

    def __len__(self) -> int:
        return len(self.base_offsets)

    def segment_at(self, place: int) -> LogSegment:
        """The segment in a place, counted from the oldest, which is 0."""
        base = self.base_offsets[place]
        active = self._active
        if active is not None and base == active.base_offset:
            return active
        segment = self._segments.get(base)
        if segment is None:
            segment = self._segments.setdefault(base, self.log.make_segment(base))
        return segment

    @property
    def segments(self) -> LogSegments[LogSegment]:
        """All segments by base offset."""
        return self._once(
            "segments",
            lambda: LogSegments(self.segment_at(i) for i in range(len(self.base_offsets))),
        )

    @property
    def active_segment(self) -> LogSegment | None:
        """The newest segment; None when there is none."""
        return self._active

    @property
    def lost_segment(self) -> LogSegment | None:
        """The active segment if it holds bytes and no good batch: its damage begins where the log ends."""
        active = self._active
        return active if active is not None and not active.end and active.tail_end else None

    @property
    def unread_end(self) -> Stretch | None:
        """The first bytes behind the last good batch that cannot be read: more records may be there."""
        active = self._active
        if active is None:
            return None
        return active.file.unreadable_in(active.end, max(active.tail_end, active.end))

    @property
    def end_position(self) -> Position:
        """Where the last good batch ends in the active segment."""
        return 0 if self._active is None else self._active.end

    def segment_for(self, offset: Offset) -> LogSegment | None:
        """The segment that holds an offset, if any does; None below the first one."""
        place = bisect_right(self.base_offsets, offset) - 1
        return None if place < 0 else self.segment_at(place)

    def segments_from(self, offset: Offset) -> Iterator[LogSegment]:
        """The segment that may hold an offset, or else the first one, and those after it."""
        for place in range(max(bisect_right(self.base_offsets, offset) - 1, 0), len(self)):
            yield self.segment_at(place)

    def _next_base(self, segment: LogSegment) -> Offset:
        place = bisect_right(self.base_offsets, segment.base_offset)
        return self.base_offsets[place] if place < len(self.base_offsets) else self.log_end_offset

    # Offsets and state

    @property
    def high_watermark(self) -> Offset:
        """Up to where the log was known to be replicated, between log start and log end.

        The checkpoint lags behind a running broker by up to five seconds.
        """
        known = self.log.checkpoints.high_watermark(self.partition)
        if known is None:
            return self.log_start_offset
        return max(self.log_start_offset, min(known, self.log_end_offset))

    @property
    def open_transactions(self) -> tuple[OngoingTxn, ...]:
        """The transactions without an end, by first offset."""
        return self.transaction_state.ongoing

    @property
    def transaction_state(self) -> TransactionState:
        """The open transactions at the log end; not to be changed."""
        return self._once(
            "transactions", lambda: stable_offset.transaction_state(self, self.log_end_offset)
        )

    def known_transaction_state(self) -> TransactionState | None:
        """The same, if it was asked for before."""
        found: TransactionState | None = self._lazy.get("transactions")
        return found

    @property
    def last_stable_offset(self) -> Offset:
        """Where the first open transaction begins, else the log end: what read_committed sees lies below.

        A broker also holds it at the high watermark, which a file reader knows only late.
        """
        ongoing = self.open_transactions
        if not ongoing:
            return self.log_end_offset
        return max(ongoing[0].first_offset, self.log_start_offset)

    def first_unstable_offset(self, until: Offset) -> Offset:
        """The last stable offset as it was when the log ended at `until`."""
        if until >= self.log_end_offset:
            return self.last_stable_offset
        known = f"transactions below {until}"
        ongoing = self._once(known, lambda: stable_offset.transaction_state(self, until)).ongoing
        return max(ongoing[0].first_offset, self.log_start_offset) if ongoing else until

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The leader epochs, from their checkpoint or, where that is missing or broken, from the batches."""
        return self._once("leader_epochs", lambda: stable_offset.leader_epochs(self))

    @property
    def topic_id(self) -> str | None:
        """The topic's id in base64, from partition.metadata; None when that does not tell."""
        return self._once("topic_id", lambda: stable_offset.topic_id(self))

    # Look-ups by offset

    def locate(self, offset: Offset) -> BatchLocation | None:
        """The first batch that reaches an offset of [log start, log end); None outside of that.

        In a gap, which compaction leaves, that is the batch after it. The batch's checksum is not checked
        here but where it is read.
        """
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        for place in range(max(bisect_right(self.base_offsets, offset) - 1, 0), len(self)):
            found = self.segment_at(place).locate(offset)
            if found is not None:
                return found
        return None

    def batch(
        self, offset: Offset, before_large: Callable[[int], object] | None = None
    ) -> tuple[LogSegment, BatchRun] | None:
        """The batch whose offsets include this one, checked, as a run of one row.

        None when the offset is outside of [log start, log end) or in a gap between batches. The record
        itself can be missing all the same: compaction keeps the batch's offsets.

        Args:
            offset: of a record.
            before_large: called with the size of a large batch before it is read.

        Raises:
            CorruptRecordError: damage took, or may have taken, the batch.
        """
        if not self.log_start_offset <= offset < self.log_end_offset:
            self._refuse_unread(offset)
            return None
        place = bisect_right(self.base_offsets, offset) - 1
        if place < 0:
            return None
        segment = self.segment_at(place)
        run = segment.batch(offset, before_large)
        if run is not None:
            return segment, run
        if offset < self._next_base(segment):
            check_gap(segment, offset, self._next_base(segment))
        return None

    def _refuse_unread(self, offset: Offset) -> None:
        """Raise CorruptRecordError when unreadable bytes at the log end may hold an offset."""
        unread = self.unread_end if offset >= self.log_end_offset else None
        if unread is None or self._active is None:
            return
        end = end_of_clean_stop(self)
        if end is None or not self.log_end_offset <= end <= offset:
            path, position = self._active.path, self._active.end
            raise CorruptRecordError(unread.reason, path=path, position=position)

    def record(self, offset: Offset) -> tuple[Columns, int] | None:
        """The record with exactly this offset: columns that hold it, and its place in them.

        None when the offset is outside of [log start, log end) or compaction took it.

        Raises:
            CorruptRecordError, InvalidRecordError, LimitExceededError, UnsupportedCodecError: it is, or
                may be, in a batch that cannot be read.
        """
        if self.log_start_offset <= offset < self.log_end_offset:
            place = bisect_right(self.base_offsets, offset) - 1
            alone = None if place < 0 else self.segment_at(place).record(offset)
            if alone is not None:
                return alone, 0
        found = self.batch(offset)
        if found is None:
            return None
        segment, run = found
        budgets = self.log.budgets
        columns = kernel.decode(
            run.buffer, run.table, 0, 1, start_position=run.start_position, budgets=budgets
        )
        places = np.flatnonzero(columns.offset == offset)
        if len(places):
            return columns, int(places[0])
        if columns.problems:
            raise decode_error(columns.problems[0], segment, run)
        return None

    def batch_bytes(self, location: BatchLocation) -> bytes:
        """A batch as it lies on disk.

        Raises:
            CorruptRecordError: its checksum is wrong.
        """
        return location.segment.checked_bytes(location.position, location.size)

    def positions(
        self, segment: LogSegment, start_offset: Offset, stop_offset: Offset
    ) -> tuple[Position, Position]:
        """The bytes of a segment's whole batches that hold offsets of [start_offset, stop_offset)."""
        found = self._extent(segment, start_offset, stop_offset)
        return found.start, found.stop

    def _extent(self, segment: LogSegment, start_offset: Offset, stop_offset: Offset) -> Extent:
        if stop_offset >= self._next_base(segment):
            if start_offset <= segment.base_offset:
                return Extent(0, segment.end, segment.base_offset)
            stop_offset = MAX_INT64
        return segment.extent(start_offset, stop_offset)

    def runs(
        self, start_offset: Offset | None = None, stop_offset: Offset | None = None
    ) -> Iterator[tuple[LogSegment, BatchRun | Damage]]:
        """The good batches that hold offsets of [start, stop), and what is damaged there, in log order.

        The first and the last batch are whole: they may hold records outside the range. What is torn
        after the last good batch of a live log is not there yet.

        Args:
            start_offset: by default the log start; may lie below it, since records there can still be on disk.
            stop_offset: by default the log end.
        """
        expected: Offset | None = None
        for segment, part in self.extents(start_offset, stop_offset):
            smallest = max(part.next_offset, expected or 0)
            for item in segment.scan(part.start, part.stop, next_offset=smallest):
                if isinstance(item, BatchRun):
                    expected = item.next_offset
                yield segment, item
                del item  # before the next one is read: a batch may be as large as the budget

    def extents(
        self, start_offset: Offset | None = None, stop_offset: Offset | None = None
    ) -> Iterator[tuple[LogSegment, Extent]]:
        """The parts of the segments that `runs` reads for these offsets, in log order.

        Args:
            start_offset, stop_offset: as for `runs`.
        """
        start = self.log_start_offset if start_offset is None else start_offset
        stop = self.log_end_offset if stop_offset is None else stop_offset
        for segment in self.segments_from(start):
            is_lost = segment is self.lost_segment and start <= self.log_end_offset <= stop
            if (start >= stop or segment.base_offset >= stop) and not is_lost:
                return
            part = self._extent(segment, start, stop)
            if stop >= self.log_end_offset and segment is self._active:
                part = part._replace(stop=max(part.stop, segment.tail_end))
            yield segment, part

    # Look-ups by time

    def offset_for_time(
        self, timestamp: Timestamp, *, records_only: bool = False
    ) -> FoundTimestamp | None:
        """The first record, in offset order, at or after a time; None if there is none.

        With `records_only` no control record: ListOffsets counts them, a period's bounds do not.

        Raises:
            UnsupportedCodecError: it may lie in a batch whose codec is not installed.
        """
        return self._times.find(self, timestamp, records_only=records_only)

    @property
    def max_timestamp(self) -> FoundTimestamp | None:
        """The first record that has the largest timestamp; None when no record has one."""
        return self._once("max_timestamp", lambda: max_timestamp_of(self))

    # Transactions

    def fates(self, segment: LogSegment, run: BatchRun) -> npt.NDArray[np.uint8] | None:
        """A transactions.Fate for each row of a run; None when no row is transactional."""
        return self._once("fates", self._fate_finder).fates(segment, run)

    def _fate_finder(self) -> FateFinder:
        def segments_from(segment: MarkedSegment) -> Iterator[MarkedSegment]:
            assert isinstance(segment, LogSegment)
            return self.segments_from(segment.base_offset)

        def aborted(producer_id: int) -> list[tuple[Offset, Offset]]:
            known = self._once("aborted", lambda: stable_offset.indexed_aborts(self))
            return known.get(producer_id, [])

        return FateFinder(segments_from, lambda: self.open_transactions, self.log.markers, aborted)

    # Reading as a fetch does

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        *,
        at_least_one: bool = False,
    ) -> FetchedRecords:
        """Records from the first batch on that reaches an offset, as a fetch request gets them.

        Raises:
            OffsetOutOfRangeError: the offset is below the log start or above the log end.
            ValueError: `max_size` is negative.
        """
        if start_offset < self.log_start_offset:
            raise OffsetOutOfRangeError(
                f"offset {start_offset} is below the log start {self.log_start_offset} of {self.name}"
            )
        bound = offset_metadata(self, upper_bound(self, isolation))
        return read_up_to(self, start_offset, max_size, bound, at_least_one=at_least_one)

    def read_side_file(self, name: str) -> bytes:
        """A checkpoint, snapshot or the like of the partition's folder, whole.

        Raises FileNotFoundError, other OSError, LimitExceededError.
        """
        return self.log.read_side_file(name)

    def _once(self, name: str, find: Callable[[], T]) -> T:
        """What is found out once; two threads may both do it, and get the same."""
        found: T
        lazy = self._lazy
        if name in lazy:
            found = lazy[name]
        else:
            found = lazy.setdefault(name, find())
        return found
