"""Delete old segments by time, size and log start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from engine.writing.log.log_upkeep import LogUpkeep
from engine.writing.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)

Condition: TypeAlias = Callable[[WritableSegment, WritableSegment | None], bool]
"""Function that decides whether to delete a segment; its second argument is the next segment."""


def deletable_segments(log: LogUpkeep, condition: Condition) -> list[WritableSegment]:
    """Return the oldest segments, up to the first that must stay.

    A segment that reaches the high watermark stays, so that the log start does not pass the high
    watermark; an empty last segment stays too.
    """
    deletable = []
    segments = iter(log.segments)
    segment = next(segments, None)
    while segment is not None:
        following = next(segments, None)
        end = log.log_end_offset if following is None else following.base_offset
        if log.high_watermark < end or not condition(segment, following):
            break
        if following is None and segment.size == 0:
            break
        deletable.append(segment)
        segment = following
    return deletable


def delete_old_segments(log: LogUpkeep) -> int:
    """Delete the segments wholly below the log start; with cleanup policy delete, also by size and time.

    Returns:
        The number of deleted segments.

    Raises:
        LogDirFailureError: files cannot be renamed.
    """
    deleted = _delete(log, _below_log_start(log), "it lies below the log start")
    if log.config.delete:
        deleted += _delete_oversize(log)
        deleted += _delete_expired(log)
    return deleted


def _below_log_start(log: LogUpkeep) -> Condition:
    def below(segment: WritableSegment, following: WritableSegment | None) -> bool:
        return following is not None and following.base_offset <= log.log_start_offset

    return below


def _delete_oversize(log: LogUpkeep) -> int:
    bound = log.config.retention_size
    excess = log.size - bound
    if bound < 0 or excess < 0:
        return 0

    def superfluous(segment: WritableSegment, following: WritableSegment | None) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return _delete(log, superfluous, f"the log is larger than retention.bytes, {bound}")


def _delete_expired(log: LogUpkeep) -> int:
    bound = log.config.retention_ms
    if bound < 0:
        return 0
    now = log.log_folder.clock.now_ms()

    def expired(segment: WritableSegment, following: WritableSegment | None) -> bool:
        if now < segment.largest_timestamp:
            logger.warning("%r has a timestamp in the future and has not expired", segment)
        return now - segment.largest_timestamp > bound

    return _delete(log, expired, f"it is older than retention.ms, {bound}")


def _delete(log: LogUpkeep, condition: Condition, reason: str) -> int:
    with log.lock:
        deletable = deletable_segments(log, condition)
        return delete_segments(log, deletable, reason) if deletable else 0


def delete_segments(log: LogUpkeep, deletable: list[WritableSegment], reason: str) -> int:
    """Remove the oldest segments from a log and delete their files later; return the number of segments.

    If these are all segments, the log rolls first. The log start moves before the segments are removed.
    """
    with log.reporting("cannot delete segments of"):
        going = list(deletable)
        if len(log.local_log.segments) == len(going):
            fresh = log.roll()
            if going[-1].base_offset == fresh.base_offset:
                logger.warning("the empty active segment at %d was replaced", fresh.base_offset)
                going.pop()
        log.local_log.ensure_open()
        if going:
            first_left = log.local_log.segments.higher(going[-1].base_offset)
            assert first_left is not None
            log.maybe_increment_log_start_offset(first_left.base_offset, "segments were deleted")
            log.local_log.remove_and_delete_segments(going, async_delete=True, reason=reason)
        log.delete_producer_snapshots(going)
    return len(deletable)
