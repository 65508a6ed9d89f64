"""When a log rolls: the limits of a segment, the batches to append, and the segment's age."""

from __future__ import annotations

from typing import NamedTuple

from engine.clock import Clock
from engine.record.file_records import FileRecords
from engine.units import MAX_INT64, Offset, Timestamp


class RollParams(NamedTuple):
    """Limits of a segment, and the batches to append.

    Attributes:
        max_segment_ms, max_segment_size: limits, in milliseconds and bytes.
        max_timestamp, max_offset: of the batches to append.
        messages_size: bytes of these batches.
        now: time of the clock.
    """

    max_segment_ms: int
    max_segment_size: int
    max_timestamp: Timestamp
    max_offset: Offset
    messages_size: int
    now: Timestamp


class SegmentAge:
    """Age of a segment: by the timestamps of its batches, without timestamps by the clock.

    Args:
        records: batches of the segment.
        clock: source of the time.

    Attributes:
        first_timestamp: largest timestamp of the first batch, read when it is first needed; None before.
    """

    __slots__ = ("_clock", "_created", "_records", "first_timestamp")

    def __init__(self, records: FileRecords, clock: Clock) -> None:
        self.first_timestamp: Timestamp | None = None
        self._records = records
        self._clock = clock
        self._created = clock.now_ms()

    def waited(self, now: Timestamp, message_timestamp: Timestamp) -> int:
        """Return the milliseconds from the first batch to a new one, without timestamps from the creation to now."""
        first = self.first_timestamp
        if first is None:
            first = self._load_first_timestamp()
        if first is not None and first >= 0:
            return message_timestamp - first
        return now - self._created

    @property
    def first_batch_timestamp(self) -> Timestamp:
        """Largest timestamp of the first batch; MAX_INT64 without one."""
        first = self._load_first_timestamp()
        return first if first is not None and first >= 0 else MAX_INT64

    def restart(self) -> None:
        """Set the age of an emptied segment to 0."""
        self._created = self._clock.now_ms()
        self.first_timestamp = None

    def _load_first_timestamp(self) -> Timestamp | None:
        if self.first_timestamp is None and self._records.size:
            first = next(self._records.batches(), None)
            if first is not None:
                self.first_timestamp = first.max_timestamp
        return self.first_timestamp
