"""Load a log from its folder, after a clean stop or a crash.

See LogLoader in Kafka. The treatment of damaged files, and the order of the steps, is a value: `LoadingRules`.
Our rules are in `loading_steps`, those of a broker in `engine.plan.loading`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeAlias

from engine.disk.disk import Disk
from engine.errors import StateError
from engine.log.log_segments import LogSegments
from engine.units import LogOffsetMetadata, Offset
from engine.writing.log.producer_rebuild import delete_producer_snapshots, rebuild_producer_state
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.segment_replacement import (
    delete_segment_files,
    split_overflowed_segment,
)
from engine.writing.segment.segment_rules import SegmentRules
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_rules import ProducerRules
from engine.writing.state.producer_state_manager import ProducerStateManager

logger = logging.getLogger(__name__)

Step: TypeAlias = Callable[["LogLoader"], None]
"""Step of the loading, which works on the loader."""


class LoadingRules(NamedTuple):
    """Rules to load a log with files that may be damaged.

    Attributes:
        steps: steps in order: clear leftovers, open and check segments, recover unflushed segments.
        segments: rules of segments to read their files.
        producers: rules for valid snapshots and control batches.
    """

    steps: tuple[Step, ...]
    segments: SegmentRules
    producers: ProducerRules


class LoadedLogOffsets(NamedTuple):
    """Offsets of a loaded log.

    Attributes:
        log_start_offset: first offset that readers see.
        recovery_point: offset below which all is on the device.
        next_offset_metadata: log end, with its position in the active segment.
    """

    log_start_offset: Offset
    recovery_point: Offset
    next_offset_metadata: LogOffsetMetadata


class SegmentOverflow(Exception):
    """Segment with offsets too far from its base offset, to be split."""

    def __init__(self, segment: WritableSegment) -> None:
        super().__init__(segment.base_offset)
        self.segment = segment


def splitting_overflows(step: Step) -> Step:
    """Return a step that splits a segment that raises SegmentOverflow, and then starts again."""
    return partial(_until_none_overflows, step)


def _until_none_overflows(step: Step, loader: LogLoader) -> None:
    while True:
        try:
            return step(loader)
        except SegmentOverflow as overflow:
            loader.split(overflow.segment)


@dataclass(eq=False)
class LogLoader:
    """Loads one log, once.

    Args:
        log_folder: folder of the log.
        had_clean_shutdown: whether the log was closed cleanly; then nothing is recovered.
        segments: empty collection, filled with the segments of the log.
        log_start_offset: log start in the checkpoint of the log dir.
        recovery_point: recovery point in the checkpoint of the log dir.
        leader_epochs: leader epochs, adapted to the log.
        producers: empty manager, filled with the producers of the log.
        rules: steps and rules for damaged files.

    Attributes:
        recovered: base offsets of the recovered segments; grows during the loading.
        last_recovered: producers after the last recovered segment, with the snapshots in the folder.
    """

    log_folder: WritableLogFolder
    had_clean_shutdown: bool
    segments: LogSegments[WritableSegment]
    log_start_offset: Offset
    recovery_point: Offset
    leader_epochs: LeaderEpochFileCache
    producers: ProducerStateManager
    rules: LoadingRules
    recovered: set[Offset] = field(default_factory=set, init=False)
    last_recovered: ProducerStateManager | None = field(default=None, init=False)
    _opened: list[WritableSegment] = field(default_factory=list, init=False)

    def load(self) -> LoadedLogOffsets:
        """Load the segments, and make leader epochs and producers consistent with them.

        Raises:
            OSError: the disk fails; the log can be loaded another time.
            StateError: the manager has producers already.
            ValueError: a segment has offsets that do not fit its base offset, or a producer's control batch
                that begins with no COMMIT or ABORT, as in Kafka.
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
    def folder(self) -> str:
        """Path of the log's folder."""
        return self.log_folder.path

    @property
    def disk(self) -> Disk:
        """Disk to read and write with."""
        return self.log_folder.disk

    @property
    def needs_recovery(self) -> bool:
        """Whether segments from the recovery point on have to be recovered."""
        return not self.had_clean_shutdown and not self.log_folder.is_being_deleted

    def open_segment(self, base_offset: Offset, *, suffix: str = "") -> WritableSegment:
        """Open an existing segment, which is closed if the loading fails."""
        segment = WritableSegment.open(
            self.folder,
            base_offset,
            self.log_folder.config,
            self.log_folder.clock,
            suffix=suffix,
            disk=self.disk,
            rules=self.rules.segments,
        )
        self._opened.append(segment)
        return segment

    def producers_before(
        self, segment: WritableSegment, *, may_follow: bool = False
    ) -> ProducerStateManager:
        """Return the producers at the base offset of a segment.

        Args:
            segment: segment to recover.
            may_follow: whether the producers after the previous recovery may be used.
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
        """Note that a segment was recovered, and write a snapshot for the recovery of the next segment."""
        producers.take_snapshot()
        self.last_recovered = producers
        self.recovered.add(segment.base_offset)

    def remove_and_delete_later(self, segments: Collection[WritableSegment]) -> None:
        """Remove segments from the log, and delete their files and snapshots after file.delete.delay.ms."""
        if not segments:
            return
        self._remove_and_delete_files(segments)
        self._delete_producer_snapshots(segments)

    def split(self, segment: WritableSegment) -> None:
        """Split a segment with offsets too far from its base offset."""
        split = split_overflowed_segment(self.log_folder, self.segments, segment)
        self._delete_producer_snapshots(split.deleted_segments)

    # After the steps

    def _find_end(self) -> tuple[Offset, Offset]:
        """Return the recovery point and the log end; create an active segment if there is none."""
        if self.log_folder.is_being_deleted:
            if not len(self.segments):
                self._add_segment(0)
            return 0, 0
        end = self._drop_segments_below_log_start()
        recovery_point = self.recovery_point
        if end is None:
            self._add_segment(self.log_start_offset)
            end = self.segments.active_segment.read_next_offset()
        elif self.had_clean_shutdown:
            recovery_point = end
        self.segments.active_segment.indexes.resize(self.log_folder.config.max_index_size)
        # The recovery point must not pass unflushed batches.
        return min(recovery_point, end), end

    def _add_segment(self, base_offset: Offset) -> None:
        segment = WritableSegment.create(self.log_folder, base_offset, rules=self.rules.segments)
        self.segments.add(segment)

    def _drop_segments_below_log_start(self) -> Offset | None:
        """Return the log end; None without segments, or if all ended below the log start and were removed."""
        last = self.segments.last
        if last is None:
            return None
        end = last.read_next_offset()
        if end >= self.log_start_offset:
            return end
        logger.warning(
            "%s: removing all segments, since they end at %d, below the log start %d; were files removed?",
            self.log_folder.topic_partition,
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
        # At the log start of the checkpoint, not of the first segment: readers may ask for older epochs.
        self.leader_epochs.truncate_from_start_async_flush(self.log_start_offset)
        if not self.producers.is_empty:
            raise StateError(f"{self.log_folder.topic_partition} has producers before it is loaded")
        # Recovery used other managers, which may have removed files that this one still lists.
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
            self.log_folder.clock,
            reload_from_clean_shutdown=is_clean,
        )

    # Deleting

    def _remove_and_delete_files(self, segments: Collection[WritableSegment]) -> None:
        logger.info("deleting %r", segments)
        for segment in segments:
            self.segments.remove(segment.base_offset)
        delete_segment_files(self.log_folder, segments, async_delete=True)

    def _delete_producer_snapshots(self, segments: Collection[WritableSegment]) -> None:
        delete_producer_snapshots(
            self.producers,
            [segment.base_offset for segment in segments],
            self.log_folder,
        )
