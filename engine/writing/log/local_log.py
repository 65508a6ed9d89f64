"""The segments of one partition's log: where it ends, what is flushed, rolling, truncating, deleting.

Not safe for several writers: whoever owns it holds a lock. Readers need none.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from engine.clock import Clock
from engine.errors import OffsetOutOfRangeError, StateError
from engine.files.file_names import FileState, FolderState
from engine.index.transaction_index import AbortedTxn
from engine.log.log_segments import LogSegments
from engine.log.segment.fetch import FetchDataInfo, read_up_to
from engine.record.memory_records import MemoryRecords
from engine.units import LogOffsetMetadata, Offset, OffsetPosition, TopicPartition
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log.log_folder_names import (
    log_delete_dir_name,
    log_dir_name,
    log_future_dir_name,
    log_stray_dir_name,
    parse_topic_partition_name,
)
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.scheduler import Scheduler
from engine.writing.segment import segment_replacement
from engine.writing.segment.batch_heads import Heads
from engine.writing.segment.segment_files import delete_files_if_exist
from engine.writing.segment.segment_replacement import (
    SplitSegmentResult,
    create_new_cleaned_segment,
    delete_segment_files,
    replace_segments,
    split_overflowed_segment,
)
from engine.writing.segment.writable_segment import WritableSegment

__all__ = [
    "LocalLog",
    "SplitSegmentResult",
    "create_new_cleaned_segment",
    "delete_segment_files",
    "log_delete_dir_name",
    "log_dir_name",
    "log_future_dir_name",
    "log_stray_dir_name",
    "parse_topic_partition_name",
    "replace_segments",
    "split_overflowed_segment",
]

log = logging.getLogger(__name__)


class LocalLog:
    """A log's segments as they lie in a folder.

    Args:
        folder: of the partition.
        config: how the log is kept.
        segments: at least one.
        recovery_point: offsets below are known to be on the device.
        next_offset_metadata: the log end.
        scheduler: removes files later.
        clock: tells when what was flushed.
        topic_partition: whose log it is.
        log_dir_failure_channel: takes reports of I/O errors.
        disk: where the files lie.

    Attributes:
        last_flush_time: when the recovery point moved last.

    Where methods say nothing else, an OSError takes the log dir offline and becomes a LogDirFailureError.
    """

    def __init__(
        self,
        folder: StrPath,
        config: LogConfig,
        segments: LogSegments[WritableSegment],
        recovery_point: Offset,
        next_offset_metadata: LogOffsetMetadata,
        scheduler: Scheduler,
        clock: Clock,
        topic_partition: TopicPartition,
        log_dir_failure_channel: LogDirFailureChannel,
        *,
        disk: Disk = DISK,
    ) -> None:
        self.folder = os.fspath(folder)
        self.config = config
        self.segments = segments
        self.recovery_point = recovery_point
        self.next_offset_metadata = next_offset_metadata
        self.scheduler = scheduler
        self.clock = clock
        self.topic_partition = topic_partition
        self.log_dir_failure_channel = log_dir_failure_channel
        self.last_flush_time = clock.now_ms()
        self._disk = disk
        self._is_closed = False

    def __repr__(self) -> str:
        return f"LocalLog({self.folder!r}, log_end_offset={self.log_end_offset})"

    # What it is

    @property
    def name(self) -> str:
        """The folder's name."""
        return os.path.basename(self.folder)

    @property
    def parent_dir(self) -> str:
        """The log dir."""
        return os.path.dirname(self.folder)

    @property
    def is_future(self) -> bool:
        """Whether it will replace the log of its partition in another log dir."""
        return self.folder.endswith(FolderState.FUTURE.value)

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """The offset that comes next, and where it will lie."""
        return self.next_offset_metadata

    @property
    def log_end_offset(self) -> Offset:
        """The offset that comes next."""
        return self.next_offset_metadata.offset

    def update_config(self, config: LogConfig) -> None:
        """Keep the log by another configuration from now on."""
        self.config = config

    def update_log_end_offset(self, offset: Offset) -> None:
        """Say where the log ends; a recovery point above that moves down to it."""
        active = self.segments.active_segment
        self.next_offset_metadata = LogOffsetMetadata(offset, active.base_offset, active.size)
        self.recovery_point = min(self.recovery_point, offset)

    def update_recovery_point(self, offset: Offset) -> None:
        """Say up to where the log is on the device."""
        self.recovery_point = offset

    def check_if_memory_mapped_buffer_closed(self) -> None:
        """Raises StateError once the log was deleted, or closed because its disk failed."""
        if self._is_closed:
            raise StateError(f"the files of {self.topic_partition} in {self.parent_dir} are closed")

    def _reporting(self, what: str) -> AbstractContextManager[None]:
        return self.log_dir_failure_channel.reporting(
            self.parent_dir, f"{what} {self.topic_partition} in {self.parent_dir} failed"
        )

    # Appending and flushing

    def append(self, last_offset: Offset, records: MemoryRecords, heads: Heads = None) -> None:
        """Write batches to the active segment; see there. Raises what that raises, OSError too."""
        active = self.segments.active_segment
        active.append(last_offset, records, heads)
        place = active.base_offset, active.log.size
        self.next_offset_metadata = LogOffsetMetadata(last_offset + 1, *place)

    def flush(self, offset: Offset) -> None:
        """Sync the segments that hold offsets from the recovery point to below `offset`. Raises OSError."""
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
            self._disk.sync_folder(self.folder)
        except FileNotFoundError:
            log.info("%s was renamed while it was flushed", self.folder)

    def mark_flushed(self, offset: Offset) -> None:
        """Move the recovery point up to an offset that was flushed."""
        self.check_if_memory_mapped_buffer_closed()
        if offset > self.recovery_point:
            self.recovery_point = offset
            self.last_flush_time = self.clock.now_ms()

    # Reading

    def read(
        self,
        start_offset: Offset,
        max_length: int,
        min_one_message: bool,
        max_offset_metadata: LogOffsetMetadata,
        include_aborted_txns: bool = False,
    ) -> FetchDataInfo:
        """Batches of one segment, from the first that reaches an offset.

        Args:
            start_offset: where to begin.
            max_length: bytes to give at most.
            min_one_message: give the first batch whole, whatever its size.
            max_offset_metadata: where readers have to stop.
            include_aborted_txns: tell which transactions in it were aborted.

        Raises:
            OffsetOutOfRangeError: the log begins above or ends below the offset.
        """
        with self._reporting("reading"):
            if start_offset > self.log_end_offset or self.segments.floor(start_offset) is None:
                raise OffsetOutOfRangeError(
                    f"{self.topic_partition} has offsets up to {self.log_end_offset},"
                    f" not {start_offset}"
                )
            fetched, segment = read_up_to(
                self._segments_from,
                self.next_offset_metadata,
                start_offset,
                max_length,
                max_offset_metadata,
                min_one_message=min_one_message,
            )
            if not include_aborted_txns:
                return fetched
            if segment is not None:
                return self._with_aborted_transactions(start_offset, segment, fetched)
            if start_offset >= max_offset_metadata.offset:
                return fetched._replace(aborted_transactions=[])
            return fetched

    def _segments_from(self, offset: Offset) -> Iterator[WritableSegment]:
        segment = self.segments.floor(offset)
        while segment is not None:
            yield segment
            segment = self.segments.higher(segment.base_offset)

    def convert_to_offset_metadata(self, offset: Offset) -> LogOffsetMetadata:
        """Where the batch of an offset lies. OffsetOutOfRangeError as in `read`."""
        return self.read(offset, 1, False, self.next_offset_metadata).fetch_offset_metadata

    def _with_aborted_transactions(
        self, start_offset: Offset, segment: WritableSegment, fetched: FetchDataInfo
    ) -> FetchDataInfo:
        begin = fetched.fetch_offset_metadata
        upper_bound = segment.fetch_upper_bound_offset(
            OffsetPosition(begin.offset, begin.position), fetched.records.size
        )
        if upper_bound is None:
            following = self.segments.higher(segment.base_offset)
            upper_bound = self.log_end_offset if following is None else following.base_offset
        aborted = self._aborted_from(segment, start_offset, upper_bound)
        return fetched._replace(aborted_transactions=list(aborted))

    def _aborted_from(
        self, first: WritableSegment, start_offset: Offset, upper_bound: Offset
    ) -> Iterator[AbortedTxn]:
        for segment in self._segments_from(first.base_offset):
            aborted, is_complete = segment.collect_aborted_txns(start_offset, upper_bound)
            yield from aborted
            if is_complete:
                return

    def collect_aborted_transactions(
        self, log_start_offset: Offset, base_offset: Offset, upper_bound: Offset
    ) -> list[AbortedTxn]:
        """The aborted transactions that end at or above the log start and begin below a bound.

        The indexes of the segment of `base_offset` and of those after it are asked.
        """
        segment = self.segments.floor(base_offset)
        if segment is None:
            return []
        return list(self._aborted_from(segment, log_start_offset, upper_bound))

    # Rolling

    def roll(self, expected_next_offset: Offset | None = None) -> WritableSegment:
        """Begin a new active segment at the log end, or at an offset above.

        An active segment that is empty and begins there is made anew.

        Raises:
            StateError: there is such a segment already, or a later one.
        """
        with self._reporting("rolling"):
            self.check_if_memory_mapped_buffer_closed()
            new_offset = max(expected_next_offset or 0, self.log_end_offset)
            segment = self._roll_at(new_offset)
            self.update_log_end_offset(self.log_end_offset)
            log.info("%s has a new segment at %d", self.topic_partition, new_offset)
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
            log.warning("%s rolls at its empty segment: %s", self.topic_partition, entries)
            return self.create_and_delete_segment(new_offset, active, True, "the log rolled")
        if active is not None and new_offset < active.base_offset:
            raise StateError(
                f"{self.topic_partition} cannot roll at {new_offset}, below its active {active!r}"
            )
        for path in delete_files_if_exist(self.folder, new_offset, disk=self._disk):
            log.warning("%s was in the way of a new segment and is gone", path)
        if active is not None:
            active.on_become_inactive_segment()
            if self.recovery_point >= new_offset:  # no flush comes after what was changed just now
                active.flush()
        segment = self._open_segment(new_offset)
        self.segments.add(segment)
        return segment

    def _open_segment(self, base_offset: Offset) -> WritableSegment:
        return WritableSegment.open(
            self.folder,
            base_offset,
            self.config,
            self.clock,
            init_file_size=self.config.initial_file_size,
            preallocate=self.config.preallocate,
            disk=self._disk,
        )

    # Truncating

    def truncate_to(self, target: Offset) -> list[WritableSegment]:
        """Remove what has this offset or more; the segments that go whole. Raises OSError.

        They go from the end on, each on the device before the next: a crash must not leave a log in which
        records are missing before others. All is on the device when this returns: records must not come back
        under the leader epoch of those that take their places.
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
        """Remove everything and go on at an offset; the segments that go.

        There is an active segment at any time meanwhile.
        """
        with self._reporting("truncating"):
            self.check_if_memory_mapped_buffer_closed()
            going = list(self.segments)
            if going:
                reason = "the log is truncated"
                self.remove_and_delete_segments(going[:-1], True, reason)
                self.create_and_delete_segment(new_offset, going[-1], True, reason)
                self._sync_folder()
            self.update_log_end_offset(new_offset)
            return going

    # Deleting

    def remove_and_delete_segments(
        self, segments: Iterable[WritableSegment], async_delete: bool, reason: str
    ) -> None:
        """Take segments out of the log and delete their files, now or after a while. Raises OSError."""
        going = list(segments)
        if not going:
            return
        log.info("Deleting segments of %s, since %s: %s", self.topic_partition, reason, going)
        for segment in going:
            self.segments.remove(segment.base_offset)
        self._delete_files(going, async_delete)

    def create_and_delete_segment(
        self, new_offset: Offset, going: WritableSegment, async_delete: bool, reason: str
    ) -> WritableSegment:
        """Begin a new segment, then delete another: the log is never without one. Raises OSError."""
        if new_offset == going.base_offset:
            going.change_file_suffixes("", FileState.DELETED.value)
        segment = self._open_segment(new_offset)
        self.segments.add(segment)
        log.info("Deleting a segment of %s, since %s: %r", self.topic_partition, reason, going)
        if new_offset != going.base_offset:
            self.segments.remove(going.base_offset)
        self._delete_files([going], async_delete)
        return segment

    def _delete_files(self, segments: Iterable[WritableSegment], async_delete: bool) -> None:
        delete_segment_files(
            segments,
            async_delete,
            self.folder,
            self.topic_partition,
            self.config,
            self.scheduler,
            self.log_dir_failure_channel,
            disk=self._disk,
        )

    def delete_all_segments(self) -> list[WritableSegment]:
        """Take out all segments and remove their files now; the log is closed then."""
        with self._reporting("deleting all segments of"):
            going = list(self.segments)
            self.remove_and_delete_segments(going, False, "the log is deleted")
            self._is_closed = True
            return going

    def delete_empty_dir(self) -> None:
        """Remove the folder of a log whose segments are deleted.

        Raises:
            StateError: they are not.
        """
        with self._reporting("deleting the folder of"):
            if len(self.segments):
                raise StateError(f"{self.folder} has {len(self.segments)} segments")
            if not self._is_closed:
                raise StateError(f"the files of {self.folder} are open")
            self._disk.remove_tree(self.folder)

    # Replacing

    def replace_segments(
        self,
        new: Sequence[WritableSegment],
        old: Sequence[WritableSegment],
        is_recovered_swap_file: bool = False,
    ) -> list[WritableSegment]:
        """Put segments in the place of others: see `segment_replacement`. Raises OSError."""
        return segment_replacement.replace_segments(
            self.segments,
            new,
            old,
            self.folder,
            self.topic_partition,
            self.config,
            self.scheduler,
            self.log_dir_failure_channel,
            is_recovered_swap_file=is_recovered_swap_file,
            disk=self._disk,
        )

    def split_overflowed_segment(self, segment: WritableSegment) -> SplitSegmentResult:
        """Put several segments in the place of one: see `segment_replacement`. Raises OSError."""
        return segment_replacement.split_overflowed_segment(
            segment,
            self.segments,
            self.folder,
            self.topic_partition,
            self.config,
            self.scheduler,
            self.log_dir_failure_channel,
            disk=self._disk,
        )

    # The folder

    def rename_dir(self, name: str) -> bool:
        """Give the folder another name in its log dir; whether that is a new one."""
        with self._reporting("renaming the folder of"):
            renamed = os.path.join(self.parent_dir, name)
            self._disk.rename(self.folder, renamed)
            is_new = renamed != self.folder
            self.folder = renamed
            for segment in self.segments:
                segment.update_parent_dir(renamed)
            self._disk.sync_folder(self.parent_dir)
            return is_new

    def close(self) -> None:
        """Flush and close all segments; a second call does nothing.

        Raises:
            StateError: the log was deleted, or closed because its disk failed.
        """
        with self._reporting("closing"):
            self.check_if_memory_mapped_buffer_closed()
            self.segments.close()

    def close_handlers(self) -> None:
        """Close all files without writing: their disk may have failed."""
        for segment in self.segments:
            segment.close_handlers()
        self._is_closed = True
