"""The aborted transactions that a read_committed consumer has to know for the batches of a fetch.

The log decides: a transaction counts as aborted if its end marker says so. The transaction index, where it agrees, says
where a transaction began before the fetched batches.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from engine.columns.batch_table import holds_control
from engine.errors import DamagedFileError
from engine.index.transaction_index import AbortedTxn
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.record.fate import Fate
from engine.units import Offset, OffsetPosition, Position


class Aborted(NamedTuple):
    """An aborted transaction: its producer, and its first offset as far as known."""

    producer_id: int
    first_offset: Offset


class FetchedRange(NamedTuple):
    """What a fetch of one partition gives.

    Attributes:
        segment: the segment.
        offset: offset that the consumer asked for.
        start, stop: positions of the bytes.
    """

    segment: LogSegment
    offset: Offset
    start: Position
    stop: Position


def aborted_in(view: LogView, fetched: FetchedRange, *, has_transactions: bool) -> list[Aborted]:
    """Return the aborted transactions that a broker states with a fetch, in the order of their ends.

    A broker states those of its index up to the next entry of the offset index behind the bytes. Here each has to be
    proven by the markers in the log, and those of the log that the index lacks are added.

    Args:
        view: the log.
        fetched: what is fetched.
        has_transactions: whether its batches may be part of transactions.

    Raises:
        OSError: a file cannot be read.
    """
    indexed = [entry for entry in _indexed(view, fetched) if _is_proven(view, entry)]
    found = [Aborted(entry.producer_id, entry.first_offset) for entry in indexed]
    in_log = _in_log(view, fetched) if has_transactions else []
    return found + [each for each in in_log if not any(_covers(one, each) for one in indexed)]


def _indexed(view: LogView, fetched: FetchedRange) -> list[AbortedTxn]:
    """Return the entries of the indexes that a broker takes for a fetch."""
    bases = view.abort_bases
    bases = bases[bisect_left(bases, fetched.segment.base_offset) :]
    bound = _upper_bound(view, fetched) if bases else 0
    found: list[AbortedTxn] = []
    for base in bases:
        segment = next(view.segments_from(base))
        try:
            entries, is_complete = segment.transaction_index().aborted_between(
                fetched.offset, bound
            )
        except (DamagedFileError, OSError):
            continue
        found += entries
        if is_complete:
            break
    return found


def _upper_bound(view: LogView, fetched: FetchedRange) -> Offset:
    """Return the bound of the offsets in a fetch that a broker takes from the offset index."""
    segment, stop = fetched.segment, fetched.stop
    index = segment.offset_index()
    try:
        found = index.upper_bound_for_fetch(OffsetPosition(fetched.offset, stop), 0)
        if found is not None and found.position == stop and found == index.entry_at(0):
            # A broker's search for an upper bound never looks at the first entry.
            found = index.entry_at(1) if len(index) > 1 else None
    except (DamagedFileError, OSError):
        found = None
    return view.next_base(segment) if found is None else found.offset


def _is_proven(view: LogView, entry: AbortedTxn) -> bool:
    """Return whether the log has the end of an aborted transaction, and no other end of its producer within it."""
    for segment in view.segments_from(entry.first_offset):
        located = segment.locate(entry.first_offset)
        position = 0 if located is None else located.position
        while position < segment.tail_end:
            chunk = view.log.markers.chunk_at(segment, position)
            for offset, fate in chunk.markers.get(entry.producer_id, ()):
                if offset >= entry.first_offset:
                    return offset == entry.last_offset and fate is Fate.ABORTED
            position = max(chunk.end, position + 1)
        if view.next_base(segment) > entry.last_offset:
            break
    return False


def _covers(entry: AbortedTxn, aborted: Aborted) -> bool:
    return (
        entry.producer_id == aborted.producer_id
        and entry.first_offset <= aborted.first_offset < entry.last_offset
    )


def _in_log(view: LogView, fetched: FetchedRange) -> list[Aborted]:
    """Return the aborted transactions with records in the good bytes, by first offset."""
    segment, _, start, stop = fetched
    found: set[Aborted] = set()
    begun: set[int] = set()
    for item in segment.scan(start):
        if not isinstance(item, BatchRun):
            continue
        if item.position >= stop:
            break
        fates = view.fates(segment, item)
        if fates is not None:
            rows = item.table
            is_fetched = (rows["producer_id"] >= 0) & (rows["position"] < stop)
            for row in is_fetched.nonzero()[0].tolist():
                producer = int(rows["producer_id"][row])
                if holds_control(rows[row]):
                    begun.discard(producer)
                elif fates[row] == Fate.ABORTED and producer not in begun:
                    begun.add(producer)
                    found.add(Aborted(producer, int(rows["base_offset"][row])))
        if item.end_position >= stop:
            break
        del item  # free it before the next read: a batch may be as large as the budget
    return sorted(found, key=lambda each: (each.first_offset, each.producer_id))
