"""Loading a log from its folder, after a clean stop or a crash.

See LogLoader in Kafka. What is done to files that may be damaged, and in which order, is a value: `LoadingRules`.
Ours are in `loading_steps`, those of a broker in `engine.plan.loading`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from engine.clock import Clock
from engine.errors import StateError
from engine.files.file_names import FolderState
from engine.log.log_segments import LogSegments
from engine.units import LogOffsetMetadata, Offset, TopicPartition
from engine.writing.disk import DISK, Disk
from engine.writing.log.local_log import delete_segment_files, split_overflowed_segment
from engine.writing.log.producer_rebuild import delete_producer_snapshots, rebuild_producer_state
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.scheduler import Scheduler
from engine.writing.segment.segment_rules import SegmentRules
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_rules import ProducerRules
from engine.writing.state.producer_state_manager import ProducerStateManager

log = logging.getLogger(__name__)

Step: TypeAlias = Callable[["LogLoader"], None]
"""A part of the loading; it finds and leaves everything in the loader."""


class LoadingRules(NamedTuple):
    """How a log is loaded whose files may be damaged.

    Attributes:
        steps: what makes the folder and the segments fit each other, in order: leftovers are cleared, segments
            opened and checked, and what was not flushed recovered.
        segments: how segments read their files.
        producers: which snapshots and control batches count.
    """

    steps: tuple[Step, ...]
    segments: SegmentRules
    producers: ProducerRules


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


class SegmentOverflow(Exception):
    """A segment to split: it has offsets too far from its base offset."""

    def __init__(self, segment: WritableSegment) -> None:
        super().__init__(segment.base_offset)
        self.segment = segment


def splitting_overflows(step: Step) -> Step:
    """Make a step that splits each segment for which SegmentOverflow is raised, and begins again."""

    def until_none_overflows(loader: LogLoader) -> None:
        while True:
            try:
                return step(loader)
            except SegmentOverflow as overflow:
                loader.split(overflow.segment)

    return until_none_overflows


@dataclass(eq=False)
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
        log_start_offset: where the log begins, as the log dir's checkpoint has it.
        recovery_point: from where on segments have to be recovered, as the checkpoint has it.
        leader_epochs: brought to fit the log.
        producers: an empty manager; brought to fit the log.
        rules: what is done, in which order.
        disk: does the writing.

    Attributes:
        recovered: the base offsets of the segments whose records were all read; grows while the log is loaded.
        last_recovered: the producers after the last recovery of a segment, whose snapshots are those in the folder.
    """

    folder: str
    topic_partition: TopicPartition
    config: LogConfig
    scheduler: Scheduler
    clock: Clock
    log_dir_failure_channel: LogDirFailureChannel
    had_clean_shutdown: bool
    segments: LogSegments[WritableSegment]
    log_start_offset: Offset
    recovery_point: Offset
    leader_epochs: LeaderEpochFileCache
    producers: ProducerStateManager
    rules: LoadingRules
    disk: Disk = DISK
    recovered: set[Offset] = field(default_factory=set, init=False)
    last_recovered: ProducerStateManager | None = field(default=None, init=False)
    _opened: list[WritableSegment] = field(default_factory=list, init=False)

    def load(self) -> LoadedLogOffsets:
        """Make the folder, the segments, the epochs and the producers fit each other.

        Raises:
            OSError: the disk fails; what is there can be loaded another time.
            StateError: something is known of producers already.
            ValueError: a segment has offsets that no segment of its base offset can have.
        """
        try:
            for step in self.rules.steps:
                step(self)
            return self._fit_state(*self._find_end())
        except BaseException:
            for segment in [*self.segments, *self._opened]:
                segment.close_handlers()
            raise

    # For the steps

    @property
    def is_being_deleted(self) -> bool:
        """Whether the folder's name says that the log is deleted: nothing is recovered then."""
        return os.path.abspath(self.folder).endswith(FolderState.DELETE.value)

    @property
    def needs_recovery(self) -> bool:
        """Whether segments from the recovery point on have to be recovered."""
        return not self.had_clean_shutdown and not self.is_being_deleted

    def open_segment(
        self, base_offset: Offset, *, is_new: bool = False, suffix: str = ""
    ) -> WritableSegment:
        """Open a segment, which is closed if the loading fails."""
        segment = WritableSegment.open(
            self.folder,
            base_offset,
            self.config,
            self.clock,
            file_already_exists=not is_new,
            init_file_size=self.config.initial_file_size if is_new else 0,
            preallocate=is_new and self.config.preallocate,
            suffix=suffix,
            disk=self.disk,
            rules=self.rules.segments,
        )
        self._opened.append(segment)
        return segment

    def producers_before(
        self, segment: WritableSegment, *, may_follow: bool = False
    ) -> ProducerStateManager:
        """Make the producers as they are at a segment's base offset.

        Args:
            segment: about to be recovered.
            may_follow: whether the producers that the recovery before has left may go on.
        """
        before, self.last_recovered = self.last_recovered, None
        if before is None:
            producers = self.producers.fresh()
        elif may_follow and before.map_end_offset <= segment.base_offset:
            producers = before
        else:
            producers = self.producers.fresh(before.snapshots)
        self._rebuild(producers, self.log_start_offset, segment.base_offset)
        return producers

    def note_recovered(self, segment: WritableSegment, producers: ProducerStateManager) -> None:
        """Say that a segment was recovered; a snapshot spares the next recovery to read the segment again."""
        producers.take_snapshot()
        self.last_recovered = producers
        self.recovered.add(segment.base_offset)

    def remove_and_delete_later(self, segments: Collection[WritableSegment]) -> None:
        """Take segments out of the log, and delete their files and snapshots after file.delete.delay.ms."""
        if not segments:
            return
        self._remove_and_delete_files(segments)
        self._delete_producer_snapshots(segments)

    def split(self, segment: WritableSegment) -> None:
        """Split a segment whose offsets are too far apart."""
        log.info("splitting %r, whose offsets are too far apart", segment)
        split = split_overflowed_segment(
            segment,
            self.segments,
            self.folder,
            self.topic_partition,
            self.config,
            self.scheduler,
            self.log_dir_failure_channel,
            disk=self.disk,
        )
        self._delete_producer_snapshots(split.deleted_segments)

    # After the steps

    def _find_end(self) -> tuple[Offset, Offset]:
        """Find the recovery point and the log's end, and make sure that there is an active segment."""
        if self.is_being_deleted:
            if not len(self.segments):
                self.segments.add(self.open_segment(0, is_new=True))
            return 0, 0
        end = self._drop_segments_below_log_start()
        recovery_point = self.recovery_point
        if end is None:
            self.segments.add(self.open_segment(self.log_start_offset, is_new=True))
            end = self.segments.active_segment.read_next_offset()
        elif self.had_clean_shutdown:
            recovery_point = end
        self.segments.active_segment.resize_indexes(self.config.max_index_size)
        # Only a flush moves the recovery point on: it must not pass what was not flushed.
        return min(recovery_point, end), end

    def _drop_segments_below_log_start(self) -> Offset | None:
        """Find the log's end; None when there are no segments, or all ended below the log start and are gone."""
        last = self.segments.last
        if last is None:
            return None
        end = last.read_next_offset()
        if end >= self.log_start_offset:
            return end
        log.warning(
            "%s: all segments go, since they end at %d, below the log start %d; were files removed?",
            self.topic_partition,
            end,
            self.log_start_offset,
        )
        self._remove_and_delete_files(list(self.segments))
        self.leader_epochs.clear_and_flush()
        self.producers.truncate_fully_and_start_at(self.log_start_offset)
        return None

    def _fit_state(self, recovery_point: Offset, next_offset: Offset) -> LoadedLogOffsets:
        self.leader_epochs.truncate_from_end_async_flush(next_offset)
        first, active = self.segments.first, self.segments.active_segment
        log_start = self.log_start_offset
        if first is not None:
            log_start = max(log_start, first.base_offset)
        # The checkpoint's, not the first segment's: older epochs may be asked for, and harm nobody.
        self.leader_epochs.truncate_from_start_async_flush(self.log_start_offset)
        if not self.producers.is_empty:
            raise StateError(f"{self.topic_partition} has producers before it is loaded")
        # Recovery worked with other managers, which may have removed files that this one still knows.
        self.producers.remove_stray_snapshots(self.segments.base_offsets)
        self._rebuild(self.producers, log_start, next_offset, is_clean=self.had_clean_shutdown)
        return LoadedLogOffsets(
            log_start,
            recovery_point,
            LogOffsetMetadata(next_offset, active.base_offset, active.size),
        )

    def _rebuild(
        self,
        producers: ProducerStateManager,
        log_start_offset: Offset,
        end: Offset,
        *,
        is_clean: bool = False,
    ) -> None:
        rebuild_producer_state(
            producers,
            self.segments,
            log_start_offset,
            end,
            self.clock,
            reload_from_clean_shutdown=is_clean,
        )

    # Deleting

    def _remove_and_delete_files(self, segments: Collection[WritableSegment]) -> None:
        log.info("deleting %r", segments)
        for segment in segments:
            self.segments.remove(segment.base_offset)
        delete_segment_files(
            segments,
            True,
            self.folder,
            self.topic_partition,
            self.config,
            self.scheduler,
            self.log_dir_failure_channel,
            disk=self.disk,
        )

    def _delete_producer_snapshots(self, segments: Collection[WritableSegment]) -> None:
        self.last_recovered = None
        delete_producer_snapshots(
            self.producers,
            [segment.base_offset for segment in segments],
            partial(
                self.log_dir_failure_channel.reporting,
                os.path.dirname(self.folder),
                f"cannot delete producer snapshots of {self.topic_partition}",
            ),
            self.scheduler,
            self.config.file_delete_delay_ms,
        )
