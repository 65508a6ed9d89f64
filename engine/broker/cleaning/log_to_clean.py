"""Determine the part of a log to clean, and how dirty the log is."""

from __future__ import annotations

import logging
from typing import NamedTuple, Self

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import KafkaStorageError
from engine.units import MAX_INT64, Offset, Timestamp, TopicPartition
from engine.writing.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)


class LogCleaningError(KafkaStorageError):
    """The cleaning of a log failed, or its dirty part cannot be determined; see the cause.

    Attributes:
        log: the log.
    """

    def __init__(self, log: UnifiedLog, reason: str) -> None:
        super().__init__(reason)
        self.log = log


class OffsetsToClean(NamedTuple):
    """Part of a log that may be cleaned: [first_dirty_offset, first_uncleanable_dirty_offset).

    `force_update_checkpoint` marks an impossible checkpoint entry, to be replaced.
    """

    first_dirty_offset: Offset
    first_uncleanable_dirty_offset: Offset
    force_update_checkpoint: bool


class LogToClean(NamedTuple):
    """A log and the part of it to clean.

    Attributes:
        log: the log.
        first_dirty_offset: start of the dirty part.
        first_uncleanable_offset: end of the cleanable part, the base offset of a segment.
        need_compaction_now: whether its max.compaction.lag.ms has passed.
        clean_bytes, cleanable_bytes: bytes of the segments before the first dirty offset, and of
            those to clean.
    """

    log: UnifiedLog
    first_dirty_offset: Offset
    first_uncleanable_offset: Offset
    need_compaction_now: bool
    clean_bytes: int
    cleanable_bytes: int

    @classmethod
    def of(
        cls,
        log: UnifiedLog,
        first_dirty_offset: Offset,
        uncleanable_offset: Offset,
        need_compaction_now: bool = False,
    ) -> Self:
        """Measure a log that may be cleaned only below `uncleanable_offset`."""
        clean = sum(segment.size for segment in log.segments_between(-1, first_dirty_offset))
        first_uncleanable, cleanable = cleanable_bytes(log, first_dirty_offset, uncleanable_offset)
        return cls(
            log, first_dirty_offset, first_uncleanable, need_compaction_now, clean, cleanable
        )

    @property
    def topic_partition(self) -> TopicPartition:
        """Partition of the log."""
        return self.log.topic_partition

    @property
    def total_bytes(self) -> int:
        """Bytes of all segments before the first uncleanable offset."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """Dirty share of `total_bytes`, from 0 to 1."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def is_worth_it(self) -> bool:
        """Whether the log is dirty enough, or dirty for too long."""
        if self.need_compaction_now and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_ratio


def cleanable_offsets(
    log: UnifiedLog, last_clean_offset: Offset | None, now: Timestamp
) -> OffsetsToClean:
    """Return the part of a log that may be cleaned now.

    It ends before the active segment, the last stable offset, and the first segment with a record younger
    than min.compaction.lag.ms.

    Args:
        log: log to look at.
        last_clean_offset: checkpoint entry of the log.
        now: milliseconds since 1970.
    """
    first_dirty, is_reset = _first_dirty_offset(log, last_clean_offset)
    bounds = [log.last_stable_offset, log.active_segment.base_offset]
    lag = log.config.min_compaction_lag_ms
    if lag > 0:
        young = (
            segment.base_offset
            for segment in log.non_active_segments_from(first_dirty)
            if segment.largest_timestamp > now - lag
        )
        bounds += [offset for offset in (next(young, None),) if offset is not None]
    return OffsetsToClean(first_dirty, max(first_dirty, min(bounds)), is_reset)


def _first_dirty_offset(log: UnifiedLog, checkpointed: Offset | None) -> tuple[Offset, bool]:
    start, end = log.log_start_offset, log.log_end_offset
    if checkpointed is None:
        return start, False
    if start <= checkpointed <= end:
        return checkpointed, False
    if checkpointed > end or not log.config.delete:
        # No message for a checkpoint below the log start if retention has moved the log start.
        logger.warning(
            "%s was cleaned up to %d by the checkpoint, outside its offsets %d to %d: it counts as dirty",
            log.log_folder.name,
            checkpointed,
            start,
            end,
        )
    return start, True


def cleanable_bytes(
    log: UnifiedLog, first_dirty_offset: Offset, uncleanable_offset: Offset
) -> tuple[Offset, int]:
    """Return the base offset of the first uncleanable segment, and the bytes of the segments before it."""
    non_active = log.non_active_segments_from(uncleanable_offset)
    end = (non_active[0] if non_active else log.active_segment).base_offset
    segments = log.segments_between(min(first_dirty_offset, end), end)
    return end, sum(segment.size for segment in segments)


def compaction_delay(log: UnifiedLog, first_dirty_offset: Offset, now: Timestamp) -> int:
    """Return the milliseconds since max.compaction.lag.ms passed for the dirty part; 0 before."""
    earliest = min(
        (
            timestamp
            for timestamp in map(_first_timestamp, log.non_active_segments_from(first_dirty_offset))
            if timestamp > 0
        ),
        default=MAX_INT64,
    )
    return max(0, now - log.config.max_compaction_lag_ms - earliest)


def _first_timestamp(segment: WritableSegment) -> Timestamp:
    return segment.age.first_batch_timestamp
