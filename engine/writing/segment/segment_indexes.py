"""Keep the indexes of a writable segment in step with its batches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from engine.columns.batch_facts import BatchHead
from engine.units import Offset, Position, Timestamp, TimestampOffset
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex
from engine.writing.segment.segment_files import FAILURES, WritableSegmentFiles

logger = logging.getLogger(__name__)

Entry: TypeAlias = tuple[Offset, Position, Timestamp, Offset]
"""An offset and its position, and the largest timestamp so far with its offset."""


class SegmentIndexes:
    """Adds entries to the indexes of a segment, an interval apart, and knows its largest timestamp.

    One thread changes it; reading is safe meanwhile.

    Args:
        files: open files.
        interval_bytes: bytes between two index entries.

    Attributes:
        known_largest: largest timestamp so far; None until it is read from the time index.
        opened: offset and time index; None before the first use of `both`.
    """

    def __init__(self, files: WritableSegmentFiles, interval_bytes: int) -> None:
        self._files = files
        self.interval_bytes = interval_bytes
        self.known_largest: TimestampOffset | None = None
        self.opened: tuple[WritableOffsetIndex, WritableTimeIndex] | None = None
        self._bytes_since_last_entry = 0
        self._lock = threading.Lock()

    @property
    def largest(self) -> TimestampOffset:
        """Largest timestamp, and the last offset of the first batch with it.

        After opening, before an append, the last entry of the time index.
        """
        known = self.known_largest
        if known is None:
            with self._lock:
                known = self.known_largest
                if known is None:
                    known = self.known_largest = self._files.time_index.get().last_entry
        return known

    def both(self) -> tuple[WritableOffsetIndex, WritableTimeIndex]:
        """Return offset and time index, opened if needed. Raises the errors of opening."""
        opened = self.opened = self._files.offset_index.get(), self._files.time_index.get()
        return opened

    def add(self, heads: Iterable[BatchHead], position: Position) -> None:
        """Add an entry after each interval of some batches, which were appended at a position."""
        largest = self.known_largest or self.largest
        newest, of_newest = largest
        since, interval = self._bytes_since_last_entry, self.interval_bytes
        entries: list[Entry] = []
        for last_offset, max_timestamp, size in heads:
            if max_timestamp > newest:
                newest, of_newest = max_timestamp, last_offset
            if since > interval:
                entries.append((last_offset, position, newest, of_newest))
                since = 0
            position += size
            since += size
        self._bytes_since_last_entry = since
        if newest > largest[0]:
            self.known_largest = TimestampOffset(newest, of_newest)
        if entries:
            self._write(entries)

    def _write(self, entries: list[Entry]) -> None:
        """Add entries to both indexes: many by one write each, where none of them can fail."""
        offsets, times = self.opened or self.both()
        if len(entries) == 1:
            offset, at, newest, of_newest = entries[0]
            offsets.append(offset, at)
            times.maybe_append(newest, of_newest)
            return
        room = min(offsets.max_entries - offsets.entries, times.max_entries - 1 - times.entries)
        if len(entries) <= room:
            columns = np.array(entries, np.int64)
            is_new = np.ones(len(columns), bool)
            is_new[1:] = columns[1:, 2] > columns[:-1, 2]
            offsets.extend(columns[:, 0], columns[:, 1])
            times.extend(columns[is_new, 2], columns[is_new, 3])
            return
        for offset, at, newest, of_newest in entries:
            offsets.append(offset, at)
            times.maybe_append(newest, of_newest)

    def finish(self) -> None:
        """Add the largest timestamp to the time index, and cut off preallocated bytes."""
        offset_index, time_index = self.both()
        offset_index.trim_to_valid_size()
        time_index.maybe_append(*self.largest, skip_full_check=True)
        time_index.trim_to_valid_size()

    def resize(self, size: int) -> None:
        """Set the length of both indexes to `size` bytes, rounded down to whole entries."""
        self._files.offset_index.get().resize(size)
        self._files.time_index.get().resize(size)

    def empty(self) -> None:
        """Empty the indexes and forget the largest timestamp, before a recovery."""
        self._files.offset_index.get().reset()
        self._files.time_index.get().reset()
        self._files.txn_index.reset()
        self.known_largest = None

    def truncate_to(self, offset: Offset) -> None:
        """Remove the entries from an offset on; `find_largest` is due once the batches are removed, too."""
        files = self._files
        offset_index, time_index = files.offset_index.get(), files.time_index.get()
        offset_index.truncate_to(offset)
        time_index.truncate_to(offset)
        files.txn_index.truncate_to(offset)
        offset_index.resize(offset_index.max_index_size)
        time_index.resize(time_index.max_index_size)
        self._bytes_since_last_entry = 0

    def find_largest(self) -> None:
        """Set the largest timestamp to the last entry of the time index, or a larger one of the batches after it."""
        if self.largest.timestamp < 0:
            return
        last = self._files.time_index.get().last_entry
        position = self._files.offset_index.get().lookup(last.offset).position
        after = self._files.records.largest_timestamp_after(position)
        self.known_largest = after if after.timestamp > last.timestamp else last

    def complete(self) -> None:
        """Add the largest timestamp to the time index before it is closed; a failure is only logged."""
        if self.known_largest is not None:
            try:
                self._files.time_index.get().maybe_append(*self.known_largest, skip_full_check=True)
            except FAILURES as error:
                logger.warning(
                    "the time index of %s lacks its last entry: %s", self._files.records.path, error
                )
