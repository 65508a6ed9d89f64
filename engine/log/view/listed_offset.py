"""The offset that ListOffsets answers for a timestamp, or for one of the codes below zero."""

from __future__ import annotations

from engine.log.view.log_view import LogView
from engine.units import NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP, FoundTimestamp, Offset, Timestamp

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

_TIERED = (EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP)


def listed_offset(view: LogView, time: Timestamp, *, committed: bool) -> FoundTimestamp | None:
    """Return the offset for a timestamp in milliseconds or one of its codes; None for no such offset.

    The ends of a log come without a timestamp, and without their leader epoch, which may cost a read of the log.

    Args:
        view: the log.
        time: a timestamp, or a code below zero.
        committed: answer as for isolation level read_committed: nothing at or above the last stable offset.

    Raises:
        UnsupportedCodecError: the codec of a batch that may hold the record is not installed.
        OSError: a file cannot be read.
    """
    if time == LATEST_TIMESTAMP:
        return _place(view.end(committed=committed))
    if time == EARLIEST_TIMESTAMP:
        return _place(view.log_start_offset)
    if time in _TIERED:
        return _tiered_place(view, time)
    found = view.max_timestamp if time == MAX_TIMESTAMP else view.offset_for_time(time)
    if found is None or found.offset >= view.end(committed=committed):
        return None
    return found


def _tiered_place(view: LogView, time: Timestamp) -> FoundTimestamp | None:
    """Return where the local part of a log begins, or its tiered part ends; without that only the start is known."""
    local_start, tiered_end = view.tiers
    if time == EARLIEST_LOCAL_TIMESTAMP:
        return _place(local_start)
    if tiered_end is None:
        return None
    return _place(tiered_end - (time == LATEST_TIERED_TIMESTAMP))


def _place(offset: Offset) -> FoundTimestamp:
    return FoundTimestamp(NO_TIMESTAMP, offset, NO_PARTITION_LEADER_EPOCH)
