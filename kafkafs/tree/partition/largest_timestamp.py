"""The largest record timestamp in a part of a log, without reading all of it: used for st_mtime.

Exact for a whole segment. For a part of a segment it comes from the batch headers if the part is small, else from
the time index, which has an entry wherever the largest timestamp grew, and from the last megabyte of headers. The
same log gives the same answer; without a time index, a record far ahead of its time in the middle of a large part
can be missed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from engine.errors import KafkaStorageError
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import tables
from engine.log.view.log_view import LogView
from engine.units import NO_TIMESTAMP, Offset, Position, Timestamp
from kafkafs.tree.lookups import first_on_disk

WALKED = 1024 * 1024
"""Bytes of batches to read headers from, at most."""
MOST_SEGMENTS = 16
"""In a longer range only the last segments count: timestamps mostly grow with offsets."""


def newest_timestamp(view: LogView, start: Offset, end: Offset) -> Timestamp:
    """Return the largest timestamp of the batches with offsets in [start, end); NO_TIMESTAMP without batches."""
    start, end = max(start, first_on_disk(view)), min(end, view.log_end_offset)
    if start >= end:
        return NO_TIMESTAMP
    found = NO_TIMESTAMP
    for segment, following in islice(_newest_first(view, start, end), MOST_SEGMENTS):
        is_whole = start <= segment.base_offset and following <= end
        newest = segment.max_timestamp.timestamp if is_whole else _of_part(segment, start, end)
        found = max(found, newest)
    return found


def _newest_first(view: LogView, start: Offset, end: Offset) -> Iterator[tuple[LogSegment, Offset]]:
    """Yield segments with offsets in [start, end), newest first, each with the next segment's base offset."""
    following = view.log_end_offset
    bases = view.base_offsets
    place = bisect_left(bases, end) - 1
    if place + 1 < len(bases):
        following = bases[place + 1]
    while place >= 0 and following > start:
        yield view.segment_at(place), following
        following = bases[place]
        place -= 1


def _of_part(segment: LogSegment, start: Offset, end: Offset) -> Timestamp:
    low, high = segment.positions(start, end)
    if high - low <= WALKED:
        return newest_between(segment, low, high)
    found = NO_TIMESTAMP
    entry = _last_time_entry_below(segment, end)
    if entry is not None and entry[1] >= start:
        found = entry[0]
    # Near the end, find batches by offset: those of the last few offsets.
    for span in (256, 16, 1):
        near = segment.positions(max(end - span, start), end)[0]
        if high - near <= WALKED:
            return max(found, newest_between(segment, near, high))
    return found


def newest_between(segment: LogSegment, low: Position, high: Position) -> Timestamp:
    """Return the largest timestamp in the headers of the batches between two positions."""
    found = NO_TIMESTAMP
    for table in tables(segment.scan(low, high)):
        found = max(found, int(table["max_timestamp"].max()))
    return found


def _last_time_entry_below(segment: LogSegment, end: Offset) -> tuple[Timestamp, Offset] | None:
    """Return the time index's last entry with an offset below `end`."""
    index = segment.time_index()
    try:
        low, high = 0, len(index)
        while low < high:
            middle = (low + high) // 2
            if index.entry_at(middle).offset < end:
                low = middle + 1
            else:
                high = middle
        return index.entry_at(low - 1) if low else None
    except (OSError, IndexError, KafkaStorageError):
        return None
