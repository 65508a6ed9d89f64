"""Kafka's rules for which part of a compacted log is cleaned, and how dirty it is.

One home for a broker's cleaner and for a prediction. See LogCleanerManager and LogToClean in Kafka.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from engine.units import MAX_INT64, Offset, Timestamp
from engine.usage.retention_rules import AgedSegment


class FirstDirty(NamedTuple):
    """Start of the dirty part of a log.

    `is_reset` marks an impossible checkpoint entry, to be replaced.
    """

    offset: Offset
    is_reset: bool


class DirtyPart(NamedTuple):
    """The part of a log that may be cleaned, and the bytes before it.

    Attributes:
        first_dirty_offset: its start.
        end: its end, the base offset of a segment.
        clean_bytes, cleanable_bytes: bytes of the segments before the first dirty offset, and of those to clean.
    """

    first_dirty_offset: Offset
    end: Offset
    clean_bytes: int
    cleanable_bytes: int

    @property
    def cleanable_ratio(self) -> float:
        """Dirty share of the segments before `end`, from 0 to 1."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    def bytes_until(self, min_ratio: float) -> int | None:
        """Return the dirty bytes that are missing to a ratio; None if no number of bytes reaches it."""
        if min_ratio >= 1:
            return None
        return max(int(min_ratio * self.clean_bytes / (1 - min_ratio)) - self.cleanable_bytes, 0)

    def is_worth_it(self, min_ratio: float, *, is_overdue: bool) -> bool:
        """Return whether the log is dirty enough, or dirty for longer than max.compaction.lag.ms."""
        return (is_overdue and self.cleanable_bytes > 0) or self.cleanable_ratio > min_ratio


def first_dirty_offset(
    log_start: Offset, log_end: Offset, checkpointed: Offset | None
) -> FirstDirty:
    """Return where the dirty part starts: at the checkpointed offset if that is in the log, else at the log start."""
    if checkpointed is None:
        return FirstDirty(log_start, False)
    if log_start <= checkpointed <= log_end:
        return FirstDirty(checkpointed, False)
    return FirstDirty(log_start, True)


def uncleanable_offset(
    segments: Sequence[AgedSegment],
    first_dirty: Offset,
    *,
    last_stable: Offset,
    young_since: Timestamp | None,
) -> Offset:
    """Return the offset that a cleaning ends before.

    That is the active segment, the last stable offset, or the first segment with a younger record.

    Args:
        segments: all segments of the log, ascending; the last one is active.
        first_dirty: where the dirty part starts.
        last_stable: the last stable offset.
        young_since: time after which records are too young (min.compaction.lag.ms); None for no such time.
    """
    bounds = [last_stable, segments[-1].base_offset]
    if young_since is not None:
        young = (
            segment.base_offset
            for segment in non_active_from(segments, first_dirty)
            if segment.largest_timestamp > young_since
        )
        bounds += [offset for offset in (next(young, None),) if offset is not None]
    return max(first_dirty, min(bounds))


def dirty_part(
    segments: Sequence[AgedSegment], first_dirty: Offset, uncleanable: Offset
) -> DirtyPart:
    """Measure the part of a log that may be cleaned; `segments` as for `uncleanable_offset`."""
    non_active = non_active_from(segments, uncleanable)
    end = (non_active[0] if non_active else segments[-1]).base_offset
    clean = _between(segments, -1, first_dirty)
    dirty = _between(segments, min(first_dirty, end), end)
    return DirtyPart(
        first_dirty, end, sum(each.size for each in clean), sum(each.size for each in dirty)
    )


def overdue_ms(first_timestamps: Sequence[Timestamp], max_lag_ms: int, now: Timestamp) -> int:
    """Return the milliseconds since max.compaction.lag.ms passed for the dirty part; 0 before.

    Args:
        first_timestamps: those of the first batches of its segments; those below 1 do not count.
        max_lag_ms: the lag.
        now: milliseconds since 1970.
    """
    earliest = min((each for each in first_timestamps if each > 0), default=MAX_INT64)
    return max(0, now - max_lag_ms - earliest)


def non_active_from(segments: Sequence[AgedSegment], start: Offset) -> Sequence[AgedSegment]:
    """Return the segments that may hold offsets from `start` on, without the active one."""
    if start > segments[-1].base_offset:
        return ()
    return _between(segments, start, segments[-1].base_offset)


def _between(segments: Sequence[AgedSegment], start: Offset, stop: Offset) -> Sequence[AgedSegment]:
    """Return the segments that may hold offsets of [start, stop), from the floor of `start` on."""
    if start == stop:
        return ()
    bases = [segment.base_offset for segment in segments]
    first = max(bisect_right(bases, start) - 1, 0)
    return [each for each in segments[first:] if each.base_offset < stop]
