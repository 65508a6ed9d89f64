"""Keeping a log: roll, flush, move the start, let go of segments, rename, close, delete."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial

from engine.errors import OffsetOutOfRangeError
from engine.units import Offset, Timestamp
from engine.writing.disk import StrPath
from engine.writing.log import producer_rebuild
from engine.writing.log.epoch_checkpoint import EpochCheckpointInLogDir
from engine.writing.log.log_facts import LogFacts
from engine.writing.segment.writable_segment import WritableSegment

log = logging.getLogger(__name__)


class LogUpkeep(LogFacts):
    """A log as those see it who keep it in order."""

    def roll(self, expected_next_offset: Offset | None = None) -> WritableSegment:
        """Begin a new active segment at the log end, or at `expected_next_offset` if that is above.

        A producer snapshot is taken for it; the segment before is flushed later.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot roll"), self.lock:
            self.ensure_open()
            fresh = self.local_log.roll(expected_next_offset)
            # The segment may begin above the log end, and its snapshot bears its base offset.
            self.producer_state.update_map_end_offset(fresh.base_offset)
            snapshot = self.producer_state.take_snapshot(sync=False)
            self.watermarks.follow_log_end()
        self.scheduler.schedule(
            "flush-log", partial(self._flush_before, fresh.base_offset, snapshot)
        )
        return fresh

    def _flush_before(self, offset: Offset, snapshot: StrPath | None) -> None:
        """The recovery point must not move when the snapshot is not on the disk."""
        if self._is_closed:
            return
        if snapshot is not None:
            self.flush_producer_state_snapshot(snapshot)
        self.flush_up_to(offset)

    def flush_producer_state_snapshot(self, path: StrPath) -> None:
        """Sync a producer snapshot to the disk; one that is gone is fine."""
        with self.reporting("cannot flush a producer snapshot of"):
            try:
                file = self._disk.open(path)
            except FileNotFoundError:
                return
            with file:
                file.sync()

    def flush(self, *, force_active_segment: bool = False) -> None:
        """Sync everything to the disk and move the recovery point to the log end.

        `force_active_segment` syncs the active segment even if it is empty, as a clean shutdown needs it.
        """
        end = self.log_end_offset
        self._flush(end, end + 1 if force_active_segment else end)

    def flush_up_to(self, offset: Offset) -> None:
        """Sync segments with offsets below `offset` to the disk and move the recovery point there."""
        self._flush(offset, offset)

    def _flush(self, recovery_point: Offset, end: Offset) -> None:
        with self.reporting("cannot flush"):
            if end > self.local_log.recovery_point:
                self.local_log.flush(end)
                with self.lock:
                    self.local_log.mark_flushed(recovery_point)

    def maybe_increment_log_start_offset(self, to: Offset, reason: str) -> bool:
        """Raise the log start offset, as a delete-records request does; whether it was below.

        Segments that are wholly below it go with the next `delete_old_segments`.

        Raises:
            OffsetOutOfRangeError: it would lie above the high watermark.
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot move the start of"), self.lock:
            if to > self.high_watermark:
                raise OffsetOutOfRangeError(
                    f"the start of {self.topic_partition} cannot move to {to}, above its high"
                    f" watermark {self.high_watermark}"
                )
            self.local_log.check_if_memory_mapped_buffer_closed()
            if to <= self.log_start_offset:
                return False
            self.watermarks.move_log_start(to)
            log.info("the start of %s is %d now: %s", self.topic_partition, to, reason)
            self.leader_epoch_cache.truncate_from_start_async_flush(to)
            self.producer_state.on_log_start_offset_incremented(to)
            self.watermarks.refresh_first_unstable()
            return True

    def expire_producers_every(self, interval_ms: int) -> None:
        """Look for producers that did nothing for long, again and again until the log is closed."""
        self._expiration = self.scheduler.schedule(
            "PeriodicProducerExpirationCheck",
            lambda: self.remove_expired_producers(self.clock.now_ms()),
            interval_ms,
            interval_ms,
        )

    def remove_expired_producers(self, now: Timestamp) -> None:
        """Forget producers that did nothing for long."""
        with self.lock:
            self.producer_state.remove_expired_producers(now)

    def rebuild_producer_state(self, last_offset: Offset) -> None:
        """Bring what is known of the producers to an offset: see `producer_rebuild`."""
        with self.lock:
            self.local_log.check_if_memory_mapped_buffer_closed()
            producer_rebuild.rebuild_producer_state(
                self.producer_state,
                self.local_log.segments,
                self.log_start_offset,
                last_offset,
                self.clock,
                reload_from_clean_shutdown=False,
            )

    def replace_segments(self, new: list[WritableSegment], old: list[WritableSegment]) -> None:
        """Put cleaned segments, which end in .cleaned or .swap, in the place of those they were made from."""
        with self.reporting("cannot replace segments of"), self.lock:
            self.ensure_open()
            self.delete_producer_snapshots(self.local_log.replace_segments(new, old))

    def split_overflowed_segment(self, segment: WritableSegment) -> list[WritableSegment]:
        """Make several segments of one whose offsets go beyond 31 bits; the new ones."""
        with self.reporting("cannot split a segment of"), self.lock:
            self.ensure_open()
            result = self.local_log.split_overflowed_segment(segment)
            self.delete_producer_snapshots(result.deleted_segments)
            return result.new_segments

    def delete_producer_snapshots(
        self, segments: Iterable[WritableSegment], *, later: bool = True
    ) -> None:
        """Take the producer snapshots of segments out of the log: now, or when their files go."""
        producer_rebuild.delete_producer_snapshots(
            self.producer_state,
            [segment.base_offset for segment in segments],
            partial(self.reporting, "cannot delete producer snapshots of"),
            self.scheduler if later else None,
            self.config.file_delete_delay_ms,
        )

    def rename_folder(self, name: str, *, should_reinitialize: bool = True) -> None:
        """Give the folder another name within its log dir.

        Without `should_reinitialize`, which is for a log that is to be deleted, nothing is written
        about epochs and topic id any more.

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
                    EpochCheckpointInLogDir(self.folder, self._channel, self._disk)
                )
                self.topic_identity.follow(self.folder)
            else:
                self.leader_epoch_cache.clear()
                self.topic_identity.forget_file()

    def close(self) -> None:
        """Take a producer snapshot at the log end and close all files; a second call does nothing.

        Nothing is flushed here.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.lock:
            if self._is_closed:
                return
            self.topic_identity.maybe_flush()
            self.local_log.check_if_memory_mapped_buffer_closed()
            self._expiration.cancel()
            with self.reporting("cannot close"):
                self.producer_state.take_snapshot()
                # Without any snapshot a log that was closed properly would be taken for one without producers.
                self._disk.sync_folder(self.folder)
            self.local_log.close()
            self._is_closed = True

    def close_handlers(self) -> None:
        """Close all files and write nothing: for a log dir that is offline."""
        with self.lock:
            self._expiration.cancel()
            self.local_log.close_handlers()

    def delete(self) -> None:
        """Remove the log with its folder at once.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot delete"), self.lock:
            self.local_log.check_if_memory_mapped_buffer_closed()
            self._expiration.cancel()
            self.leader_epoch_cache.clear()
            deleted = self.local_log.delete_all_segments()
            self.delete_producer_snapshots(deleted, later=False)
            self.local_log.delete_empty_dir()
