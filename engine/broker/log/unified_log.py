"""Writable log of a partition: Kafka's UnifiedLog without the remote tier.

`LogState` has the parts: the segments in a `LocalLog`, leader epochs, producers, watermarks. `Appender`,
`LogReader`, `Roller`, `Retention` and `Truncation` work on it, and a log has their methods.
"""

from __future__ import annotations

from typing import Any, Self

from engine.broker.log.appender import Appender
from engine.broker.log.local_log import LocalLog
from engine.broker.log.log_reader import LogReader
from engine.broker.log.log_state import LogState
from engine.broker.log.retention import Retention
from engine.broker.log.roller import Roller
from engine.broker.log.truncation import Truncation
from engine.closable import Closable
from engine.disk.disk import StrPath
from engine.units import Offset, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LogEpochCheckpoint
from engine.writing.log.loaded_log import load_log
from engine.writing.log_config import MINUTE_MS, LogConfig
from engine.writing.scheduler import Scheduler
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
)


class UnifiedLog(Closable):
    """Log of a partition. Safe from several threads; a context manager that closes it.

    `create` loads the log of a folder. An error of the disk raises LogDirFailureError and takes the log
    dir offline; then every change is refused.

    Attributes:
        log_folder: folder, configuration, scheduler, clock and disk of the log.
        local_log: segments.
        producer_state: state of the producers.
        watermarks: offsets that bound what readers see.
        topic_identity: topic id.
        validation_metrics: counts of refused appends.
        lock: held by every change of the log.
        append_as_leader, append_as_follower: methods of `Appender`.
        read, fetch_offset_by_timestamp, collect_aborted_transactions: methods of `LogReader`.
        update_high_watermark, maybe_increment_high_watermark: methods of `Watermarks`.
        roll, flush, flush_up_to: methods of `Roller`.
        truncate_to, truncate_fully_and_start_at: methods of `Truncation`.
        maybe_increment_log_start_offset, delete_old_segments, deletable_segments: methods of `Retention`.
        assign_topic_id: `TopicIdentity.assign`.
    """

    def __init__(
        self,
        local_log: LocalLog,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state: ProducerStateManager,
        log_start_offset: Offset,
        *,
        producer_id_expiration_check_interval_ms: int = 10 * MINUTE_MS,
        topic_id: str | None = None,
    ) -> None:
        state = LogState(local_log, leader_epoch_cache, producer_state, log_start_offset, topic_id)
        self._state = state
        self.log_folder = state.folder
        self.local_log = local_log
        self.producer_state = producer_state
        self.watermarks = state.watermarks
        self.topic_identity = state.topic_identity
        self.lock = state.lock
        roller = Roller(state)
        self.roll, self.flush, self.flush_up_to = roller.roll, roller.flush, roller.flush_up_to
        appender = Appender(state, roller)
        self.append_as_leader = appender.append_as_leader
        self.append_as_follower = appender.append_as_follower
        self.validation_metrics = appender.validation_metrics
        reader = LogReader(state)
        self.read = reader.read
        self.fetch_offset_by_timestamp = reader.fetch_offset_by_timestamp
        self.collect_aborted_transactions = reader.collect_aborted_transactions
        self.update_high_watermark = state.watermarks.update_high_watermark
        self.maybe_increment_high_watermark = state.watermarks.maybe_increment_high_watermark
        truncation = Truncation(state)
        self.truncate_to = truncation.truncate_to
        self.truncate_fully_and_start_at = truncation.truncate_fully_and_start_at
        retention = Retention(state, roller)
        self.maybe_increment_log_start_offset = retention.maybe_increment_log_start_offset
        self.delete_old_segments = retention.delete_old_segments
        self.deletable_segments = retention.deletable_segments
        self.assign_topic_id = state.topic_identity.assign
        self._expiration = self.log_folder.scheduler.schedule(
            "PeriodicProducerExpirationCheck",
            self._remove_expired_producers,
            producer_id_expiration_check_interval_ms,
            producer_id_expiration_check_interval_ms,
        )

    @classmethod
    def create(
        cls,
        folder: StrPath,
        config: LogConfig,
        scheduler: Scheduler,
        *,
        producer_id_expiration_check_interval_ms: int = 10 * MINUTE_MS,
        topic_id: str | None = None,
        **loading: Any,  # noqa: ANN401
    ) -> Self:
        """Load the log of a folder, or create one; a log that was not closed cleanly is recovered.

        Args:
            folder, config, scheduler: as for `load_log`, which loads it.
            producer_id_expiration_check_interval_ms: milliseconds between two removals of expired producers.
            topic_id: topic id in base64, if known.
            loading: what else `load_log` takes.

        Raises:
            InvalidNameError: the name of the folder is not that of a partition's log.
            InconsistentTopicIdError: the log belongs to another topic.
            ValueError: the log cannot be loaded; see `LogLoader.load`.
            LogDirFailureError: the disk fails.
        """
        loaded = load_log(folder, config, scheduler, **loading)
        start, recovered, end = loaded.offsets
        local_log = LocalLog(loaded.folder, loaded.segments, recovered, end)
        try:
            return cls(
                local_log,
                loaded.leader_epochs,
                loaded.producers,
                start,
                producer_id_expiration_check_interval_ms=producer_id_expiration_check_interval_ms,
                topic_id=topic_id,
            )
        except BaseException:
            local_log.close_handlers()
            raise

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.folder}, {self.log_start_offset}..{self.log_end_offset},"
            f" high watermark {self.high_watermark}, last stable offset {self.last_stable_offset})"
        )

    @property
    def folder(self) -> str:
        """Path of the folder."""
        return self.log_folder.path

    @property
    def topic_partition(self) -> TopicPartition:
        """Partition of the log."""
        return self.log_folder.topic_partition

    @property
    def parent_dir(self) -> str:
        """Log dir with the folder."""
        return self.log_folder.log_dir

    @property
    def topic_id(self) -> str | None:
        """Topic id in base64, None if unknown."""
        return self.topic_identity.topic_id

    @property
    def config(self) -> LogConfig:
        """Configuration of the log."""
        return self.log_folder.config

    @property
    def leader_epoch_cache(self) -> LeaderEpochFileCache:
        """Leader epochs."""
        return self._state.leader_epoch_cache

    @property
    def recovery_point(self) -> Offset:
        """First offset that may not be on the device yet."""
        return self.local_log.recovery_point

    @property
    def log_start_offset(self) -> Offset:
        """First offset that readers may ask for."""
        return self.watermarks.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """Offset of the next record."""
        return self.local_log.log_end_offset

    @property
    def high_watermark(self) -> Offset:
        """First offset that may not be on all in-sync replicas."""
        return self.watermarks.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """Offset below which every transaction has ended and every batch is replicated."""
        return self.watermarks.last_stable_offset

    @property
    def segments(self) -> list[WritableSegment]:
        """All segments, the oldest first."""
        return self._state.segments

    @property
    def active_segment(self) -> WritableSegment:
        """Segment that takes appends."""
        return self.local_log.segments.active_segment

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.local_log.segments.size

    def update_config(self, config: LogConfig) -> LogConfig:
        """Replace the configuration, and return the old one."""
        old, self.log_folder.config = self.log_folder.config, config
        return old

    # Segments

    def segments_between(self, start: Offset, end: Offset) -> list[WritableSegment]:
        """Return the segments that may hold offsets of [start, end). Raises ValueError if `start` is above `end`."""
        with self.lock:
            return list(self.local_log.segments.values(start, end))

    def non_active_segments_from(self, start: Offset) -> list[WritableSegment]:
        """Return the segments that may hold offsets from `start` on, without the active one."""
        with self.lock:
            return list(self.local_log.segments.non_active_from(start))

    def replace_segments(self, new: list[WritableSegment], old: list[WritableSegment]) -> None:
        """Replace segments by the cleaned ones that were made from them, with the suffix .cleaned."""
        with self._state.changing("cannot replace segments of"):
            self._state.delete_producer_snapshots(self.local_log.replace_segments(new, old))

    def split_overflowed_segment(self, segment: WritableSegment) -> list[WritableSegment]:
        """Split a segment with offsets too far from its base offset; return the new segments."""
        with self._state.changing("cannot split a segment of"):
            result = self.local_log.split_overflowed_segment(segment)
            self._state.delete_producer_snapshots(result.deleted_segments)
            return result.new_segments

    # The folder

    def rename_folder(self, name: str, *, should_reinitialize: bool = True) -> None:
        """Rename the folder within its log dir.

        Args:
            name: new name.
            should_reinitialize: False for a log that will be deleted: its leader epochs and topic id are
                not written any more.
        """
        with self.log_folder.reporting("cannot rename the folder of"), self.lock:
            self.topic_identity.maybe_flush()
            if not self.local_log.rename_dir(name):
                return
            self.producer_state.update_parent_dir(self.folder)
            if should_reinitialize:
                self._state.leader_epoch_cache = self.leader_epoch_cache.with_checkpoint(
                    LogEpochCheckpoint(self.log_folder)
                )
                self.topic_identity.follow_folder()
            else:
                self.leader_epoch_cache.clear()
                self.topic_identity.forget_file()

    def close(self) -> None:
        """Write a producer snapshot at the log end and close all files. May be called twice."""
        with self.lock:
            if self._state.is_closed:
                return
            self.topic_identity.maybe_flush()
            self.local_log.ensure_open()
            self._expiration.cancel()
            with self.log_folder.reporting("cannot close"):
                self.producer_state.take_snapshot()
                # A log without snapshots that was closed cleanly counts as one without producers.
                self.log_folder.sync()
            self.local_log.close()
            self._state.is_closed = True

    def close_handlers(self) -> None:
        """Close all files without writing, in a log dir that is offline."""
        with self.lock:
            self._expiration.cancel()
            self.local_log.close_handlers()

    def delete(self) -> None:
        """Delete the log with its folder now."""
        with self.log_folder.reporting("cannot delete"), self.lock:
            self.local_log.ensure_open()
            self._expiration.cancel()
            self.leader_epoch_cache.clear()
            self.local_log.delete_all_segments()
            self.local_log.delete_empty_dir()

    def _remove_expired_producers(self) -> None:
        with self.lock:
            self.producer_state.remove_expired_producers(self.log_folder.clock.now_ms())
