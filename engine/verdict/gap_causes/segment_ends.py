"""Where the batches of each segment end, by its last batch: offsets between that and the next segment are missing."""

from __future__ import annotations

from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from engine.units import MAX_INT64, Offset


class BatchesEnd(NamedTuple):
    """One past the last offset of a segment and those before it, and whether damage follows its last batch."""

    next_offset: Offset
    is_damaged: bool


class SegmentEnds:
    """The ends of a view's segments, each looked up once."""

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._known: dict[Offset, BatchesEnd] = {}

    def before(self, place: int) -> BatchesEnd | None:
        """Return the end of the segments before one, by its index in the log; None for the first one."""
        if place <= 0:
            return None
        segment = self._view.segment_at(place - 1)
        known = self._known.get(segment.base_offset)
        if known is None:
            known = self._known[segment.base_offset] = self._end_of(segment, place - 1)
        return known

    def note(self, segment: LogSegment, end: BatchesEnd) -> None:
        """Keep the end of a segment that was read."""
        self._known.setdefault(segment.base_offset, end)

    def _end_of(self, segment: LogSegment, place: int) -> BatchesEnd:
        following, is_damaged, has_batch = segment.base_offset, False, False
        try:
            for item in segment.scan_from(MAX_INT64 - 1):
                if isinstance(item, BatchRun):
                    following, is_damaged, has_batch = item.next_offset, False, True
                elif isinstance(item, Damage):
                    is_damaged = True
                del item
        except (KafkaStorageError, OSError):
            return BatchesEnd(following, True)
        if has_batch or is_damaged:
            return BatchesEnd(following, is_damaged)
        before = self.before(place)
        if before is None or before.is_damaged:
            return BatchesEnd(following, False)
        return before
