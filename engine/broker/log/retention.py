"""Delete old segments by time, size and log start."""

from __future__ import annotations

import logging

from engine.broker.log.log_state import LogState
from engine.broker.log.roller import Roller
from engine.errors import OffsetOutOfRangeError
from engine.units import Offset
from engine.usage.retention_rules import (
    Condition,
    below_log_start,
    deletable_segments,
    expired,
    oversize,
)
from engine.writing.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)


class Retention:
    """Moves the log start, and deletes the oldest segments."""

    def __init__(self, state: LogState, roller: Roller) -> None:
        self._state = state
        self._roller = roller

    def maybe_increment_log_start_offset(self, to: Offset, reason: str) -> bool:
        """Raise the log start offset, as a delete-records request does; return whether it was below.

        Segments wholly below it are deleted by the next `delete_old_segments`.

        Raises:
            OffsetOutOfRangeError: the offset is above the high watermark.
        """
        state, watermarks = self._state, self._state.watermarks
        with state.folder.reporting("cannot move the start of"), state.lock:
            if to > watermarks.high_watermark:
                raise OffsetOutOfRangeError(
                    f"the start of {state.folder.topic_partition} cannot move to {to}, above its"
                    f" high watermark {watermarks.high_watermark}"
                )
            state.local_log.ensure_open()
            if to <= watermarks.log_start_offset:
                return False
            watermarks.move_log_start(to)
            logger.info("the start of %s is now %d: %s", state.folder.topic_partition, to, reason)
            state.leader_epoch_cache.truncate_from_start_async_flush(to)
            state.producer_state.on_log_start_offset_incremented(to)
            watermarks.refresh_first_unstable()
            return True

    def deletable_segments(self, condition: Condition[WritableSegment]) -> list[WritableSegment]:
        """Return the oldest segments, up to the first that must stay or fails the condition."""
        return deletable_segments(
            self._state.segments,
            condition,
            high_watermark=self._state.watermarks.high_watermark,
            log_end=self._state.local_log.log_end_offset,
        )

    def delete_old_segments(self) -> int:
        """Delete the segments wholly below the log start; with cleanup policy delete, also by size and time.

        Returns:
            The number of deleted segments.
        """
        is_below = below_log_start(self._state.watermarks.log_start_offset)
        deleted = self._delete(is_below, "it lies below the log start")
        if self._state.folder.config.delete:
            deleted += self._delete_oversize()
            deleted += self._delete_expired()
        return deleted

    def _delete_oversize(self) -> int:
        bound = self._state.folder.config.retention_size
        is_superfluous = oversize(self._state.local_log.segments.size, bound)
        if is_superfluous is None:
            return 0
        return self._delete(is_superfluous, f"the log is larger than retention.bytes, {bound}")

    def _delete_expired(self) -> int:
        bound = self._state.folder.config.retention_ms
        now = self._state.folder.clock.now_ms()
        is_expired = expired(now, bound)
        if is_expired is None:
            return 0

        def is_old(segment: WritableSegment, following: WritableSegment | None) -> bool:
            if now < segment.largest_timestamp:
                logger.warning("%r has a timestamp in the future and has not expired", segment)
            return is_expired(segment, following)

        return self._delete(is_old, f"it is older than retention.ms, {bound}")

    def _delete(self, condition: Condition[WritableSegment], reason: str) -> int:
        """Delete the oldest segments that pass a condition; return their number.

        If these are all segments, the log rolls first. The log start moves before the segments are removed.
        """
        state, local_log = self._state, self._state.local_log
        with state.lock:
            going = self.deletable_segments(condition)
            if not going:
                return 0
            with state.folder.reporting("cannot delete segments of"):
                if len(local_log.segments) == len(going):
                    self._roller.roll()
                left = local_log.segments.higher(going[-1].base_offset)
                assert left is not None
                self.maybe_increment_log_start_offset(left.base_offset, "segments were deleted")
                local_log.remove_and_delete_segments(going, async_delete=True, reason=reason)
                state.delete_producer_snapshots(going)
        return len(going)
