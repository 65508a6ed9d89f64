"""Loading a log from its folder, after a clean stop or a crash.

See LogLoader in Kafka. Two of its ways are not ours: an I/O error while a segment is recovered does not empty
the segment, it ends the loading; and segments after a damaged one go before the damaged one is cut, since
after a crash between the two nobody could tell that records are missing.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from typing import NamedTuple, TypeVar

from engine.clock import Clock
from engine.errors import CorruptIndexError, InvalidOffsetError, OffsetOverflowError, StateError
from engine.files.file_names import FileKind, FileState, FolderState
from engine.log.log_segments import LogSegments
from engine.units import MAX_INT64, LogOffsetMetadata, Offset, TopicPartition
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log.leftovers import clear_leftovers, log_files, remove_orphaned_indexes
from engine.writing.log.local_log import delete_segment_files, split_overflowed_segment
from engine.writing.log.producer_rebuild import delete_producer_snapshots, rebuild_producer_state
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.scheduler import Scheduler
from engine.writing.segment.segment_files import time_index_path
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager

log = logging.getLogger(__name__)

T = TypeVar("T")


class LoadedLogOffsets(NamedTuple):
    """Where a loaded log begins and ends, and from where on it may not be on the disk.

    Attributes:
        log_start_offset: the first offset that readers see.
        recovery_point: what lies below is on the disk.
        next_offset_metadata: the log's end, and where that is in the active segment.
    """

    log_start_offset: Offset
    recovery_point: Offset
    next_offset_metadata: LogOffsetMetadata


class _Recovered(NamedTuple):
    recovery_point: Offset
    next_offset: Offset


class _SegmentOverflow(Exception):
    def __init__(self, segment: WritableSegment) -> None:
        super().__init__(segment.base_offset)
        self.segment = segment


class LogLoader:
    """Loads one log, once.

    Args:
        folder: the log's.
        topic_partition: whose log it is.
        config: how the log is kept.
        scheduler: deletes later what the loading takes out of the log.
        clock: tells the time.
        log_dir_failure_channel: where failures of those deletions are reported.
        had_clean_shutdown: whether the log was closed properly; if so nothing is recovered.
        segments: an empty collection; filled with what the log has.
        log_start_offset_checkpoint: where the log begins, as the log dir's checkpoint has it.
        recovery_point_checkpoint: from where on segments have to be recovered, as the checkpoint has it.
        leader_epoch_cache: brought to fit the log.
        producer_state_manager: an empty one; brought to fit the log.
        num_remaining_segments: how many segments each thread, by name, has still to recover; kept up to date.
        is_remote_log_enabled: whether older records may lie elsewhere, so that the log start can lie below
            the first segment.
        disk: does the writing.
    """

    def __init__(
        self,
        folder: StrPath,
        topic_partition: TopicPartition,
        config: LogConfig,
        scheduler: Scheduler,
        clock: Clock,
        log_dir_failure_channel: LogDirFailureChannel,
        had_clean_shutdown: bool,
        segments: LogSegments[WritableSegment],
        log_start_offset_checkpoint: Offset,
        recovery_point_checkpoint: Offset,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        num_remaining_segments: MutableMapping[str, int] | None = None,
        is_remote_log_enabled: bool = False,
        *,
        disk: Disk = DISK,
    ) -> None:
        self._folder = os.fspath(folder)
        self._topic_partition = topic_partition
        self._config = config
        self._scheduler = scheduler
        self._clock = clock
        self._channel = log_dir_failure_channel
        self._had_clean_shutdown = had_clean_shutdown
        self._segments = segments
        self._log_start = log_start_offset_checkpoint
        self._recovery_point = recovery_point_checkpoint
        self._leader_epochs = leader_epoch_cache
        self._producers = producer_state_manager
        self._remaining = {} if num_remaining_segments is None else num_remaining_segments
        self._is_remote_log_enabled = is_remote_log_enabled
        self._disk = disk
        self._opened: list[WritableSegment] = []
        self._recovered: ProducerStateManager | None = None

    def load(self) -> LoadedLogOffsets:
        """Make the folder, the segments, the epochs and the producers fit each other.

        Raises:
            OSError: the disk fails; what is there can be loaded another time.
            StateError: something is known of producers already.
            ValueError: a segment has offsets that no segment of its base offset can have.
        """
        try:
            return self._load()
        except BaseException:
            for segment in [*self._segments, *self._opened]:
                segment.close_handlers()
            raise

    def _load(self) -> LoadedLogOffsets:
        clear_leftovers(self._folder, self._config, self._clock, self._disk)
        self._splitting_overflows(self._load_segments)
        if self._is_being_deleted:
            recovered = self._nothing_to_recover()
        else:
            recovered = self._splitting_overflows(self._recover)
            self._segments.active_segment.resize_indexes(self._config.max_index_size)
        return self._fit_state(recovered)

    @property
    def _is_being_deleted(self) -> bool:
        return os.path.abspath(self._folder).endswith(FolderState.DELETE.value)

    def _fit_state(self, recovered: _Recovered) -> LoadedLogOffsets:
        self._leader_epochs.truncate_from_end_async_flush(recovered.next_offset)
        first, active = self._segments.first, self._segments.active_segment
        log_start = self._log_start
        if first is not None and not self._is_remote_log_enabled:
            log_start = max(log_start, first.base_offset)
        # The checkpoint's, not the first segment's: older epochs may be asked for, and harm nobody.
        self._leader_epochs.truncate_from_start_async_flush(self._log_start)
        if not self._producers.is_empty:
            raise StateError(f"{self._topic_partition} has producers before it is loaded")
        # Recovery worked with other managers, which may have removed files that this one still knows.
        self._producers.remove_stray_snapshots(self._segments.base_offsets)
        rebuild_producer_state(
            self._producers,
            self._segments,
            log_start,
            recovered.next_offset,
            self._clock,
            reload_from_clean_shutdown=self._had_clean_shutdown,
        )
        return LoadedLogOffsets(
            log_start,
            recovered.recovery_point,
            LogOffsetMetadata(recovered.next_offset, active.base_offset, active.size),
        )

    def _splitting_overflows(self, action: Callable[[], T]) -> T:
        """Do something again and again, until no segment is left with offsets too far from its base."""
        while True:
            try:
                return action()
            except _SegmentOverflow as overflow:
                log.info("splitting %r, whose offsets are too far apart", overflow.segment)
                split = split_overflowed_segment(
                    overflow.segment,
                    self._segments,
                    self._folder,
                    self._topic_partition,
                    self._config,
                    self._scheduler,
                    self._channel,
                    disk=self._disk,
                )
                self._delete_producer_snapshots_later(split.deleted_segments)

    # Opening the segments

    def _load_segments(self) -> None:
        self._segments.close()
        self._segments.clear()
        remove_orphaned_indexes(self._folder, self._disk)
        bases = [
            file.base_offset
            for file in log_files(self._folder, self._disk)
            if file.kind is FileKind.LOG and file.state is FileState.LIVE
        ]
        unflushed = MAX_INT64 + 1
        if not self._had_clean_shutdown and not self._is_being_deleted:
            unflushed = max((base for base in bases if base <= self._recovery_point), default=0)
        for base in bases:
            self._load_segment(base, is_recovered_later=base >= unflushed)

    def _load_segment(self, base_offset: Offset, *, is_recovered_later: bool) -> None:
        """Open a segment and add it; in order of the offsets, since transactions may reach over segments.

        One that is recovered anyhow is not before those that it follows are: they may be damaged.
        """
        had_time_index = self._disk.exists(time_index_path(self._folder, base_offset))
        segment = self._open(base_offset, file_already_exists=True)
        if not is_recovered_later:
            self._check_segment(segment, time_index_newly_created=not had_time_index)
        self._segments.add(segment)

    def _check_segment(self, segment: WritableSegment, *, time_index_newly_created: bool) -> None:
        """Make the indexes of a segment again that lacks one, or whose transaction index is damaged.

        An empty time index would do for Kafka, and hide the segment's records from looks by time.
        """
        try:
            segment.sanity_check(time_index_newly_created)
            if not time_index_newly_created or not segment.size:
                return
            log.error("%r has no time index; its indexes are made again", segment)
        except FileNotFoundError:
            log.error("%r has no offset index; its indexes are made again", segment)
        except CorruptIndexError as error:
            log.warning("the indexes of %r are made again: %s", segment, error)
        self._recover_segment(segment)
        segment.flush()  # it may lie below the recovery point
        self._disk.sync_folder(self._folder)

    def _open(self, base_offset: Offset, *, file_already_exists: bool = False) -> WritableSegment:
        fresh = not file_already_exists
        segment = WritableSegment.open(
            self._folder,
            base_offset,
            self._config,
            self._clock,
            file_already_exists=file_already_exists,
            init_file_size=self._config.initial_file_size if fresh else 0,
            preallocate=fresh and self._config.preallocate,
            disk=self._disk,
        )
        self._opened.append(segment)
        return segment

    # Recovery

    def _recover_segment(
        self, segment: WritableSegment, before_truncation: Callable[[], None] | None = None
    ) -> int:
        """Make a segment's indexes again and cut what is no batch off; the number of bytes cut."""
        producers = self._following_producers(segment)
        rebuild_producer_state(
            producers,
            self._segments,
            self._log_start,
            segment.base_offset,
            self._clock,
            reload_from_clean_shutdown=False,
        )
        try:
            truncated = segment.recover(producers, self._leader_epochs, before_truncation)
        except OffsetOverflowError as error:
            raise _SegmentOverflow(segment) from error
        producers.take_snapshot()  # so that the next segment's recovery need not read this one again
        self._recovered = producers
        return truncated

    def _following_producers(self, segment: WritableSegment) -> ProducerStateManager:
        """Who is to follow the producers through a segment's recovery.

        Where no producer ever expires, those of the segment before go on: what would be loaded from their snapshot
        is what they know, and the folder need not be listed again for each of many segments.
        """
        before, self._recovered = self._recovered, None
        if (
            before is not None
            and before.config.producer_id_expiration_ms == MAX_INT64
            and before.map_end_offset <= segment.base_offset
        ):
            return before
        return ProducerStateManager(
            self._topic_partition,
            self._folder,
            self._producers.max_transaction_timeout_ms,
            self._producers.config,
            self._clock,
            disk=self._disk,
        )

    def _recover(self) -> _Recovered:
        """Recover what was not flushed, and make sure that there is an active segment."""
        if not self._had_clean_shutdown:
            self._recover_unflushed()
        end = self._drop_segments_below_log_start()
        if end is None:
            if not len(self._segments):
                self._segments.add(self._open(self._log_start))
            end = self._segments.active_segment.read_next_offset()
        elif self._had_clean_shutdown:
            return _Recovered(end, end)
        # Only a flush moves the recovery point on: it must not pass what was not flushed.
        return _Recovered(min(self._recovery_point, end), end)

    def _recover_unflushed(self) -> None:
        unflushed = list(self._segments.values(self._recovery_point, MAX_INT64))
        thread = threading.current_thread().name
        self._remaining[thread] = len(unflushed)
        for at, segment in enumerate(unflushed):
            log.info("recovering %r, %d of %d", segment, at + 1, len(unflushed))
            if self._recover_or_empty(segment, unflushed[at + 1 :]):
                log.warning(
                    "%r was damaged and ends at %d now", segment, segment.read_next_offset()
                )
                self._remaining[thread] = 0
                return
            self._remaining[thread] = len(unflushed) - at - 1
        self._drop_begun_too_early()

    def _drop_begun_too_early(self) -> None:
        """Let an empty active segment go when the end of the one before it was never on the disk.

        Else the log would end where that segment was to begin, and nobody would know that records are
        missing. In a compacted log they may well have been compacted away.
        """
        active = self._segments.last
        if active is None or active.size or self._config.compact:
            return
        if active.base_offset <= self._recovery_point:  # all before it was on the disk
            return
        before = self._segments.lower(active.base_offset)
        if before is None or before.read_next_offset() >= active.base_offset:
            return
        log.warning("%r goes, since %r ends before it", active, before)
        self._remove_and_delete_later([active])

    def _recover_or_empty(self, segment: WritableSegment, later: list[WritableSegment]) -> bool:
        """Whether anything had to be cut; then the later segments are gone."""

        def drop_later() -> None:
            self._remove_and_delete_later(later)
            if later:
                self._disk.sync_folder(self._folder)

        try:
            return self._recover_segment(segment, drop_later) > 0
        except InvalidOffsetError as error:
            log.warning("%r is emptied, its offsets are not in order: %s", segment, error)
            drop_later()
            return segment.truncate_to(segment.base_offset) > 0

    def _drop_segments_below_log_start(self) -> Offset | None:
        """The log's end; None when there are no segments, or all ended below the log start and are gone."""
        last = self._segments.last
        if last is None:
            return None
        end = last.read_next_offset()
        if end >= self._log_start:
            return end
        log.warning(
            "%s: all segments go, since they end at %d, below the log start %d; were files removed?",
            self._topic_partition,
            end,
            self._log_start,
        )
        self._remove_and_delete_later(list(self._segments))
        self._leader_epochs.clear_and_flush()
        self._producers.truncate_fully_and_start_at(self._log_start)
        return None

    def _nothing_to_recover(self) -> _Recovered:
        """For a log that is being deleted."""
        if not len(self._segments):
            self._segments.add(self._open(0))
        return _Recovered(0, 0)

    # Deleting

    def _remove_and_delete_later(self, segments: list[WritableSegment]) -> None:
        if not segments:
            return
        log.info("deleting %r", segments)
        for segment in segments:
            self._segments.remove(segment.base_offset)
        delete_segment_files(
            segments,
            True,
            self._folder,
            self._topic_partition,
            self._config,
            self._scheduler,
            self._channel,
            disk=self._disk,
        )
        self._delete_producer_snapshots_later(segments)

    def _delete_producer_snapshots_later(self, segments: Iterable[WritableSegment]) -> None:
        delete_producer_snapshots(
            self._producers,
            [segment.base_offset for segment in segments],
            partial(
                self._channel.reporting,
                os.path.dirname(self._folder),
                f"cannot delete producer snapshots of {self._topic_partition}",
            ),
            self._scheduler,
            self._config.file_delete_delay_ms,
        )
