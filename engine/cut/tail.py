"""The part of a log around a moment: where it ends by its own clocks, and the transactions that end near there.

A marker has the clock of its partition's leader and is proof of what was written before it. Where no marker is near, the
timestamps of the records count.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.columns.batch_table import holds_control
from engine.log.segment.batch_search import first_offset
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.log.view.transactions import events
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.fate import Fate
from engine.units import NO_TIMESTAMP, Offset, Position, Timestamp

SKEW = 10_000
"""Milliseconds that clocks of brokers, and the markers of one transaction, may be apart."""
_AHEAD: Position = 1 << 20
"""Bytes that are read behind the end for markers that prove it wrong."""


@dataclass(slots=True)
class TransactionPart:
    """A transaction in one partition, as far as it was read.

    Attributes:
        producer_id: the producer.
        epoch: of its data; -1 if none was read.
        first_timestamp: of its data; -1 if none was read.
        data_end: one past its last offset with data; 0 if none was read.
        marker: offset of its end marker; None without one.
        marker_epoch, marker_time, fate: of the marker.
    """

    producer_id: int
    epoch: int = -1
    first_timestamp: Timestamp = NO_TIMESTAMP
    data_end: Offset = 0
    marker: Offset | None = None
    marker_epoch: int = -1
    marker_time: Timestamp = NO_TIMESTAMP
    fate: Fate = Fate.OPEN


@dataclass(slots=True)
class Tail:
    """A log around a moment.

    Attributes:
        end: base offset of the first batch after the moment, or the log end.
        log_end: the log end.
        evidence: what the end is known by, in words.
        pieces: transactions near the end, in the order of their markers; those without one last.
        skew: largest difference between a marker and the newest clock before it, in milliseconds.
    """

    end: Offset
    log_end: Offset
    evidence: str
    pieces: list[TransactionPart] = field(default_factory=list)
    skew: int = 0

    def straddles(self, end: Offset) -> bool:
        """Return whether a transaction has its end marker, or no end, at or above an offset."""
        return any(each.marker is None or each.marker >= end for each in self.pieces)


def tail_of(view: LogView, time: Timestamp, pinned: Offset | None = None) -> Tail:
    """Return a log around a time. Reads about as much as was written within SKEW of it.

    Args:
        view: the log.
        time: in milliseconds; records up to it are in.
        pinned: the end, if it does not depend on the time.

    Raises OSError, UnsupportedCodecError.
    """
    start = view.offset_for_time(time - SKEW)
    if start is None:
        end = view.log_end_offset if pinned is None else pinned
        return Tail(end, view.log_end_offset, "all of it is older")
    reading = _Reading(time)
    ahead: Position | None = None
    for _, item in view.runs(start.offset):
        if isinstance(item, BatchRun):
            reading.take(item)
            is_behind = reading.end is not None and (
                pinned is None or int(item.table["last_offset"][-1]) >= pinned
            )
            if is_behind:
                ahead = item.end_position - item.position + (0 if ahead is None else ahead)
            newest = reading.marker_time
            if newest > time + SKEW or (reading.is_far and ahead is not None and ahead >= _AHEAD):
                break
        del item  # free it before the next read: a batch may be as large as the budget
    return reading.tail(view.log_end_offset, pinned)


class _Reading:
    def __init__(self, time: Timestamp) -> None:
        self.end: Offset | None = None
        self.is_far = False
        self.marker_time = NO_TIMESTAMP
        self._evidence = ""
        self._is_proven = False
        self._time = time
        self._running = NO_TIMESTAMP
        self._skew = 0
        self._open: dict[int, TransactionPart] = {}
        self._ended: list[TransactionPart] = []

    def take(self, run: BatchRun) -> None:
        table = run.table
        control = holds_control(table).tolist()
        marked = {each.row: each for each in events(run)}
        for row, (base, last, stamp, epoch, kind) in enumerate(
            zip(
                table["base_offset"].tolist(),
                table["last_offset"].tolist(),
                table["max_timestamp"].tolist(),
                table["producer_epoch"].tolist(),
                control,
                strict=True,
            )
        ):
            if stamp > self._time and table["magic"][row] < CURRENT_MAGIC:
                base = first_offset(run.with_table(table[row : row + 1]))
            self._place(base, stamp, is_marker=kind)
            event = marked.get(row)
            if event is not None:
                piece = self._open.setdefault(event.producer_id, TransactionPart(event.producer_id))
                if event.ended is None:
                    piece.epoch, piece.data_end = epoch, last + 1
                    if piece.first_timestamp == NO_TIMESTAMP:
                        piece.first_timestamp = stamp
                else:
                    piece.marker, piece.marker_epoch = base, epoch
                    piece.marker_time, piece.fate = stamp, event.ended
                    self._ended.append(self._open.pop(event.producer_id))

    def _place(self, base: Offset, stamp: Timestamp, *, is_marker: bool) -> None:
        """Find the end: the first batch after the time, if no marker behind it proves that it was before."""
        if is_marker:
            self._skew = max(self._skew, min(self._running - stamp, SKEW))
            self.marker_time = max(self.marker_time, stamp)
            if stamp <= self._time and not self._is_proven and self.end is not None:
                self.end, self.is_far = None, False
        self._running = max(self._running, stamp)
        if stamp <= self._time or stamp < 0:
            return
        self.is_far = self.is_far or stamp > self._time + SKEW
        if self.end is None:
            self.end, self._is_proven = base, is_marker
            what = "marker" if is_marker else "batch"
            self._evidence = f"the {what} at offset {base} is the first after the moment"
        elif is_marker:
            self._is_proven = True

    def tail(self, log_end: Offset, pinned: Offset | None) -> Tail:
        end = log_end if self.end is None else self.end
        evidence = self._evidence or "all of it is older"
        if pinned is not None:
            end, evidence = pinned, "the moment names this offset"
        return Tail(end, log_end, evidence, [*self._ended, *self._open.values()], self._skew)
