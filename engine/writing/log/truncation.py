"""Truncate a log at an offset, or as a whole."""

from __future__ import annotations

import logging

from engine.units import Offset
from engine.writing.log.log_upkeep import LogUpkeep

logger = logging.getLogger(__name__)


def truncate_to(log: LogUpkeep, target: Offset) -> bool:
    """Remove the offsets from `target` on; return whether there were any. See `UnifiedLog.truncate_to`."""
    if target < 0:
        raise ValueError(f"{log.topic_partition} cannot be truncated to the offset {target}")
    with log.reporting("cannot truncate"), log.lock:
        log.ensure_open()
        if target >= log.log_end_offset:
            _forget_epoch_without_records(log)
            return False
        if target < log.high_watermark:
            logger.warning(
                "truncating %s to %d, below its high watermark %d",
                log.topic_partition,
                target,
                log.high_watermark,
            )
        first = log.local_log.segments.first
        if first is not None and first.base_offset > target:
            truncate_fully_and_start_at(log, target)
        else:
            _cut(log, target)
    return True


def _forget_epoch_without_records(log: LogUpkeep) -> None:
    """Remove the epoch of a leader that lost the leadership before it appended a record."""
    log.leader_epoch_cache.truncate_from_end_async_flush(log.log_end_offset)


def _cut(log: LogUpkeep, target: Offset) -> None:
    removed = log.local_log.truncate_to(target)
    log.delete_producer_snapshots(removed)
    log.leader_epoch_cache.truncate_from_end_async_flush(target)
    log.watermarks.log_start_offset = min(target, log.log_start_offset)
    log.rebuild_producer_state(target)
    if log.high_watermark >= log.log_end_offset:
        log.watermarks.update_high_watermark(log.log_end_offset_metadata)


def truncate_fully_and_start_at(
    log: LogUpkeep, new_offset: Offset, log_start_offset: Offset | None = None
) -> None:
    """Replace all segments by an empty one. See `UnifiedLog.truncate_fully_and_start_at`."""
    with log.reporting("cannot truncate"), log.lock:
        log.ensure_open()
        log.local_log.truncate_fully_and_start_at(new_offset)
        log.leader_epoch_cache.clear_and_flush()
        log.producer_state.truncate_fully_and_start_at(new_offset)
        log.watermarks.log_start_offset = (
            new_offset if log_start_offset is None else log_start_offset
        )
        log.rebuild_producer_state(new_offset)
        log.watermarks.update_high_watermark(log.log_end_offset_metadata)
