"""Read a writable segment: look-ups by offset and time, slices, its end."""

from __future__ import annotations

from collections import deque

from engine.log.segment.fetch import WHOLE, FetchDataInfo, fetch_slice
from engine.record.frame_walk import batch_in, frames
from engine.units import (
    BatchPosition,
    FoundTimestamp,
    Offset,
    Position,
    Timestamp,
)
from engine.writing.segment.segment_files import WritableSegmentFiles
from engine.writing.segment.segment_rules import SegmentRules


class SegmentLookUps:
    """Finds and reads batches of a segment; safe while one thread changes the segment.

    Args:
        files: open files.
        base_offset: smallest offset of the segment.
        rules: rules for damaged files.
    """

    def __init__(
        self, files: WritableSegmentFiles, base_offset: Offset, rules: SegmentRules
    ) -> None:
        self._files = files
        self._records = files.records
        self._base_offset = base_offset
        self._rules = rules

    def can_hold(self, offset: Offset) -> bool:
        """Return whether an offset is at most 2^31-1 above the base offset."""
        return self._files.offset_index.get().can_append_offset(offset)

    def translate_offset(self, offset: Offset, start: Position = 0) -> BatchPosition | None:
        """Return the position of the first batch that ends at or above `offset`; None without one.

        Args:
            offset: offset to look up.
            start: position to start at, if the index leads to a smaller one.
        """
        return self._rules.find(self._records, self._files.offset_index.get(), offset, start)

    def read(
        self,
        start_offset: Offset,
        max_size: int,
        max_position: Position | None = WHOLE,
        min_one_message: bool = False,
    ) -> FetchDataInfo | None:
        """Return batches from the first that reaches an offset.

        Args:
            start_offset: first offset.
            max_size: most bytes.
            max_position: end of the bytes that a reader may see; None if unknown, then no bytes are returned.
            min_one_message: return the first batch whole, whatever its size.

        Returns:
            None if all offsets of this segment are below.

        Raises:
            ValueError: `max_size` is negative.
        """
        return fetch_slice(
            self._records,
            self._base_offset,
            self.translate_offset(start_offset),
            max_size,
            max_position,
            min_one_message=min_one_message,
        )

    def read_next_offset(self) -> Offset:
        """Return the offset after the last batch, the base offset without one; walks from the last index entry.

        Raises:
            CorruptRecordError: a length is too small for a batch. Only the lengths are looked at, and the last batch.
        """
        file, end = self._records.file, self._records.end
        indexed = self._rules.wrap(self._files.offset_index.get().last_offset)
        found = self.translate_offset(indexed)
        last = [] if found is None else deque(frames(file, found.position, end), 1)
        next_offset = batch_in(file, last[0]).next_offset if last else self._base_offset
        return self._rules.wrap(next_offset)

    def offset_after(self, last_offset: Offset) -> Offset:
        """Return the next offset by the rules of this segment."""
        return self._rules.wrap(last_offset + 1)

    def has_overflow(self) -> bool:
        """Return whether the last offset is too far from the base offset."""
        next_offset = self.read_next_offset()
        return next_offset > self._base_offset and not self.can_hold(next_offset - 1)

    def find_offset_by_timestamp(
        self, timestamp: Timestamp, starting_offset: Offset
    ) -> FoundTimestamp | None:
        """Return the first record, in offset order, at or after a time and at or above an offset."""
        hint = self._files.time_index.get().lookup(timestamp)
        position = self._files.offset_index.get().lookup(max(hint.offset, starting_offset)).position
        return self._records.search_for_timestamp(timestamp, position, starting_offset)
