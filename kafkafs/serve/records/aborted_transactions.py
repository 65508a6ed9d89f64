"""The aborted transactions that a read_committed consumer has to know for the batches of a fetch.

The log decides: a transaction counts as aborted if its end marker says so. The transaction index, where it agrees, says
where a transaction began before the fetched batches.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import DamagedFileError
from engine.index.transaction_index import AbortedTxn
from engine.log.log_view import LogView
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.record.attributes import CONTROL_MASK
from engine.record.fate import Fate
from engine.units import Offset, Position


class Aborted(NamedTuple):
    """An aborted transaction: its producer, and its first offset as far as known."""

    producer_id: int
    first_offset: Offset


def aborted_in(
    view: LogView, segment: LogSegment, start: Position, stop: Position
) -> list[Aborted]:
    """Return the aborted transactions with records in the good batches of [start, stop), by first offset.

    Raises:
        OSError: a file cannot be read.
    """
    found: set[Aborted] = set()
    begun: dict[int, Offset] = {}
    ended: dict[int, Offset] = {}
    indexed: list[AbortedTxn] | None = None
    for item in segment.scan(start):
        if not isinstance(item, BatchRun):
            continue
        if item.position >= stop:
            break
        fates = view.fates(segment, item)
        if fates is not None:
            rows = item.table
            for row in (rows["producer_id"] >= 0).nonzero()[0].tolist():
                producer = int(rows["producer_id"][row])
                base = int(rows["base_offset"][row])
                if rows["attributes"][row] & CONTROL_MASK:
                    begun.pop(producer, None)
                    ended[producer] = base
                elif fates[row] == Fate.ABORTED and producer not in begun:
                    indexed = _indexed(view, segment) if indexed is None else indexed
                    first = _begin(indexed, producer, base)
                    begun[producer] = first if first > ended.get(producer, -1) else base
                    found.add(Aborted(producer, begun[producer]))
        if item.end_position >= stop:
            break
        del item  # free it before the next read: a batch may be as large as the budget
    return sorted(found, key=lambda each: (each.first_offset, each.producer_id))


def _begin(indexed: list[AbortedTxn], producer_id: int, offset: Offset) -> Offset:
    """Return where the transaction of an aborted batch began, as the index says; else the batch's own offset."""
    for entry in indexed:
        if entry.producer_id == producer_id and entry.first_offset <= offset < entry.last_offset:
            return entry.first_offset
    return offset


def _indexed(view: LogView, segment: LogSegment) -> list[AbortedTxn]:
    """Return the entries of the indexes from a segment on, where the markers of its transactions are."""
    found: list[AbortedTxn] = []
    for each in view.segments_from(segment.base_offset):
        try:
            found += each.transaction_index().all()
        except (DamagedFileError, OSError):
            continue
    return found
