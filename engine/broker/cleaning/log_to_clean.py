"""Determine the part of a log to clean, and how dirty the log is."""

from __future__ import annotations

import logging
from typing import NamedTuple, Self

from engine.broker.log.unified_log import UnifiedLog
from engine.errors import KafkaStorageError
from engine.units import Offset, Timestamp, TopicPartition
from engine.usage.cleaning_rules import (
    DirtyPart,
    dirty_part,
    first_dirty_offset,
    overdue_ms,
    uncleanable_offset,
)

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
        part: the part, and the bytes before it.
        need_compaction_now: whether its max.compaction.lag.ms has passed.
    """

    log: UnifiedLog
    part: DirtyPart
    need_compaction_now: bool

    @classmethod
    def of(
        cls,
        log: UnifiedLog,
        first_dirty_offset: Offset,
        uncleanable_offset: Offset,
        need_compaction_now: bool = False,
    ) -> Self:
        """Measure a log that may be cleaned only below `uncleanable_offset`."""
        part = dirty_part(list(log.segments), first_dirty_offset, uncleanable_offset)
        return cls(log, part, need_compaction_now)

    @property
    def topic_partition(self) -> TopicPartition:
        """Partition of the log."""
        return self.log.topic_partition

    @property
    def first_dirty_offset(self) -> Offset:
        """Start of the dirty part."""
        return self.part.first_dirty_offset

    @property
    def first_uncleanable_offset(self) -> Offset:
        """End of the cleanable part, the base offset of a segment."""
        return self.part.end

    @property
    def clean_bytes(self) -> int:
        """Bytes of the segments before the first dirty offset."""
        return self.part.clean_bytes

    @property
    def cleanable_bytes(self) -> int:
        """Bytes of the segments to clean."""
        return self.part.cleanable_bytes

    @property
    def total_bytes(self) -> int:
        """Bytes of all segments before the first uncleanable offset."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """Dirty share of `total_bytes`, from 0 to 1."""
        return self.part.cleanable_ratio

    @property
    def is_worth_it(self) -> bool:
        """Whether the log is dirty enough, or dirty for too long."""
        ratio = self.log.config.min_cleanable_ratio
        return self.part.is_worth_it(ratio, is_overdue=self.need_compaction_now)


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
    start, end = log.log_start_offset, log.log_end_offset
    first_dirty, is_reset = first_dirty_offset(start, end, last_clean_offset)
    is_above = last_clean_offset is not None and last_clean_offset > end
    if is_reset and (is_above or not log.config.delete):
        # No message for a checkpoint below the log start if retention has moved the log start.
        logger.warning(
            "%s was cleaned up to %d by the checkpoint, outside its offsets %d to %d: it counts as dirty",
            log.log_folder.name,
            last_clean_offset,
            start,
            end,
        )
    lag = log.config.min_compaction_lag_ms
    uncleanable = uncleanable_offset(
        list(log.segments),
        first_dirty,
        last_stable=log.last_stable_offset,
        young_since=now - lag if lag > 0 else None,
    )
    return OffsetsToClean(first_dirty, uncleanable, is_reset)


def compaction_delay(log: UnifiedLog, first_dirty_offset: Offset, now: Timestamp) -> int:
    """Return the milliseconds since max.compaction.lag.ms passed for the dirty part; 0 before."""
    firsts = [
        segment.age.first_batch_timestamp
        for segment in log.non_active_segments_from(first_dirty_offset)
    ]
    return overdue_ms(firsts, log.config.max_compaction_lag_ms, now)
