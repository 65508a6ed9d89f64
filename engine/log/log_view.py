"""A partition's log at one moment: what it holds, and every way of looking something up in it.

What Kafka serves is right: offsets, time look-ups and the fate of transactions are those of a broker that
has this log. Where Kafka's time look-up finds nothing only because the first segment that is new enough
has its hit below the log start, the search goes on in the next segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.columns.columns import Columns
from engine.errors import CorruptRecordError, OffsetOutOfRangeError
from engine.log import stable_offset
from engine.log.fetch import FetchIsolation, offset_metadata, read_up_to
from engine.log.folder_listing import FolderListing
from engine.log.log_contents import LogContents
from engine.log.log_context import LogContext
from engine.log.log_segments import LogSegments
from engine.log.segment.decode_errors import decode_error
from engine.log.segment.fetched import FetchDataInfo
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.time_look_ups import TimeLookUps, first_of_newest
from engine.log.transactions import FateFinder, MarkedSegment, OngoingTxn, TransactionState
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import (
    BatchPosition,
    FoundTimestamp,
    Offset,
    Timestamp,
)


class LogView(LogContents):
    """One state of a log; never changes, so threads share it without locks.

    What is asked for is found out once and kept: two threads may both do it, and get the same.

    Attributes:
        generation: counts the views of the partition.
        rewrites: counts the times that something shown before may have been replaced or cut off; while it
            stays, views only gain records.

    Look-ups raise FileNotFoundError for a segment that is gone meanwhile, other OSError.
    """

    __slots__ = (
        "_aborted", "_all_segments", "_fates", "_leader_epochs", "_max_timestamp", "_times", "_topic_id",
        "_transactions", "_transactions_below", "generation", "rewrites",
    )  # fmt: skip

    def __init__(
        self,
        log: LogContext,
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
        super().__init__(
            log,
            listing,
            segments,
            active,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
        )
        self.generation = generation
        self.rewrites = rewrites
        self._times = TimeLookUps()
        self._all_segments: LogSegments[LogSegment] | None = None
        self._transactions = transactions
        self._transactions_below: tuple[Offset, TransactionState] | None = None
        self._leader_epochs: LeaderEpochCache | None = None
        self._topic_id: tuple[str | None] | None = None
        self._max_timestamp: tuple[FoundTimestamp | None] | None = None
        self._fates: FateFinder | None = None
        self._aborted: Mapping[int, list[tuple[Offset, Offset]]] | None = None
        if after is not None and after.rewrites == rewrites:
            known = len(after.base_offsets)
            is_same = self.base_offsets is after.base_offsets
            if is_same or self.base_offsets[:known] == after.base_offsets:
                self._times = after._times.of_later_view(max(known - 1, 0), log_start_offset)

    # State, found out once

    @property
    def segments(self) -> LogSegments[LogSegment]:
        """All segments by base offset."""
        known = self._all_segments
        if known is None:
            known = self._all_segments = LogSegments(map(self.segment_at, range(len(self))))
        return known

    @property
    def open_transactions(self) -> tuple[OngoingTxn, ...]:
        """The transactions without an end, by first offset."""
        return self.transaction_state.ongoing

    @property
    def transaction_state(self) -> TransactionState:
        """The open transactions at the log end; not to be changed."""
        known = self._transactions
        if known is None:
            known = stable_offset.transaction_state(self, self.log_end_offset)
            self._transactions = known
        return known

    def known_transaction_state(self) -> TransactionState | None:
        """The same, if it was asked for before."""
        return self._transactions

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
        known = self._transactions_below
        if known is None or known[0] != until:
            known = until, stable_offset.transaction_state(self, until)
            self._transactions_below = known
        ongoing = known[1].ongoing
        return max(ongoing[0].first_offset, self.log_start_offset) if ongoing else until

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """The leader epochs, from their checkpoint or, where that is missing or broken, from the batches."""
        known = self._leader_epochs
        if known is None:
            known = self._leader_epochs = stable_offset.leader_epochs(self)
        return known

    @property
    def topic_id(self) -> str | None:
        """The topic's id in base64, from partition.metadata; None when that does not tell."""
        known = self._topic_id
        if known is None:
            known = self._topic_id = (stable_offset.topic_id(self.log),)
        return known[0]

    # Look-ups by offset

    def locate(self, offset: Offset) -> tuple[LogSegment, BatchPosition] | None:
        """The first batch that reaches an offset of [log start, log end), in its segment; None outside of that.

        In a gap, which compaction leaves, that is the batch after it. The batch's checksum is not checked
        here but where it is read.
        """
        if not self.log_start_offset <= offset < self.log_end_offset:
            return None
        for place in range(max(bisect_right(self.base_offsets, offset) - 1, 0), len(self)):
            segment = self.segment_at(place)
            found = segment.locate(offset)
            if found is not None:
                return segment, found
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
        if offset < self.next_base(segment):
            segment.check_gap(offset, self.next_base(segment))
        return None

    def _refuse_unread(self, offset: Offset) -> None:
        """Raise CorruptRecordError when unreadable bytes at the log end may hold an offset."""
        unread = self.unread_end if offset >= self.log_end_offset else None
        if unread is None or self._active is None:
            return
        end = self.log.end_of_clean_stop()
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
            raise decode_error(columns.problems[0], segment.path, run)
        return None

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
        known = self._max_timestamp
        if known is None:
            known = self._max_timestamp = (first_of_newest(self),)
        return known[0]

    # Transactions

    def fates(self, segment: LogSegment, run: BatchRun) -> npt.NDArray[np.uint8] | None:
        """A transactions.Fate for each row of a run; None when no row is transactional."""
        known = self._fates
        if known is None:
            known = self._fates = self._fate_finder()
        return known.fates(segment, run)

    def _fate_finder(self) -> FateFinder:
        def segments_from(segment: MarkedSegment) -> Iterator[MarkedSegment]:
            assert isinstance(segment, LogSegment)
            return self.segments_from(segment.base_offset)

        def aborted(producer_id: int) -> list[tuple[Offset, Offset]]:
            known = self._aborted
            if known is None:
                known = self._aborted = stable_offset.indexed_aborts(self)
            return known.get(producer_id, [])

        return FateFinder(segments_from, lambda: self.open_transactions, self.log.markers, aborted)

    # Reading as a fetch does

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        *,
        min_one_message: bool = False,
    ) -> FetchDataInfo:
        """Records from the first batch on that reaches an offset, as a fetch request gets them.

        Raises:
            OffsetOutOfRangeError: the offset is below the log start or above the log end.
            ValueError: `max_size` is negative.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"{self.name} has offsets {self.log_start_offset} to {self.log_end_offset},"
                f" not {start_offset}"
            )
        end = self.end_metadata
        bound = offset_metadata(self.segments_from, end, self._first_unseen(isolation))
        found, _ = read_up_to(
            self.segments_from,
            end,
            start_offset,
            max_size,
            bound,
            min_one_message=min_one_message,
        )
        return found

    def _first_unseen(self, isolation: FetchIsolation) -> Offset:
        """The first offset that a reader does not see."""
        if isolation is FetchIsolation.LOG_END:
            return self.log_end_offset
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark
        return self.first_unstable_offset(self.high_watermark)
