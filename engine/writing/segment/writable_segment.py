"""A segment that is written: its records file and three indexes, kept in step.

The indexes are made when they are first needed. One thread appends, truncates and recovers, under its log's
lock; reading is safe meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

from engine.clock import Clock
from engine.errors import CorruptRecordError, OffsetOverflowError
from engine.index.transaction_index import AbortedTxn
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import (
    MAX_INT64,
    NO_TIMESTAMP,
    Offset,
    Position,
    Timestamp,
    TimestampOffset,
)
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.index.writable_lazy_index import LazyWritableIndex
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.log_config import LogConfig
from engine.writing.records.writable_file_records import WritableFileRecords
from engine.writing.segment.batch_heads import Heads, batch_heads
from engine.writing.segment.roll_params import RollParams
from engine.writing.segment.segment_files import (
    FAILURES,
    delete_or_fall_back,
    do_all,
    log_path,
    offset_index_path,
    replace_suffix,
    time_index_path,
    transaction_index_path,
)
from engine.writing.segment.segment_reading import SegmentReading
from engine.writing.segment.segment_rules import OUR_SEGMENT_RULES, SegmentRules
from engine.writing.state.completed_txn import CompletedTxn

log = logging.getLogger(__name__)

_COPY_CHUNK = 1024 * 1024


class WritableSegment(SegmentReading):
    """One segment of a log that is written.

    Args:
        records: the batches.
        offset_index, time_index: made when first needed.
        txn_index: of aborted transactions.
        base_offset: no offset in it is below.
        index_interval_bytes: from one index entry to the next.
        roll_jitter_ms: taken off the age at which the log rolls.
        clock: for the time of its making.
        disk: where the files lie.
        rules: how records and indexes are read.

    Attributes:
        log: the records, as Kafka calls them.
        rolling_based_timestamp: the largest timestamp of the first batch, which its age counts from; None
            before there is one.

    Methods raise OSError when the disk fails, and ValueError once the segment is closed.
    """

    def __init__(
        self,
        records: WritableFileRecords,
        offset_index: LazyWritableIndex[WritableOffsetIndex],
        time_index: LazyWritableIndex[WritableTimeIndex],
        txn_index: WritableTransactionIndex,
        base_offset: Offset,
        index_interval_bytes: int,
        roll_jitter_ms: int,
        clock: Clock,
        *,
        disk: Disk = DISK,
        rules: SegmentRules = OUR_SEGMENT_RULES,
    ) -> None:
        super().__init__(records, offset_index, time_index, txn_index, base_offset, disk, rules)
        self.index_interval_bytes = index_interval_bytes
        self.roll_jitter_ms = roll_jitter_ms
        self.rolling_based_timestamp: Timestamp | None = None
        self._clock = clock
        self._created = clock.now_ms()
        self._bytes_since_last_index_entry = 0

    @classmethod
    def open(
        cls,
        folder: StrPath,
        base_offset: Offset,
        config: LogConfig,
        clock: Clock,
        *,
        file_already_exists: bool = False,
        init_file_size: int = 0,
        preallocate: bool = False,
        suffix: str = "",
        disk: Disk = DISK,
        rules: SegmentRules = OUR_SEGMENT_RULES,
    ) -> Self:
        """A segment in a folder; its records file is made when it is not there.

        Args:
            folder: of the partition.
            base_offset: names the files.
            config: interval and size of the indexes, jitter.
            clock: for the segment's age.
            file_already_exists: take the file as it is, also when it would be preallocated.
            init_file_size: bytes that a new file takes when `preallocate` says so.
            preallocate: whether it does.
            suffix: of a `FileState`, for segments that are not part of the log yet.
            disk: where the files lie.
            rules: how records and indexes are read.
        """
        max_size = config.max_index_size
        return cls(
            WritableFileRecords.open(
                log_path(folder, base_offset, suffix),
                file_already_exists=file_already_exists,
                init_file_size=init_file_size,
                preallocate=preallocate,
                disk=disk,
                walk=rules.walk,
            ),
            LazyWritableIndex.for_offset(
                offset_index_path(folder, base_offset, suffix), base_offset, max_size, disk=disk
            ),
            LazyWritableIndex.for_time(
                time_index_path(folder, base_offset, suffix), base_offset, max_size, disk=disk
            ),
            WritableTransactionIndex(
                base_offset, transaction_index_path(folder, base_offset, suffix), disk=disk
            ),
            base_offset,
            config.index_interval,
            config.random_segment_jitter(),
            clock,
            disk=disk,
            rules=rules,
        )

    def __repr__(self) -> str:
        known = self._max_timestamp_and_offset
        largest = NO_TIMESTAMP if known is None else known.timestamp
        return (
            f"WritableSegment(base_offset={self.base_offset}, size={self.size},"
            f" last_modified={self.last_modified}, largest_timestamp={largest})"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # Rolling

    def should_roll(self, params: RollParams) -> bool:
        """Whether what comes belongs into a new segment: this one is full or old, or cannot hold it."""
        size = self.log.size
        if size > params.max_segment_size - params.messages_size:
            return True
        if size:
            waited = self.time_waited_for_roll(params.now, params.max_timestamp)
            if waited > params.max_segment_ms - self.roll_jitter_ms:
                return True
        offset_index = self.lazy_offset_index.get()
        return (
            offset_index.is_full
            or self.lazy_time_index.get().is_full
            or not offset_index.can_append_offset(params.max_offset)
        )

    def time_waited_for_roll(self, now: Timestamp, message_timestamp: Timestamp) -> int:
        """Milliseconds from its first batch to what comes, or from its making to now without timestamps."""
        first = self.rolling_based_timestamp
        if first is None:
            first = self._load_first_batch_timestamp()
        if first is not None and first >= 0:
            return message_timestamp - first
        return now - self._created

    @property
    def first_batch_timestamp(self) -> Timestamp:
        """The largest timestamp of the first batch; MAX_INT64 when there is none."""
        first = self._load_first_batch_timestamp()
        return first if first is not None and first >= 0 else MAX_INT64

    def _load_first_batch_timestamp(self) -> Timestamp | None:
        if self.rolling_based_timestamp is None and self.log.size:
            first = next(self.log.batches(), None)
            if first is not None:
                self.rolling_based_timestamp = first.max_timestamp
        return self.rolling_based_timestamp

    def on_become_inactive_segment(self) -> None:
        """Note the largest timestamp in the time index and cut what was preallocated."""
        self.time_index.maybe_append(*self.max_timestamp_and_offset_so_far, skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        self.log.trim()

    def resize_indexes(self, size: int) -> None:
        """Let both indexes take so many bytes."""
        self.offset_index.resize(size)
        self.time_index.resize(size)

    def sanity_check(self, time_index_newly_created: bool) -> None:
        """Look at the indexes of a segment that was just opened.

        Raises:
            FileNotFoundError: there is no offset index.
            CorruptIndexError: the transaction index contradicts itself.
        """
        path = self.lazy_offset_index.path
        if not self._disk.exists(path):
            raise FileNotFoundError(f"there is no offset index {path}")
        if time_index_newly_created:
            self.time_index.resize(0)
        self._rules.check_transactions(self.txn_index, self._disk)

    # Appending

    def append(self, largest_offset: Offset, records: MemoryRecords, heads: Heads = None) -> None:
        """Write batches behind the last one, with an index entry where the interval is passed.

        Args:
            largest_offset: the last offset in them.
            records: whole batches; none is fine.
            heads: theirs, where somebody has read them already.

        Raises:
            OffsetOverflowError: the offset is too far from the base offset; nothing was written.
            ValueError: the file would get too large; nothing was written.
        """
        if not records.size:
            return
        position = self.log.size
        offset_index = self.lazy_offset_index.get()
        if not offset_index.can_append_offset(largest_offset):
            raise OffsetOverflowError(
                f"offset {largest_offset} is too far from the base offset of {self.log.path}"
            )
        self.log.append(records)
        largest = self._max_timestamp_and_offset or self.max_timestamp_and_offset_so_far
        for last_offset, max_timestamp, size in batch_heads(records) if heads is None else heads:
            if max_timestamp > largest.timestamp:
                largest = TimestampOffset(max_timestamp, last_offset)
                self._max_timestamp_and_offset = largest
            if self._bytes_since_last_index_entry > self.index_interval_bytes:
                offset_index.append(last_offset, position)
                self.lazy_time_index.get().maybe_append(*largest)
                self._bytes_since_last_index_entry = 0
            position += size
            self._bytes_since_last_index_entry += size

    def append_from_file(self, records: FileRecords, start: Position) -> int:
        """Copy batches of a file from a position on, up to one whose offsets this segment cannot hold.

        Returns:
            how many bytes were appended.
        """
        position = start
        while position < records.end:
            appended = self._append_chunk(records, position)
            if not appended:
                break
            position += appended
        return position - start

    def _append_chunk(self, records: FileRecords, position: Position) -> int:
        """Append whole batches of less than a chunk, or one that is larger; how many bytes."""
        size, last_offset = 0, -1
        for batch in records.batches_from(position):
            if not self.can_hold(batch.last_offset):
                break
            if size and size + batch.size >= _COPY_CHUNK:
                break
            last_offset = batch.last_offset
            size += batch.size
        if size:
            buffer = bytearray(size)
            if records.read_into(buffer, position) != size:
                raise CorruptRecordError(
                    "the file ends inside a batch", path=records.path, position=position
                )
            self.append(last_offset, MemoryRecords(buffer))
        return size

    def update_txn_index(self, completed: CompletedTxn, last_stable_offset: Offset) -> None:
        """Note a transaction that ended here, if it was aborted."""
        if completed.is_aborted:
            self.txn_index.append(
                AbortedTxn(
                    0,
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    last_stable_offset,
                )
            )

    # Recovering and truncating

    def empty_indexes(self) -> None:
        """Remove all entries of the indexes, and forget the largest timestamp, before a recovery."""
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self._max_timestamp_and_offset = None

    def finish_recovery(self, valid_bytes: int) -> None:
        """Cut off what follows the last good batch, and complete the indexes."""
        self.log.truncate_to(valid_bytes)
        self.offset_index.trim_to_valid_size()
        self.time_index.maybe_append(*self.max_timestamp_and_offset_so_far, skip_full_check=True)
        self.time_index.trim_to_valid_size()

    def note_max_timestamp(self, largest: TimestampOffset) -> None:
        """Remember what recovery found to be the largest timestamp."""
        self._max_timestamp_and_offset = largest

    def truncate_to(self, offset: Offset) -> int:
        """Cut off what has this offset or more; how many bytes of batches."""
        found = self.translate_offset(offset)
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.truncate_to(offset)
        time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        offset_index.resize(offset_index.max_index_size)
        time_index.resize(time_index.max_index_size)
        truncated = 0 if found is None else self.log.truncate_to(found.position)
        if self.log.size == 0:
            self._created = self._clock.now_ms()
            self.rolling_based_timestamp = None
        self._bytes_since_last_index_entry = 0
        if self.max_timestamp_so_far >= 0:
            self._max_timestamp_and_offset = self._read_largest_timestamp()
        return truncated

    def _read_largest_timestamp(self) -> TimestampOffset:
        """What the time index says last, or a larger one of the batches behind that."""
        last = self.time_index.last_entry
        position = self.offset_index.lookup(last.offset).position
        after = self.log.largest_timestamp_after(position)
        return after if after.timestamp > last.timestamp else last

    # Files

    def flush(self) -> None:
        """Return when its records and indexes are on the device."""
        self.log.flush()
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def close(self) -> None:
        """Note the largest timestamp in the time index, flush and close all files."""
        if self._max_timestamp_and_offset is not None:
            try:
                self.time_index.maybe_append(*self._max_timestamp_and_offset, skip_full_check=True)
            except FAILURES as error:
                log.warning("the time index of %s lacks its last entry: %s", self.log.path, error)
        do_all(
            (
                self.lazy_offset_index.close,
                self.lazy_time_index.close,
                self.log.close,
                self.txn_index.close,
            )
        )

    def close_handlers(self) -> None:
        """Close all files without writing: their disk may have failed."""
        for close in (
            self.lazy_offset_index.close_handler,
            self.lazy_time_index.close_handler,
            self.log.close_handlers,
            self.txn_index.close,
        ):
            try:
                close()
            except FAILURES as error:
                log.warning("%s is not closed well: %s", self.log.path, error)

    def update_parent_dir(self, folder: StrPath) -> None:
        """Say that the folder was renamed."""
        self.log.update_parent_dir(folder)
        self.lazy_offset_index.update_parent_dir(folder)
        self.lazy_time_index.update_parent_dir(folder)
        self.txn_index.update_parent_dir(folder)

    def change_file_suffixes(self, old: str, new: str) -> None:
        """Rename its files, the records first.

        Raises:
            ValueError: a name does not end with the old suffix.
        """
        records, offset_index, time_index, txn_index = (
            replace_suffix(path, old, new) for path in self.paths
        )
        self.log.rename_to(records)
        self.lazy_offset_index.rename_to(offset_index)
        self.lazy_time_index.rename_to(time_index)
        self.txn_index.rename_to(txn_index)

    def set_last_modified(self, milliseconds: Timestamp) -> None:
        """Say when its records and indexes were last modified."""
        for path in self.paths[:3]:
            self._disk.set_mtime_ms(path, milliseconds)

    def has_suffix(self, suffix: str) -> bool:
        """Whether the names of all its files end so."""
        return all(path.endswith(suffix) for path in self.paths)

    def delete_if_exists(self) -> None:
        """Close and remove its files, each that is there."""
        records, offset_index, time_index, txn_index = self.paths
        do_all(
            (
                lambda: self._delete("log", records, self.log.delete_if_exists),
                lambda: self._delete(
                    "offset index", offset_index, self.lazy_offset_index.delete_if_exists
                ),
                lambda: self._delete(
                    "time index", time_index, self.lazy_time_index.delete_if_exists
                ),
                lambda: self._delete(
                    "transaction index", txn_index, self.txn_index.delete_if_exists
                ),
            )
        )

    def _delete(self, kind: str, path: str, delete: Callable[[], bool]) -> None:
        may_be_missing = kind == "transaction index"
        delete_or_fall_back(kind, path, delete, may_be_missing=may_be_missing, disk=self._disk)

    @property
    def is_deleted(self) -> bool:
        """Whether none of its files is there."""
        return not any(map(self._disk.exists, self.paths))
