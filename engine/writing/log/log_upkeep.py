"""Maintain a writable log: roll, flush, move the start, replace segments, rename, close, delete."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from engine.errors import OffsetOutOfRangeError
from engine.units import Offset, Timestamp
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LogEpochCheckpoint
from engine.writing.disk import StrPath
from engine.writing.log import producer_rebuild
from engine.writing.log.log_facts import LogFacts
from engine.writing.segment.writable_segment import WritableSegment

logger = logging.getLogger(__name__)


class LogUpkeep(LogFacts):
    """Log with the operations that maintain it."""

    def roll(self, expected_next_offset: Offset | None = None) -> WritableSegment:
        """Create a new active segment at the log end, or at `expected_next_offset` above it, and return it.

        A producer snapshot is taken at its base offset; the previous segment is flushed later.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot roll"), self.lock:
            self.ensure_open()
            fresh = self.local_log.roll(expected_next_offset)
            # The segment may begin above the log end, and its snapshot has its base offset.
            self.producer_state.update_map_end_offset(fresh.base_offset)
            snapshot = self.producer_state.take_snapshot(sync=False)
            self.watermarks.follow_log_end()
        self.log_folder.scheduler.schedule(
            "flush-log", partial(self._flush_before, fresh.base_offset, snapshot)
        )
        return fresh

    def _flush_before(self, offset: Offset, snapshot: StrPath | None) -> None:
        """Flush the snapshot first: the recovery point must not pass a snapshot that is not on the device."""
        if self._is_closed:
            return
        if snapshot is not None:
            self.flush_producer_state_snapshot(snapshot)
        self.flush_up_to(offset)

    def flush_producer_state_snapshot(self, path: StrPath) -> None:
        """Sync a producer snapshot to the device; do nothing if it was deleted."""
        with self.reporting("cannot flush a producer snapshot of"):
            try:
                file = self.log_folder.disk.open(path)
            except FileNotFoundError:
                return
            with file:
                file.sync()

    def flush(self, *, force_active_segment: bool = False) -> None:
        """Sync all segments to the device and move the recovery point to the log end.

        Args:
            force_active_segment: sync also an empty active segment, for a clean shutdown.
        """
        end = self.log_end_offset
        self._flush(end, end + 1 if force_active_segment else end)

    def flush_up_to(self, offset: Offset) -> None:
        """Sync the segments with offsets below `offset` to the device and move the recovery point there."""
        self._flush(offset, offset)

    def _flush(self, recovery_point: Offset, end: Offset) -> None:
        with self.reporting("cannot flush"):
            if end > self.local_log.recovery_point:
                self.local_log.flush(end)
                with self.lock:
                    self.local_log.mark_flushed(recovery_point)

    def maybe_increment_log_start_offset(self, to: Offset, reason: str) -> bool:
        """Raise the log start offset, as a delete-records request does; return whether it was below.

        Segments wholly below it are deleted by the next `delete_old_segments`.

        Raises:
            OffsetOutOfRangeError: the offset is above the high watermark.
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot move the start of"), self.lock:
            if to > self.high_watermark:
                raise OffsetOutOfRangeError(
                    f"the start of {self.topic_partition} cannot move to {to}, above its high"
                    f" watermark {self.high_watermark}"
                )
            self.local_log.ensure_open()
            if to <= self.log_start_offset:
                return False
            self.watermarks.move_log_start(to)
            logger.info("the start of %s is now %d: %s", self.topic_partition, to, reason)
            self.leader_epoch_cache.truncate_from_start_async_flush(to)
            self.producer_state.on_log_start_offset_incremented(to)
            self.watermarks.refresh_first_unstable()
            return True

    def expire_producers_every(self, interval_ms: int) -> None:
        """Remove expired producers periodically until the log is closed."""
        self._expiration = self.log_folder.scheduler.schedule(
            "PeriodicProducerExpirationCheck",
            lambda: self.remove_expired_producers(self.log_folder.clock.now_ms()),
            interval_ms,
            interval_ms,
        )

    def remove_expired_producers(self, now: Timestamp) -> None:
        """Remove the producers that have expired."""
        with self.lock:
            self.producer_state.remove_expired_producers(now)

    def rebuild_producer_state(self, last_offset: Offset) -> None:
        """Rebuild the producer state up to an offset; see `producer_rebuild`."""
        with self.lock:
            self.local_log.ensure_open()
            producer_rebuild.rebuild_producer_state(
                self.producer_state,
                self.local_log.segments,
                self.log_start_offset,
                last_offset,
                self.log_folder.clock,
                reload_from_clean_shutdown=False,
            )

    def replace_segments(self, new: list[WritableSegment], old: list[WritableSegment]) -> None:
        """Replace segments by the cleaned ones that were made from them, with the suffix .cleaned."""
        with self.reporting("cannot replace segments of"), self.lock:
            self.ensure_open()
            self.delete_producer_snapshots(self.local_log.replace_segments(new, old))

    def split_overflowed_segment(self, segment: WritableSegment) -> list[WritableSegment]:
        """Split a segment with offsets too far from its base offset; return the new segments."""
        with self.reporting("cannot split a segment of"), self.lock:
            self.ensure_open()
            result = self.local_log.split_overflowed_segment(segment)
            self.delete_producer_snapshots(result.deleted_segments)
            return result.new_segments

    def delete_producer_snapshots(
        self, segments: Iterable[WritableSegment], *, later: bool = True
    ) -> None:
        """Delete the producer snapshots of segments, now or after file.delete.delay.ms."""
        producer_rebuild.delete_producer_snapshots(
            self.producer_state,
            [segment.base_offset for segment in segments],
            self.log_folder,
            later=later,
        )

    def rename_folder(self, name: str, *, should_reinitialize: bool = True) -> None:
        """Rename the folder within its log dir.

        Args:
            name: new name.
            should_reinitialize: False for a log that will be deleted: its leader epochs and topic id are
                not written any more.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot rename the folder of"), self.lock:
            self.topic_identity.maybe_flush()
            if not self.local_log.rename_dir(name):
                return
            self.producer_state.update_parent_dir(self.folder)
            if should_reinitialize:
                self.leader_epoch_cache = self.leader_epoch_cache.with_checkpoint(
                    LogEpochCheckpoint(self.log_folder)
                )
                self.topic_identity.follow_folder()
            else:
                self.leader_epoch_cache.clear()
                self.topic_identity.forget_file()

    def close(self) -> None:
        """Write a producer snapshot at the log end and close all files. May be called twice.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.lock:
            if self._is_closed:
                return
            self.topic_identity.maybe_flush()
            self.local_log.ensure_open()
            self._expiration.cancel()
            with self.reporting("cannot close"):
                self.producer_state.take_snapshot()
                # A log without snapshots that was closed cleanly counts as one without producers.
                self.log_folder.sync()
            self.local_log.close()
            self._is_closed = True

    def close_handlers(self) -> None:
        """Close all files without writing, in a log dir that is offline."""
        with self.lock:
            self._expiration.cancel()
            self.local_log.close_handlers()

    def delete(self) -> None:
        """Delete the log with its folder now.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot delete"), self.lock:
            self.local_log.ensure_open()
            self._expiration.cancel()
            self.leader_epoch_cache.clear()
            deleted = self.local_log.delete_all_segments()
            self.delete_producer_snapshots(deleted, later=False)
            self.local_log.delete_empty_dir()
