"""Truncate a log at an offset, or as a whole."""

from __future__ import annotations

import logging

from engine.broker.log.log_state import LogState
from engine.units import Offset
from engine.writing.log.producer_rebuild import rebuild_producer_state

logger = logging.getLogger(__name__)


class Truncation:
    """Removes the offsets of a log from one on, and what leader epochs, producers and watermarks keep of them."""

    def __init__(self, state: LogState) -> None:
        self._state = state

    def truncate_to(self, target: Offset) -> bool:
        """Remove all offsets from `target` on; return whether there were any. Raises ValueError below 0."""
        state, partition = self._state, self._state.folder.topic_partition
        if target < 0:
            raise ValueError(f"{partition} cannot be truncated to the offset {target}")
        with state.changing("cannot truncate"):
            end = state.local_log.log_end_offset
            if target >= end:
                # The epoch of a leader that lost the leadership before it appended a record goes.
                state.leader_epoch_cache.truncate_from_end_async_flush(end)
                return False
            high_watermark = state.watermarks.high_watermark
            if target < high_watermark:
                message = "truncating %s to %d, below its high watermark %d"
                logger.warning(message, partition, target, high_watermark)
            first = state.local_log.segments.first
            if first is not None and first.base_offset > target:
                self.truncate_fully_and_start_at(target)
            else:
                self._cut(target)
        return True

    def _cut(self, target: Offset) -> None:
        state, watermarks = self._state, self._state.watermarks
        removed = state.local_log.truncate_to(target)
        state.delete_producer_snapshots(removed)
        state.leader_epoch_cache.truncate_from_end_async_flush(target)
        self._rebuild_producers(min(target, watermarks.log_start_offset), target)
        end = state.local_log.log_end_offset_metadata
        if watermarks.high_watermark >= end.offset:
            watermarks.update_high_watermark(end)

    def truncate_fully_and_start_at(
        self, new_offset: Offset, log_start_offset: Offset | None = None
    ) -> None:
        """Delete all batches and continue at `new_offset`, which is also the default of the log start."""
        state = self._state
        with state.changing("cannot truncate"):
            state.local_log.truncate_fully_and_start_at(new_offset)
            state.leader_epoch_cache.clear_and_flush()
            state.producer_state.truncate_fully_and_start_at(new_offset)
            log_start = new_offset if log_start_offset is None else log_start_offset
            self._rebuild_producers(log_start, new_offset)
            state.watermarks.update_high_watermark(state.local_log.log_end_offset_metadata)

    def _rebuild_producers(self, log_start: Offset, end: Offset) -> None:
        """Set the log start, and rebuild the producer state of the log that is left."""
        state = self._state
        state.watermarks.log_start_offset = log_start
        rebuild_producer_state(
            state.producer_state,
            state.local_log.segments,
            log_start,
            end,
            state.folder.clock,
            reload_from_clean_shutdown=False,
        )
