"""Read a writable segment: look-ups, slices, its largest timestamp."""

from __future__ import annotations

import threading

from engine.index.transaction_index import AbortedTxn
from engine.log.segment.fetch import WHOLE, FetchDataInfo, fetch_slice
from engine.units import (
    BatchPosition,
    FoundTimestamp,
    Offset,
    OffsetPosition,
    Position,
    Timestamp,
    TimestampOffset,
)
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.segment.segment_files import WritableSegmentFiles
from engine.writing.segment.segment_rules import SegmentRules


class SegmentReading:
    """Reading half of a writable segment; safe while one thread changes the segment.

    Args:
        files: open files.
        base_offset: smallest offset of the segment.
        rules: rules for damaged files.

    Attributes:
        files: records file and indexes.
        log: the records file, by Kafka's name.
    """

    def __init__(
        self, files: WritableSegmentFiles, base_offset: Offset, rules: SegmentRules
    ) -> None:
        self.files = files
        self.log = files.records
        self.base_offset = base_offset
        self.rules = rules
        self._max_timestamp_and_offset: TimestampOffset | None = None
        self._max_timestamp_lock = threading.Lock()

    @property
    def size(self) -> int:
        """Bytes of the batches."""
        return self.log.size

    @property
    def offset_index(self) -> WritableOffsetIndex:
        """The offset index, created if missing."""
        return self.files.offset_index.get()

    @property
    def time_index(self) -> WritableTimeIndex:
        """The time index, created if missing."""
        return self.files.time_index.get()

    @property
    def txn_index(self) -> WritableTransactionIndex:
        """The transaction index; its file exists once there is an entry."""
        return self.files.txn_index

    @property
    def max_timestamp_and_offset_so_far(self) -> TimestampOffset:
        """Largest timestamp, and the last offset of the first batch with it.

        After opening, before an append, the last entry of the time index.
        """
        known = self._max_timestamp_and_offset
        if known is None:
            with self._max_timestamp_lock:
                known = self._max_timestamp_and_offset
                if known is None:
                    known = self._max_timestamp_and_offset = self.time_index.last_entry
        return known

    @property
    def max_timestamp_so_far(self) -> Timestamp:
        """Largest timestamp, -1 without one."""
        return self.max_timestamp_and_offset_so_far.timestamp

    @property
    def largest_timestamp(self) -> Timestamp:
        """Largest timestamp, or the modification time of the records file without one."""
        largest = self.max_timestamp_so_far
        return largest if largest >= 0 else self.files.last_modified

    def can_hold(self, offset: Offset) -> bool:
        """Return whether an offset is at most 2^31-1 above the base offset."""
        return self.offset_index.can_append_offset(offset)

    def translate_offset(self, offset: Offset, start: Position = 0) -> BatchPosition | None:
        """Return the position of the first batch that ends at or above `offset`; None without one.

        Args:
            offset: offset to look up.
            start: position to start at, if the index leads to a smaller one.
        """
        return self.rules.find(self.log, self.offset_index, offset, start)

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        max_position: Position | None = WHOLE,
        min_one_message: bool = False,
    ) -> FetchDataInfo | None:
        """Return batches from the first that reaches an offset.

        Args:
            start_offset: first offset.
            max_size: most bytes.
            max_position: end of the bytes that a reader may see; None if unknown, then no bytes are returned.
            min_one_message: return the first batch whole, whatever its size.

        Returns:
            None if all offsets of this segment are below.

        Raises:
            ValueError: `max_size` is negative.
        """
        return fetch_slice(
            self.log,
            self.base_offset,
            self.translate_offset(start_offset),
            max_size,
            max_position,
            min_one_message=min_one_message,
        )

    def read_next_offset(self) -> Offset:
        """Return the offset after the last batch, the base offset without one; walks from the last index entry."""
        fetched = self.read(self.offset_index.last_offset, self.log.size)
        next_offset = self.base_offset
        if fetched is not None:
            for batch in fetched.records.batches():
                next_offset = batch.next_offset
        return self.rules.wrap(next_offset)

    def offset_after(self, last_offset: Offset) -> Offset:
        """Return the next offset by the rules of this segment."""
        return self.rules.wrap(last_offset + 1)

    def has_overflow(self) -> bool:
        """Return whether the last offset is too far from the base offset."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self.can_hold(next_offset - 1)

    def fetch_upper_bound_offset(self, start: OffsetPosition, size: int) -> Offset | None:
        """Return an offset at or above the end of a fetch of `size` bytes; None if the index ends before."""
        bound = self.offset_index.upper_bound_for_fetch(start, size)
        return None if bound is None else bound.offset

    def find_offset_by_timestamp(
        self, timestamp: Timestamp, starting_offset: Offset
    ) -> FoundTimestamp | None:
        """Return the first record, in offset order, at or after a time and at or above an offset."""
        hint = self.time_index.lookup(timestamp)
        position = self.offset_index.lookup(max(hint.offset, starting_offset)).position
        return self.log.search_for_timestamp(timestamp, position, starting_offset)

    def collect_aborted_txns(
        self, fetch_offset: Offset, upper_bound: Offset
    ) -> tuple[list[AbortedTxn], bool]:
        """Return the aborted transactions that touch [fetch_offset, upper_bound), and whether later segments cannot have more."""
        return self.txn_index.collect_aborted_txns(fetch_offset, upper_bound)
