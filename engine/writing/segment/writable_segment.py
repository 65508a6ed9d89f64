"""A writable segment: a records file and three indexes, kept consistent.

The offset and time index are opened at their first use. One thread appends, truncates and recovers,
under the lock of the log; reading is safe meanwhile.
"""

from __future__ import annotations

from typing import Self

from engine.clock import Clock
from engine.closable import Closable
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import OffsetOverflowError
from engine.index.transaction_index import AbortedTxn
from engine.record.memory_records import MemoryRecords
from engine.units import NO_TIMESTAMP, Offset, Timestamp
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.batch_heads import Heads, batch_heads
from engine.writing.segment.rolling import RollParams, SegmentAge
from engine.writing.segment.segment_files import WritableSegmentFiles
from engine.writing.segment.segment_indexes import SegmentIndexes
from engine.writing.segment.segment_look_ups import SegmentLookUps
from engine.writing.segment.segment_rules import OUR_SEGMENT_RULES, SegmentRules
from engine.writing.state.completed_txn import CompletedTxn


class WritableSegment(Closable):
    """One segment of a writable log.

    Args:
        files: open files, owned by the segment from now on.
        base_offset: smallest offset of the segment.
        index_interval_bytes: bytes between two index entries.
        roll_jitter_ms: milliseconds subtracted from the age limit of the segment.
        clock: source of the time.
        rules: rules for damaged files.

    Attributes:
        log: the records file, by Kafka's name.
        indexes: adds the entries of the indexes, and knows the largest timestamp.
        age: age of the segment.
        read, translate_offset, find_offset_by_timestamp, read_next_offset,
            offset_after, can_hold, has_overflow: methods of `SegmentLookUps`.

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
        self.files = files
        self.log = files.records
        self.base_offset = base_offset
        self.rules = rules
        self.age = SegmentAge(files.records, clock)
        self.roll_jitter_ms = roll_jitter_ms
        self.indexes = SegmentIndexes(files, index_interval_bytes)
        look_ups = SegmentLookUps(files, base_offset, rules)
        self.read = look_ups.read
        self.translate_offset = look_ups.translate_offset
        self.find_offset_by_timestamp = look_ups.find_offset_by_timestamp
        self.read_next_offset = look_ups.read_next_offset
        self.offset_after = look_ups.offset_after
        self.can_hold = look_ups.can_hold
        self.has_overflow = look_ups.has_overflow

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
        known = self.indexes.known_largest
        largest = NO_TIMESTAMP if known is None else known.timestamp
        return (
            f"WritableSegment(base_offset={self.base_offset}, size={self.size},"
            f" last_modified={self.files.last_modified}, largest_timestamp={largest})"
        )

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
    def largest_timestamp(self) -> Timestamp:
        """Largest timestamp, or the modification time of the records file without one."""
        largest = self.indexes.largest.timestamp
        return largest if largest >= 0 else self.files.last_modified

    # Rolling

    def should_roll(self, params: RollParams) -> bool:
        """Return whether the log should roll: this segment is full or old, or cannot hold the new batches."""
        max_segment_ms, max_segment_size, max_timestamp, max_offset, messages_size, now = params
        size = self.log.end
        if size > max_segment_size - messages_size:
            return True
        if size and self.age.waited(now, max_timestamp) > max_segment_ms - self.roll_jitter_ms:
            return True
        offsets, times = self.indexes.opened or self.indexes.both()
        return not offsets.has_room_for(max_offset) or times.is_full

    def on_become_inactive_segment(self) -> None:
        """Add the largest timestamp to the time index, and cut off preallocated bytes."""
        self.indexes.finish()
        self.log.trim()

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
        position = self.log.end
        if not self.files.offset_index.get().can_append_offset(largest_offset):
            raise OffsetOverflowError(
                f"offset {largest_offset} is too far from the base offset of {self.log.path}"
            )
        self.log.append(records)
        self.indexes.add(batch_heads(records) if heads is None else heads, position)

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

    def finish_recovery(self, valid_bytes: int) -> None:
        """Cut off the bytes after the last valid batch, and complete the indexes."""
        self.log.truncate_to(valid_bytes)
        self.indexes.finish()

    def truncate_to(self, offset: Offset) -> int:
        """Remove the batches from an offset on; return the number of removed bytes."""
        found = self.translate_offset(offset)
        self.indexes.truncate_to(offset)
        truncated = 0 if found is None else self.log.truncate_to(found.position)
        if self.log.size == 0:
            self.age.restart()
        self.indexes.find_largest()
        return truncated

    # Files

    def flush(self) -> None:
        """Sync records and indexes to the device."""
        self.files.flush()

    def close(self) -> None:
        """Add the largest timestamp to the time index, then flush and close all files."""
        self.indexes.complete()
        self.files.close()

    def close_handlers(self) -> None:
        """Close all files without writing: their disk may have failed."""
        self.files.close_handlers()
