"""Bounds of a range of records: offsets, or times that are looked up in each log."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from engine.units import Offset, Timestamp

if TYPE_CHECKING:
    from engine.log.view.log_view import LogView


class LogBound(NamedTuple):
    """A place in a log: an offset, that of the first record at or after a time, or one counted back from the log end.

    One of them is set.
    """

    offset: Offset | None = None
    timestamp: Timestamp | None = None
    before_end: Offset | None = None

    def offset_in(self, view: LogView) -> Offset:
        """Return the offset in a log: for a time the first data record, in offset order, at or after it.

        That is the log end without such a record. Control records do not count: a transaction's marker has the
        broker's clock.
        """
        if self.before_end is not None:
            return self.before(view.log_end_offset)
        if self.timestamp is None:
            return self.offset or 0
        found = view.offset_for_time(self.timestamp, records_only=True)
        return view.log_end_offset if found is None else found.offset

    def before(self, log_end: Offset) -> Offset:
        """Return the offset `before_end` before the end of a log."""
        return max(log_end - (self.before_end or 0), 0)


class LogRange(NamedTuple):
    """Records from `start` on, and before `stop`; None for no bound."""

    start: LogBound | None = None
    stop: LogBound | None = None

    @property
    def needs_log(self) -> bool:
        """Whether a bound has to be looked up in a log."""
        return any(
            bound is not None and (bound.timestamp, bound.before_end) != (None, None)
            for bound in self
        )

    @property
    def is_backwards(self) -> bool:
        """Whether the range ends before it begins, whatever the log."""
        if self.start is None or self.stop is None:
            return False
        pairs = (
            (self.start.offset, self.stop.offset),
            (self.start.timestamp, self.stop.timestamp),
            (self.stop.before_end, self.start.before_end),
        )
        return any(first is not None and end is not None and end < first for first, end in pairs)

    def offsets_in(self, view: LogView, low: Offset, high: Offset) -> tuple[Offset, Offset]:
        """Return the part of [low, high) that is in the range; it is empty if the first is not below the second."""
        start = low if self.start is None else max(low, self.start.offset_in(view))
        stop = high if self.stop is None else min(high, self.stop.offset_in(view))
        return start, max(start, stop)


EVERYTHING = LogRange()
"""The whole of a log."""
