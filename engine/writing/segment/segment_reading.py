"""What a segment that is written answers while it is written: reading, look-ups, its largest timestamp."""

from __future__ import annotations

import os
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
from engine.writing.disk import Disk
from engine.writing.index.writable_lazy_index import LazyWritableIndex
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.records.writable_file_records import WritableFileRecords
from engine.writing.segment.segment_rules import SegmentRules


class SegmentReading:
    """The questions to one segment of a log; safe while one thread changes it.

    Args:
        records: the batches.
        offset_index, time_index: made when first needed.
        txn_index: of aborted transactions.
        base_offset: no offset in it is below.
        disk: where the files lie.
        rules: how records and indexes are read.

    Attributes:
        log: the records, as Kafka calls them.
    """

    def __init__(
        self,
        records: WritableFileRecords,
        offset_index: LazyWritableIndex[WritableOffsetIndex],
        time_index: LazyWritableIndex[WritableTimeIndex],
        txn_index: WritableTransactionIndex,
        base_offset: Offset,
        disk: Disk,
        rules: SegmentRules,
    ) -> None:
        self.log = records
        self.lazy_offset_index = offset_index
        self.lazy_time_index = time_index
        self.txn_index = txn_index
        self.base_offset = base_offset
        self._disk = disk
        self._rules = rules
        self._max_timestamp_and_offset: TimestampOffset | None = None
        self._max_timestamp_lock = threading.Lock()

    # What it consists of

    @property
    def size(self) -> int:
        """Bytes of its batches."""
        return self.log.size

    @property
    def offset_index(self) -> WritableOffsetIndex:
        """The offset index, made if it was not there."""
        return self.lazy_offset_index.get()

    @property
    def time_index(self) -> WritableTimeIndex:
        """The time index, made if it was not there."""
        return self.lazy_time_index.get()

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """Its records, offset index, time index and transaction index files, there or not."""
        return (
            self.log.path,
            os.fspath(self.lazy_offset_index.path),
            os.fspath(self.lazy_time_index.path),
            os.fspath(self.txn_index.path),
        )

    @property
    def max_timestamp_and_offset_so_far(self) -> TimestampOffset:
        """The largest timestamp, and the last offset of the first batch that has it.

        Of a segment that was opened and not appended to, what the time index says last.
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
        """The largest timestamp, -1 when there is none."""
        return self.max_timestamp_and_offset_so_far.timestamp

    @property
    def largest_record_timestamp(self) -> Timestamp | None:
        """The largest timestamp, None when there is none."""
        largest = self.max_timestamp_so_far
        return largest if largest >= 0 else None

    @property
    def largest_timestamp(self) -> Timestamp:
        """The largest timestamp, or when the file was last modified."""
        largest = self.max_timestamp_so_far
        return largest if largest >= 0 else self.last_modified

    @property
    def last_modified(self) -> Timestamp:
        """When the records file was last modified, 0 when it is gone."""
        try:
            return self._disk.mtime_ms(self.log.path)
        except FileNotFoundError:
            return 0

    def can_hold(self, offset: Offset) -> bool:
        """Whether an offset is near enough to the base offset for 31 bits."""
        return self.offset_index.can_append_offset(offset)

    # Reading

    def translate_offset(self, offset: Offset, start: Position = 0) -> BatchPosition | None:
        """Where the first batch lies whose last offset is `offset` or more; None when all lies below.

        `start` is where to begin when that is further on than what the index says.
        """
        return self._rules.find(self.log, self.offset_index, offset, start)

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        max_position: Position | None = WHOLE,
        min_one_message: bool = False,
    ) -> FetchDataInfo | None:
        """Batches from the first on that reaches an offset.

        Args:
            start_offset: where to begin.
            max_size: bytes to give at most.
            max_position: up to where a reader may see; None when that is not known: no bytes come.
            min_one_message: give the first batch whole, whatever its size.

        Returns:
            None when all offsets of this segment lie below.

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
        """The offset after its last batch, its base offset when it has none; walks from the last index entry."""
        fetched = self.read(self.offset_index.last_offset, self.log.size)
        next_offset = self.base_offset
        if fetched is not None:
            for batch in fetched.records.batches():
                next_offset = batch.next_offset
        return self._rules.wrap(next_offset)

    def offset_after(self, last_offset: Offset) -> Offset:
        """Return the offset that follows another by this segment's rules."""
        return self._rules.wrap(last_offset + 1)

    def has_overflow(self) -> bool:
        """Whether its last offset is too far from its base offset."""
        next_offset = self.read_next_offset()
        return next_offset > self.base_offset and not self.can_hold(next_offset - 1)

    def fetch_upper_bound_offset(self, start: OffsetPosition, size: int) -> Offset | None:
        """An offset that a fetch of so many bytes does not pass; None when the index ends before."""
        bound = self.offset_index.upper_bound_for_fetch(start, size)
        return None if bound is None else bound.offset

    def find_offset_by_timestamp(
        self, timestamp: Timestamp, starting_offset: Offset
    ) -> FoundTimestamp | None:
        """The first record, in offset order, at or after a time and at or above an offset."""
        hint = self.time_index.lookup(timestamp)
        position = self.offset_index.lookup(max(hint.offset, starting_offset)).position
        return self.log.search_for_timestamp(timestamp, position, starting_offset)

    def collect_aborted_txns(
        self, fetch_offset: Offset, upper_bound: Offset
    ) -> tuple[list[AbortedTxn], bool]:
        """Aborted transactions that touch [fetch_offset, upper_bound), and whether these are all."""
        return self.txn_index.collect_aborted_txns(fetch_offset, upper_bound)
