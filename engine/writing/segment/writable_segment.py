"""A writable segment: a records file and three indexes, kept consistent.

The offset and time index are opened at their first use. One thread appends, truncates and recovers,
under the lock of the log; reading is safe meanwhile.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from engine.clock import Clock
from engine.errors import CorruptRecordError, OffsetOverflowError
from engine.index.transaction_index import AbortedTxn
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import NO_TIMESTAMP, Offset, Position, TimestampOffset
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.batch_heads import Heads, batch_heads
from engine.writing.segment.rolling import RollParams, SegmentAge
from engine.writing.segment.segment_files import FAILURES, WritableSegmentFiles
from engine.writing.segment.segment_reading import SegmentReading
from engine.writing.segment.segment_rules import OUR_SEGMENT_RULES, SegmentRules
from engine.writing.state.completed_txn import CompletedTxn

logger = logging.getLogger(__name__)

_COPY_CHUNK = 1024 * 1024


class WritableSegment(SegmentReading):
    """One segment of a writable log.

    Args:
        files: open files, owned by the segment from now on.
        base_offset: smallest offset of the segment.
        index_interval_bytes: bytes between two index entries.
        roll_jitter_ms: milliseconds subtracted from the age limit of the segment.
        clock: source of the time.
        rules: rules for damaged files.

    Attributes:
        age: age of the segment.

    Methods raise OSError for an error of the disk, and ValueError once the segment is closed.
    """

    def __init__(
        self,
        files: WritableSegmentFiles,
        base_offset: Offset,
        index_interval_bytes: int,
        roll_jitter_ms: int,
        clock: Clock,
        *,
        rules: SegmentRules = OUR_SEGMENT_RULES,
    ) -> None:
        super().__init__(files, base_offset, rules)
        self.age = SegmentAge(files.records, clock)
        self.index_interval_bytes = index_interval_bytes
        self.roll_jitter_ms = roll_jitter_ms
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
        """Return a segment in a folder; a missing records file is created.

        Args:
            folder: folder of the partition.
            base_offset: base offset in the file names.
            config: interval and size of the indexes, jitter.
            clock: source of the time.
            file_already_exists: whether to use an existing file as it is, even with `preallocate`.
            init_file_size: bytes of a new file with `preallocate`.
            preallocate: whether to allocate a new file.
            suffix: suffix of a `FileState`, for a segment that is not part of the log yet.
            disk: disk of the files.
            rules: rules for damaged files.

        Raises:
            ValueError: the rules do not allow the base offset.
        """
        if base_offset < rules.smallest_base:
            raise ValueError(f"no segment has the base offset {base_offset}")
        files = WritableSegmentFiles.open(
            folder,
            base_offset,
            config.max_index_size,
            suffix=suffix,
            file_already_exists=file_already_exists,
            init_file_size=init_file_size,
            preallocate=preallocate,
            disk=disk,
            walk=rules.walk,
        )
        jitter = config.random_segment_jitter()
        return cls(files, base_offset, config.index_interval, jitter, clock, rules=rules)

    @classmethod
    def create(
        cls,
        folder: WritableLogFolder,
        base_offset: Offset,
        *,
        suffix: str = "",
        rules: SegmentRules = OUR_SEGMENT_RULES,
    ) -> Self:
        """Return a new segment of a log, preallocated if configured. Arguments as in `open`."""
        return cls.open(
            folder.path,
            base_offset,
            folder.config,
            folder.clock,
            init_file_size=folder.config.initial_file_size,
            preallocate=folder.config.preallocate,
            suffix=suffix,
            disk=folder.disk,
            rules=rules,
        )

    def __repr__(self) -> str:
        known = self._max_timestamp_and_offset
        largest = NO_TIMESTAMP if known is None else known.timestamp
        return (
            f"WritableSegment(base_offset={self.base_offset}, size={self.size},"
            f" last_modified={self.files.last_modified}, largest_timestamp={largest})"
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
        """Return whether the log should roll: this segment is full or old, or cannot hold the new batches."""
        size = self.log.size
        if size > params.max_segment_size - params.messages_size:
            return True
        if size:
            waited = self.age.waited(params.now, params.max_timestamp)
            if waited > params.max_segment_ms - self.roll_jitter_ms:
                return True
        offset_index = self.files.offset_index.get()
        return (
            offset_index.is_full
            or self.files.time_index.get().is_full
            or not offset_index.can_append_offset(params.max_offset)
        )

    def on_become_inactive_segment(self) -> None:
        """Add the largest timestamp to the time index, and cut off preallocated bytes."""
        self.time_index.maybe_append(*self.max_timestamp_and_offset_so_far, skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        self.log.trim()

    def resize_indexes(self, size: int) -> None:
        """Set the length of both indexes to `size` bytes, rounded down to whole entries."""
        self.offset_index.resize(size)
        self.time_index.resize(size)

    def sanity_check(self, time_index_newly_created: bool) -> None:
        """Check the indexes of a segment that was just opened.

        Raises:
            FileNotFoundError: there is no offset index.
            CorruptIndexError: the transaction index contradicts itself.
        """
        path = self.files.offset_index.path
        if not self.files.disk.exists(path):
            raise FileNotFoundError(f"there is no offset index {path}")
        if time_index_newly_created:
            self.time_index.resize(0)
        self.rules.check_transactions(self.txn_index, self.files.disk)

    # Appending

    def append(self, largest_offset: Offset, records: MemoryRecords, heads: Heads = None) -> None:
        """Append batches, and an index entry after each interval.

        Args:
            largest_offset: last offset of the batches.
            records: whole batches, or none.
            heads: heads of the batches, if they were read before.

        Raises:
            OffsetOverflowError: the offset is too far from the base offset; nothing was written.
            ValueError: the file would be too large; nothing was written.
        """
        if not records.size:
            return
        position = self.log.size
        offset_index = self.files.offset_index.get()
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
                self.files.time_index.get().maybe_append(*largest)
                self._bytes_since_last_index_entry = 0
            position += size
            self._bytes_since_last_index_entry += size

    def append_from_file(self, records: FileRecords, start: Position) -> int:
        """Append the batches of a file from a position on, up to the first with an offset too large for this segment.

        Returns:
            The number of appended bytes.
        """
        position = start
        while position < records.end:
            appended = self._append_chunk(records, position)
            if not appended:
                break
            position += appended
        return position - start

    def _append_chunk(self, records: FileRecords, position: Position) -> int:
        """Append batches of less than a chunk, or one larger batch; return the number of bytes."""
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
        """Add an ended transaction to the transaction index, if it was aborted."""
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
        """Empty the indexes and reset the largest timestamp, before a recovery."""
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self._max_timestamp_and_offset = None

    def finish_recovery(self, valid_bytes: int) -> None:
        """Cut off the bytes after the last valid batch, and complete the indexes."""
        self.log.truncate_to(valid_bytes)
        self.offset_index.trim_to_valid_size()
        self.time_index.maybe_append(*self.max_timestamp_and_offset_so_far, skip_full_check=True)
        self.time_index.trim_to_valid_size()

    def note_max_timestamp(self, largest: TimestampOffset) -> None:
        """Set the largest timestamp that a recovery has found."""
        self._max_timestamp_and_offset = largest

    def truncate_to(self, offset: Offset) -> int:
        """Remove the batches from an offset on; return the number of removed bytes."""
        found = self.translate_offset(offset)
        offset_index, time_index = self.offset_index, self.time_index
        offset_index.truncate_to(offset)
        time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        offset_index.resize(offset_index.max_index_size)
        time_index.resize(time_index.max_index_size)
        truncated = 0 if found is None else self.log.truncate_to(found.position)
        if self.log.size == 0:
            self.age.restart()
        self._bytes_since_last_index_entry = 0
        if self.max_timestamp_so_far >= 0:
            self._max_timestamp_and_offset = self._read_largest_timestamp()
        return truncated

    def _read_largest_timestamp(self) -> TimestampOffset:
        """Return the last entry of the time index, or a larger timestamp of the batches after it."""
        last = self.time_index.last_entry
        position = self.offset_index.lookup(last.offset).position
        after = self.log.largest_timestamp_after(position)
        return after if after.timestamp > last.timestamp else last

    # Files

    def flush(self) -> None:
        """Sync records and indexes to the device."""
        self.files.flush()

    def close(self) -> None:
        """Add the largest timestamp to the time index, then flush and close all files."""
        if self._max_timestamp_and_offset is not None:
            try:
                self.time_index.maybe_append(*self._max_timestamp_and_offset, skip_full_check=True)
            except FAILURES as error:
                logger.warning(
                    "the time index of %s lacks its last entry: %s", self.log.path, error
                )
        self.files.close()

    def close_handlers(self) -> None:
        """Close all files without writing: their disk may have failed."""
        self.files.close_handlers()
