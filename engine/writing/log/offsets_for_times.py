"""Find offsets by time, and by the special times of a list-offsets request."""

from __future__ import annotations

from engine.record.record_batch import RecordBatch
from engine.units import (
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    FoundTimestamp,
    Offset,
    Timestamp,
)
from engine.writing.log.log_facts import LogFacts
from engine.writing.segment.writable_segment import WritableSegment

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

NOTHING_TIERED = FoundTimestamp(NO_TIMESTAMP, -1, NO_PARTITION_LEADER_EPOCH)
"""Result of a log without remote storage for a time that asks about it."""


def offset_for_time(log: LogFacts, target: Timestamp) -> FoundTimestamp | None:
    """Return the first record at or after a time, None without one; see `UnifiedLog.fetch_offset_by_timestamp`."""
    if target in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return _earliest(log)
    if target == LATEST_TIMESTAMP:
        return _place(log.log_end_offset, log.latest_epoch)
    if target in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return NOTHING_TIERED
    if target == MAX_TIMESTAMP:
        return _of_max_timestamp(log)
    for segment in log.segments:
        if segment.largest_timestamp >= target:
            return segment.find_offset_by_timestamp(target, log.log_start_offset)
    return None


def _place(offset: Offset, epoch: int | None) -> FoundTimestamp:
    return FoundTimestamp(
        NO_TIMESTAMP, offset, NO_PARTITION_LEADER_EPOCH if epoch is None else epoch
    )


def _earliest(log: LogFacts) -> FoundTimestamp:
    """Return the log start with its epoch, which is unknown before the first entry after records of magic 0 and 1."""
    start, entry = log.log_start_offset, log.leader_epoch_cache.earliest_entry
    return _place(start, entry.epoch if entry and entry.start_offset <= start else None)


def _of_max_timestamp(log: LogFacts) -> FoundTimestamp | None:
    latest = max(log.segments, key=_max_timestamp)
    timestamp, offset = latest.max_timestamp_and_offset_so_far
    position = latest.offset_index.lookup(offset).position
    for batch in latest.log.batches_from(position):
        if batch.max_timestamp == timestamp:
            return _record_with(batch, timestamp)
    return None


def _max_timestamp(segment: WritableSegment) -> Timestamp:
    return segment.max_timestamp_and_offset_so_far.timestamp


def _record_with(batch: RecordBatch, timestamp: Timestamp) -> FoundTimestamp | None:
    if batch.magic == 0:
        return None
    for record in batch.records():
        if record.timestamp == timestamp:
            return FoundTimestamp(timestamp, record.offset, batch.leader_epoch)
    return None
