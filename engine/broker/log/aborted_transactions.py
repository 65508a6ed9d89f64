"""Find the aborted transactions of a fetch in the transaction indexes of a log's segments."""

from __future__ import annotations

from collections.abc import Iterator

from engine.index.transaction_index import AbortedTxn
from engine.log.log_segments import LogSegments
from engine.log.segment.fetch import FetchDataInfo
from engine.units import Offset, OffsetPosition
from engine.writing.segment.writable_segment import WritableSegment


def segments_from(
    segments: LogSegments[WritableSegment], offset: Offset
) -> Iterator[WritableSegment]:
    """Yield the segment that may hold an offset, and all after it."""
    segment = segments.floor(offset)
    while segment is not None:
        yield segment
        segment = segments.higher(segment.base_offset)


def aborted_between(
    segments: LogSegments[WritableSegment],
    base_offset: Offset,
    start_offset: Offset,
    upper_bound: Offset,
) -> list[AbortedTxn]:
    """Return the aborted transactions that end at or above an offset and begin below a bound.

    Args:
        segments: segments of the log.
        base_offset: offset in the first segment whose index is searched.
        start_offset: smallest offset of an end marker.
        upper_bound: offset that no transaction begins at or above.
    """
    found: list[AbortedTxn] = []
    for segment in segments_from(segments, base_offset):
        aborted, is_complete = segment.txn_index.collect_aborted_txns(start_offset, upper_bound)
        found += aborted
        if is_complete:
            break
    return found


def aborted_in(
    fetched: FetchDataInfo,
    segments: LogSegments[WritableSegment],
    segment: WritableSegment,
    start_offset: Offset,
    log_end_offset: Offset,
) -> list[AbortedTxn]:
    """Return the aborted transactions that touch fetched batches.

    Args:
        fetched: batches of one segment.
        segments: segments of the log.
        segment: segment of the batches.
        start_offset: offset that was asked for.
        log_end_offset: end of the log.
    """
    begin = fetched.fetch_offset_metadata
    start = OffsetPosition(begin.offset, begin.position)
    entry = segment.offset_index.upper_bound_for_fetch(start, fetched.records.size)
    if entry is not None:
        upper_bound = entry.offset
    else:
        following = segments.higher(segment.base_offset)
        upper_bound = log_end_offset if following is None else following.base_offset
    return aborted_between(segments, segment.base_offset, start_offset, upper_bound)
