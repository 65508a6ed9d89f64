"""Segments of one partition's log: append, flush, read, roll, truncate, delete.

Not safe for several writers: the owner holds a lock. Readers need none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from engine.broker.log.aborted_transactions import aborted_in, segments_from
from engine.errors import OffsetOutOfRangeError, StateError
from engine.files.file_names import FileState
from engine.log.log_segments import LogSegments
from engine.log.segment.fetch import FetchDataInfo, read_up_to
from engine.record.memory_records import MemoryRecords
from engine.units import LogOffsetMetadata, Offset
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.batch_heads import Heads
from engine.writing.segment.segment_files import delete_files_if_exist
from engine.writing.segment.segment_replacement import (
    SplitSegmentResult,
    delete_segment_files,
    replace_segments,
    split_overflowed_segment,
)
from engine.writing.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)


class LocalLog:
    """Segments of a log, and its end.

    Args:
        folder: folder of the log.
        segments: at least one.
        recovery_point: offset below which all is on the device.
        next_offset_metadata: the log end.

    Attributes:
        last_flush_time: time of the last move of the recovery point.
        is_closed: whether the log was deleted, or closed without a flush.

    An OSError takes the log dir offline and becomes a LogDirFailureError, except where a method raises OSError.
    """

    def __init__(
        self,
        folder: WritableLogFolder,
        segments: LogSegments[WritableSegment],
        recovery_point: Offset,
        next_offset_metadata: LogOffsetMetadata,
    ) -> None:
        self.folder = folder
        self.segments = segments
        self.recovery_point = recovery_point
        self.next_offset_metadata = next_offset_metadata
        self.topic_partition = folder.topic_partition
        self.last_flush_time = folder.clock.now_ms()
        self.is_closed = False

    def __repr__(self) -> str:
        return f"LocalLog({self.folder.path!r}, log_end_offset={self.log_end_offset})"

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """Offset of the next record, and its position."""
        return self.next_offset_metadata

    @property
    def log_end_offset(self) -> Offset:
        """Offset of the next record."""
        return self.next_offset_metadata.offset

    def update_log_end_offset(self, offset: Offset) -> None:
        """Set the log end; a recovery point above it moves down."""
        active = self.segments.active_segment
        self.next_offset_metadata = LogOffsetMetadata(offset, active.base_offset, active.size)
        self.recovery_point = min(self.recovery_point, offset)

    def ensure_open(self) -> None:
        """Raise StateError after the log was deleted, or closed without a flush."""
        if self.is_closed:
            raise StateError(
                f"the files of {self.topic_partition} in {self.folder.log_dir} are closed"
            )

    # Appending and flushing

    def append(self, last_offset: Offset, records: MemoryRecords, heads: Heads = None) -> None:
        """Append batches to the active segment. Raises OSError and the errors of `WritableSegment.append`."""
        active = self.segments.active_segment
        active.append(last_offset, records, heads)
        self.next_offset_metadata = LogOffsetMetadata(
            last_offset + 1, active.base_offset, active.log.end
        )

    def flush(self, offset: Offset) -> None:
        """Sync the segments with offsets from the recovery point to below `offset`. Raises OSError."""
        start = self.recovery_point
        if start > offset:
            return
        is_new = False
        for segment in self.segments.values(start, offset):
            segment.flush()
            is_new |= segment.base_offset >= start
        if is_new:
            self._sync_folder()

    def _sync_folder(self) -> None:
        try:
            self.folder.sync()
        except FileNotFoundError:
            logger.info("%s was renamed during a flush", self.folder.path)

    def mark_flushed(self, offset: Offset) -> None:
        """Move the recovery point up to a flushed offset."""
        self.ensure_open()
        if offset > self.recovery_point:
            self.recovery_point = offset
            self.last_flush_time = self.folder.clock.now_ms()

    # Reading

    def read(
        self,
        start_offset: Offset,
        max_length: int,
        min_one_message: bool,
        max_offset_metadata: LogOffsetMetadata,
        include_aborted_txns: bool = False,
    ) -> FetchDataInfo:
        """Return batches of one segment, from the first that reaches an offset.

        Args:
            start_offset: first offset.
            max_length: most bytes.
            min_one_message: return the first batch whole, whatever its size.
            max_offset_metadata: offset where the reader has to stop.
            include_aborted_txns: add the aborted transactions of the batches.

        Raises:
            OffsetOutOfRangeError: the log begins above or ends below the offset.
        """
        with self.folder.reporting("cannot read"):
            if start_offset > self.log_end_offset or self.segments.floor(start_offset) is None:
                raise OffsetOutOfRangeError(
                    f"{self.topic_partition} has offsets up to {self.log_end_offset},"
                    f" not {start_offset}"
                )
            fetched, segment = read_up_to(
                partial(segments_from, self.segments),
                self.next_offset_metadata,
                start_offset,
                max_length,
                max_offset_metadata,
                min_one_message=min_one_message,
            )
            if not include_aborted_txns:
                return fetched
            if segment is not None:
                end = self.log_end_offset
                aborted = aborted_in(fetched, self.segments, segment, start_offset, end)
                return fetched._replace(aborted_transactions=aborted)
            if start_offset >= max_offset_metadata.offset:
                return fetched._replace(aborted_transactions=[])
            return fetched

    def convert_to_offset_metadata(self, offset: Offset) -> LogOffsetMetadata:
        """Return an offset with the position of its batch. Raises OffsetOutOfRangeError as `read` does."""
        return self.read(offset, 1, False, self.next_offset_metadata).fetch_offset_metadata

    # Rolling

    def roll(self, expected_next_offset: Offset | None = None) -> WritableSegment:
        """Create a new active segment at the log end, or at an offset above it, and return it.

        An empty active segment at that offset is replaced.

        Raises:
            StateError: that segment exists, or a later one.
        """
        with self.folder.reporting("cannot roll"):
            self.ensure_open()
            new_offset = max(expected_next_offset or 0, self.log_end_offset)
            segment = self._roll_at(new_offset)
            self.update_log_end_offset(self.log_end_offset)
            logger.info("%s has a new segment at %d", self.topic_partition, new_offset)
            return segment

    def _roll_at(self, new_offset: Offset) -> WritableSegment:
        active = self.segments.last
        if new_offset in self.segments:
            if active is None or active.base_offset != new_offset or active.size:
                raise StateError(
                    f"{self.topic_partition} cannot roll at {new_offset}: there is"
                    f" {self.segments.get(new_offset)!r}"
                )
            entries = active.offset_index.entries, active.time_index.entries  # opens both, as Kafka
            logger.warning("%s rolls at its empty segment: %s", self.topic_partition, entries)
            return self.create_and_delete_segment(new_offset, active, True, "the log rolled")
        if active is not None and new_offset < active.base_offset:
            raise StateError(
                f"{self.topic_partition} cannot roll at {new_offset}, below its active {active!r}"
            )
        for path in delete_files_if_exist(self.folder.path, new_offset, disk=self.folder.disk):
            logger.warning("removed %s, which was in the way of a new segment", path)
        if active is not None:
            active.on_become_inactive_segment()
            if self.recovery_point >= new_offset:  # no later flush would sync these changes
                active.flush()
        segment = WritableSegment.create(self.folder, new_offset)
        self.segments.add(segment)
        return segment

    # Truncating

    def truncate_to(self, target: Offset) -> list[WritableSegment]:
        """Remove the offsets from `target` on; return the removed segments. Raises OSError.

        The segments go from the end on, each removal on the device before the next: a crash must not
        leave a log in which records are missing before others. All changes are on the device on return:
        records must not come back under the leader epoch of those that replace them.
        """
        going = self.segments.filter(lambda segment: segment.base_offset > target)
        for segment in reversed(going):
            self.remove_and_delete_segments([segment], True, "the log is truncated")
            self._sync_folder()
        active = self.segments.active_segment
        active.truncate_to(target)
        active.log.flush()
        self.update_log_end_offset(target)
        return going

    def truncate_fully_and_start_at(self, new_offset: Offset) -> list[WritableSegment]:
        """Remove all batches and continue at an offset; return the removed segments.

        The log has an active segment all the time.
        """
        with self.folder.reporting("cannot truncate"):
            self.ensure_open()
            going = list(self.segments)
            if going:
                reason = "the log is truncated"
                self.remove_and_delete_segments(going[:-1], True, reason)
                self.create_and_delete_segment(new_offset, going[-1], True, reason)
                self._sync_folder()
            self.update_log_end_offset(new_offset)
            return going

    # Deleting and replacing

    def remove_and_delete_segments(
        self, segments: Iterable[WritableSegment], async_delete: bool, reason: str
    ) -> None:
        """Remove segments from the log and delete their files, now or later. Raises OSError."""
        going = list(segments)
        if not going:
            return
        logger.info("deleting segments of %s, since %s: %s", self.topic_partition, reason, going)
        for segment in going:
            self.segments.remove(segment.base_offset)
        delete_segment_files(self.folder, going, async_delete=async_delete)

    def create_and_delete_segment(
        self, new_offset: Offset, going: WritableSegment, async_delete: bool, reason: str
    ) -> WritableSegment:
        """Create a segment, then delete another, so that the log is never empty. Raises OSError."""
        if new_offset == going.base_offset:
            going.files.change_suffixes("", FileState.DELETED.value)
        segment = WritableSegment.create(self.folder, new_offset)
        self.segments.add(segment)
        logger.info("deleting a segment of %s, since %s: %r", self.topic_partition, reason, going)
        if new_offset != going.base_offset:
            self.segments.remove(going.base_offset)
        delete_segment_files(self.folder, [going], async_delete=async_delete)
        return segment

    def delete_all_segments(self) -> list[WritableSegment]:
        """Delete all segments now, close the log, and return the segments."""
        with self.folder.reporting("cannot delete all segments of"):
            going = list(self.segments)
            self.remove_and_delete_segments(going, False, "the log is deleted")
            self.is_closed = True
            return going

    def delete_empty_dir(self) -> None:
        """Remove the folder. Raises StateError unless all segments were deleted."""
        with self.folder.reporting("cannot delete the folder of"):
            if len(self.segments):
                raise StateError(f"{self.folder.path} has {len(self.segments)} segments")
            if not self.is_closed:
                raise StateError(f"the files of {self.folder.path} are open")
            self.folder.disk.remove_tree(self.folder.path)

    def replace_segments(
        self, new: Sequence[WritableSegment], old: Sequence[WritableSegment]
    ) -> list[WritableSegment]:
        """Replace segments; see `segment_replacement.replace_segments`. Raises OSError."""
        return replace_segments(self.folder, self.segments, new, old)

    def split_overflowed_segment(self, segment: WritableSegment) -> SplitSegmentResult:
        """Split a segment; see `segment_replacement.split_overflowed_segment`. Raises OSError."""
        return split_overflowed_segment(self.folder, self.segments, segment)

    # The folder

    def rename_dir(self, name: str) -> bool:
        """Rename the folder within its log dir; return whether the name is new."""
        with self.folder.reporting("cannot rename the folder of"):
            is_new = self.folder.rename(name)
            for segment in self.segments:
                segment.files.update_parent_dir(self.folder.path)
            self.folder.disk.sync_folder(self.folder.log_dir)
            return is_new

    def close(self) -> None:
        """Flush and close all segments. May be called twice.

        Raises:
            StateError: the log was deleted, or closed without a flush.
        """
        with self.folder.reporting("cannot close"):
            self.ensure_open()
            self.segments.close()

    def close_handlers(self) -> None:
        """Close all files without writing: their disk may have failed."""
        for segment in self.segments:
            segment.close_handlers()
        self.is_closed = True
