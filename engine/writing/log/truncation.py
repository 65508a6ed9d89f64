"""Truncate a log at an offset, or as a whole."""

from __future__ import annotations

import logging

from engine.units import Offset
from engine.writing.log.log_upkeep import LogUpkeep

log = logging.getLogger(__name__)


def truncate_to(of: LogUpkeep, target: Offset) -> bool:
    """Remove the offsets from `target` on; return whether there were any. See `UnifiedLog.truncate_to`."""
    if target < 0:
        raise ValueError(f"{of.topic_partition} cannot be truncated to the offset {target}")
    with of.reporting("cannot truncate"), of.lock:
        of.ensure_open()
        if target >= of.log_end_offset:
            _forget_epoch_without_records(of)
            return False
        if target < of.high_watermark:
            log.warning(
                "truncating %s to %d, below its high watermark %d",
                of.topic_partition,
                target,
                of.high_watermark,
            )
        first = of.local_log.segments.first
        if first is not None and first.base_offset > target:
            truncate_fully_and_start_at(of, target)
        else:
            _cut(of, target)
    return True


def _forget_epoch_without_records(of: LogUpkeep) -> None:
    """Remove the epoch of a leader that lost the leadership before it appended a record."""
    of.leader_epoch_cache.truncate_from_end_async_flush(of.log_end_offset)


def _cut(of: LogUpkeep, target: Offset) -> None:
    removed = of.local_log.truncate_to(target)
    of.delete_producer_snapshots(removed)
    of.leader_epoch_cache.truncate_from_end_async_flush(target)
    of.watermarks.log_start_offset = min(target, of.log_start_offset)
    of.rebuild_producer_state(target)
    if of.high_watermark >= of.log_end_offset:
        of.watermarks.update_high_watermark(of.log_end_offset_metadata)


def truncate_fully_and_start_at(
    of: LogUpkeep, new_offset: Offset, log_start_offset: Offset | None = None
) -> None:
    """Replace all segments by an empty one. See `UnifiedLog.truncate_fully_and_start_at`."""
    with of.reporting("cannot truncate"), of.lock:
        of.ensure_open()
        of.local_log.truncate_fully_and_start_at(new_offset)
        of.leader_epoch_cache.clear_and_flush()
        of.producer_state.truncate_fully_and_start_at(new_offset)
        of.watermarks.log_start_offset = (
            new_offset if log_start_offset is None else log_start_offset
        )
        of.rebuild_producer_state(new_offset)
        of.watermarks.update_high_watermark(of.log_end_offset_metadata)
