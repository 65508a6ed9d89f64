"""Offsets that bound what readers of a log see: log start, high watermark, last stable offset."""

from __future__ import annotations

import logging
import threading
from typing import NamedTuple

from engine.broker.log.local_log import LocalLog
from engine.errors import OffsetOutOfRangeError
from engine.log.segment.fetch import FetchIsolation, is_offset_only, is_on_older_segment
from engine.units import LogOffsetMetadata, Offset
from engine.writing.state.producer_state_manager import ProducerStateManager

logger = logging.getLogger(__name__)


class LogOffsetSnapshot(NamedTuple):
    """Offsets of a log at one time; the last three with their positions."""

    log_start_offset: Offset
    log_end_offset: LogOffsetMetadata
    high_watermark: LogOffsetMetadata
    last_stable_offset: LogOffsetMetadata


class Watermarks:
    """Log start offset <= last stable offset <= high watermark <= log end offset.

    The position of an offset is looked up when it is first needed.

    Args:
        local_log: segments, and the log end.
        producers: producer state, with the open transactions.
        log_start_offset: first offset that readers may ask for.
        lock: lock of the log.
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
        """First offset that may not be on all in-sync replicas."""
        return self._high_watermark.offset

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Start of the first transaction that is open, or has its marker at or above the high watermark.

        At least the log start: earlier batches may be deleted.
        """
        unstable = self._first_unstable
        return None if unstable is None else unstable.offset

    @property
    def last_stable_offset(self) -> Offset:
        """Start of the first open transaction, at most the high watermark."""
        unstable, high_watermark = self._first_unstable, self.high_watermark
        if unstable is not None and unstable.offset < high_watermark:
            return unstable.offset
        return high_watermark

    def update_high_watermark(self, to: Offset | LogOffsetMetadata) -> Offset:
        """Set the high watermark, at least the log start and at most the log end; return it."""
        new = to if isinstance(to, LogOffsetMetadata) else LogOffsetMetadata(to)
        end = self._local_log.log_end_offset_metadata
        if new.offset < self.log_start_offset:
            new = LogOffsetMetadata(self.log_start_offset)
        elif new.offset >= end.offset:
            new = end
        self._set_high_watermark(new)
        return new.offset

    def maybe_increment_high_watermark(self, to: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Raise the high watermark, or move it to a newer segment; return the old one, None if nothing changed.

        Raises:
            ValueError: the offset is above the log end.
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
        """Set the high watermark as `update_high_watermark` does; return it, None if it did not change."""
        with self._lock:
            old = self.high_watermark
            new = self.update_high_watermark(to)
            return None if new == old else new

    def follow_log_end(self) -> None:
        """Set a high watermark at or above the log end to the log end."""
        end = self._local_log.next_offset_metadata
        if self._high_watermark.offset >= end.offset:
            self._set_high_watermark(end)

    def move_log_start(self, to: Offset) -> None:
        """Set the log start offset, and raise the high watermark and the recovery point to it."""
        self.log_start_offset = to
        if self.high_watermark < to:
            self.update_high_watermark(to)
        self._local_log.recovery_point = max(self._local_log.recovery_point, to)

    def refresh_first_unstable(self) -> None:
        """Update the start of the first unstable transaction from the producer state."""
        with self._lock:
            self._local_log.ensure_open()
            unstable = self._producers.first_unstable_offset
            if unstable is not None and (
                is_offset_only(unstable) or unstable.offset < self.log_start_offset
            ):
                unstable = self.offset_metadata(max(unstable.offset, self.log_start_offset))
            self._first_unstable = unstable

    def offset_metadata(self, offset: Offset) -> LogOffsetMetadata:
        """Return an offset with its position, without one outside the log."""
        try:
            return self._local_log.convert_to_offset_metadata(offset)
        except OffsetOutOfRangeError:
            return LogOffsetMetadata(offset)

    def high_watermark_metadata(self) -> LogOffsetMetadata:
        """Return the high watermark with its position."""
        self._local_log.ensure_open()
        known = self._high_watermark
        if not is_offset_only(known):
            return known
        with self._lock:
            found = self.offset_metadata(self.high_watermark)
            self._set_high_watermark(found)
            return found

    def last_stable_metadata(self) -> LogOffsetMetadata:
        """Return the last stable offset with its position."""
        high_watermark = self.high_watermark_metadata()
        unstable = self._first_unstable
        if unstable is None or unstable.offset >= high_watermark.offset:
            return high_watermark
        return unstable

    def bound(self, isolation: FetchIsolation) -> LogOffsetMetadata:
        """Return the offset where a reader has to stop."""
        if isolation is FetchIsolation.LOG_END:
            return self._local_log.log_end_offset_metadata
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.high_watermark_metadata()
        return self.last_stable_metadata()

    def snapshot(self) -> LogOffsetSnapshot:
        """Return all offsets with their positions."""
        stable = self.last_stable_metadata()
        high_watermark = self.high_watermark_metadata()
        end = self._local_log.log_end_offset_metadata
        return LogOffsetSnapshot(self.log_start_offset, end, high_watermark, stable)

    def _set_high_watermark(self, to: LogOffsetMetadata) -> None:
        with self._lock:
            if to.offset < self.high_watermark:
                logger.warning(
                    "the high watermark of %s goes back from %s to %s",
                    self._local_log.topic_partition,
                    self._high_watermark,
                    to,
                )
            self._high_watermark = to
            self._producers.on_high_watermark_updated(to.offset)
            self.refresh_first_unstable()
