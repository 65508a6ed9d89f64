"""The offsets that bound what readers of a log see: where it starts, the high watermark, the last stable offset."""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

from engine.errors import OffsetOutOfRangeError
from engine.log.segment.fetch import FetchIsolation, is_offset_only, is_on_older_segment
from engine.units import LogOffsetMetadata, Offset
from engine.writing.log.local_log import LocalLog
from engine.writing.state.producer_state_manager import ProducerStateManager

log = logging.getLogger(__name__)


class LogOffsetSnapshot(NamedTuple):
    """The offsets of a log at one time; the last three with their places in their segments."""

    log_start_offset: Offset
    log_end_offset: LogOffsetMetadata
    high_watermark: LogOffsetMetadata
    last_stable_offset: LogOffsetMetadata


class Watermarks:
    """Log start offset <= last stable offset <= high watermark <= log end offset.

    Places are looked up when somebody needs them, and kept then.

    Args:
        local_log: knows the log end and finds places.
        producers: know the open transactions.
        log_start_offset: the first offset that readers may ask for.
        lock: the log's.
    """

    def __init__(
        self,
        local_log: LocalLog,
        producers: ProducerStateManager,
        log_start_offset: Offset,
        lock: threading.RLock,
    ) -> None:
        self._local_log = local_log
        self._producers = producers
        self._lock = lock
        self.log_start_offset = log_start_offset
        self._high_watermark = LogOffsetMetadata(log_start_offset)
        self._first_unstable: LogOffsetMetadata | None = None

    @property
    def high_watermark(self) -> Offset:
        """The first offset that is not known to be on all replicas in sync."""
        return self._high_watermark.offset

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Where the first transaction begins that is open, or whose end lies above the high watermark.

        Not below the log start, where it may have been deleted.
        """
        unstable = self._first_unstable
        return None if unstable is None else unstable.offset

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset whose fate is open: of a transaction, or the high watermark."""
        unstable, high_watermark = self._first_unstable, self.high_watermark
        if unstable is not None and unstable.offset < high_watermark:
            return unstable.offset
        return high_watermark

    def update_high_watermark(self, to: Offset | LogOffsetMetadata) -> Offset:
        """Set the high watermark, as near as log start and log end allow; the new one.

        Raises:
            ValueError: it would be negative.
        """
        new = to if isinstance(to, LogOffsetMetadata) else LogOffsetMetadata(to)
        end = self._local_log.log_end_offset_metadata
        if new.offset < self.log_start_offset:
            new = LogOffsetMetadata(self.log_start_offset)
        elif new.offset >= end.offset:
            new = end
        self._set_high_watermark(new)
        return new.offset

    def maybe_increment_high_watermark(self, to: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Raise the high watermark, or move it on to a newer segment; the old one if that changed it.

        Raises:
            ValueError: it would lie above the log end.
        """
        if to.offset > self._local_log.log_end_offset:
            raise ValueError(
                f"the high watermark {to} of {self._local_log.topic_partition} would lie above"
                f" the log end {self._local_log.log_end_offset_metadata}"
            )
        with self._lock:
            old = self.high_watermark_metadata()
            if old.offset < to.offset or (old.offset == to.offset and is_on_older_segment(old, to)):
                self._set_high_watermark(to)
                return old
            return None

    def maybe_update_high_watermark(self, to: Offset) -> Offset | None:
        """Set the high watermark as `update_high_watermark` does; the new one if it changed."""
        with self._lock:
            old = self.high_watermark
            new = self.update_high_watermark(to)
            return None if new == old else new

    def follow_log_end(self) -> None:
        """Pull the high watermark down to the log end, or on to its segment, if it is not below."""
        end = self._local_log.next_offset_metadata
        if self._high_watermark.offset >= end.offset:
            self._set_high_watermark(end)

    def move_log_start(self, to: Offset) -> None:
        """Set the log start offset; high watermark and recovery point are not left below it."""
        self.log_start_offset = to
        if self.high_watermark < to:
            self.update_high_watermark(to)
        if self._local_log.recovery_point < to:
            self._local_log.update_recovery_point(to)

    def refresh_first_unstable(self) -> None:
        """Ask the producers again where the first open transaction begins."""
        with self._lock:
            self._local_log.check_if_memory_mapped_buffer_closed()
            unstable = self._producers.first_unstable_offset
            if unstable is not None and (
                is_offset_only(unstable) or unstable.offset < self.log_start_offset
            ):
                unstable = self.offset_metadata(max(unstable.offset, self.log_start_offset))
            self._first_unstable = unstable

    def offset_metadata(self, offset: Offset) -> LogOffsetMetadata:
        """An offset with its place; without when the log does not reach it."""
        try:
            return self._local_log.convert_to_offset_metadata(offset)
        except OffsetOutOfRangeError:
            return LogOffsetMetadata(offset)

    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """The high watermark with its place."""
        self._local_log.check_if_memory_mapped_buffer_closed()
        known = self._high_watermark
        if not is_offset_only(known):
            return known
        with self._lock:
            found = self.offset_metadata(self.high_watermark)
            self._set_high_watermark(found)
            return found

    def last_stable_metadata(self) -> LogOffsetMetadata:
        """The last stable offset with its place."""
        self._local_log.check_if_memory_mapped_buffer_closed()
        high_watermark = self.high_watermark_metadata()
        unstable = self._first_unstable
        if unstable is None or unstable.offset >= high_watermark.offset:
            return high_watermark
        if is_offset_only(unstable):
            with self._lock:
                unstable = self._first_unstable = self.offset_metadata(unstable.offset)
        return unstable

    def bound(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Up to where a reader sees."""
        if isolation is FetchIsolation.LOG_END:
            return self._local_log.log_end_offset_metadata
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark_metadata()
        return self.last_stable_metadata()

    def snapshot(self) -> LogOffsetSnapshot:
        """All offsets, with their places."""
        stable = self.last_stable_metadata()
        high_watermark = self.high_watermark_metadata()
        end = self._local_log.log_end_offset_metadata
        return LogOffsetSnapshot(self.log_start_offset, end, high_watermark, stable)

    def _set_high_watermark(self, to: LogOffsetMetadata) -> None:
        if to.offset < 0:
            raise ValueError(f"the high watermark {to.offset} is negative")
        with self._lock:
            if to.offset < self.high_watermark:
                log.warning(
                    "the high watermark of %s goes back from %s to %s",
                    self._local_log.topic_partition,
                    self._high_watermark,
                    to,
                )
            self._high_watermark = to
            self._producers.on_high_watermark_updated(to.offset)
            self.refresh_first_unstable()
