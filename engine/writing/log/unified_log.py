"""Writable log of a partition: Kafka's UnifiedLog without the remote tier.

`LocalLog` has the segments, `Watermarks` the offsets that readers see, `ProducerStateManager` the
producers and `LeaderEpochFileCache` the leader epochs.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from engine.clock import SYSTEM_CLOCK, Clock
from engine.errors import OffsetOutOfRangeError
from engine.index.transaction_index import AbortedTxn
from engine.log.log_segments import LogSegments
from engine.log.segment.fetch import FetchDataInfo, FetchIsolation
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.memory_records import MemoryRecords
from engine.units import FoundTimestamp, LogOffsetMetadata, Offset, Timestamp
from engine.writing.append.append_analysis import AppendTerms
from engine.writing.append.log_append_info import LogAppendInfo
from engine.writing.append.validation_result import ValidationMetrics
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LogEpochCheckpoint
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log.aborted_transactions import aborted_between
from engine.writing.log.append_path import append
from engine.writing.log.loading_steps import OUR_LOADING_RULES
from engine.writing.log.local_log import LocalLog
from engine.writing.log.log_loader import LogLoader
from engine.writing.log.log_upkeep import LogUpkeep
from engine.writing.log.offsets_for_times import offset_for_time
from engine.writing.log.retention import Condition, deletable_segments, delete_old_segments
from engine.writing.log.truncation import truncate_fully_and_start_at, truncate_to
from engine.writing.log.watermarks import LogOffsetSnapshot
from engine.writing.log_config import MINUTE_MS, LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.log_folder import WritableLogFolder, parse_topic_partition_name
from engine.writing.records.append_origin import AppendOrigin
from engine.writing.scheduler import Scheduler
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_append_info import UNKNOWN_TRANSACTION_VERSION
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)


class UnifiedLog(LogUpkeep):
    """Log of a partition. Safe from several threads; a context manager that closes it.

    `create` loads the log of a folder. An error of the disk raises LogDirFailureError and takes the log
    dir offline; then every change is refused.
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
        validation_metrics: ValidationMetrics | None = None,
    ) -> None:
        super().__init__(
            local_log,
            leader_epoch_cache,
            producer_state,
            log_start_offset,
            topic_id=topic_id,
            validation_metrics=validation_metrics,
        )
        self.expire_producers_every(producer_id_expiration_check_interval_ms)

    @classmethod
    def create(
        cls,
        folder: StrPath,
        config: LogConfig,
        scheduler: Scheduler,
        *,
        log_start_offset: Offset = 0,
        recovery_point: Offset = 0,
        clock: Clock = SYSTEM_CLOCK,
        max_transaction_timeout_ms: int = 15 * MINUTE_MS,
        producer_state_config: ProducerStateManagerConfig | None = None,
        producer_id_expiration_check_interval_ms: int = 10 * MINUTE_MS,
        log_dir_failure_channel: LogDirFailureChannel | None = None,
        last_shutdown_clean: bool = True,
        topic_id: str | None = None,
        disk: Disk = DISK,
    ) -> Self:
        """Load the log of a folder, or create one; a log that was not closed cleanly is recovered.

        Args:
            folder: folder with the name of the partition, created if missing.
            config: configuration of the log.
            scheduler: runs delayed flushes, deletions and expirations.
            log_start_offset: log start in the checkpoint of the log dir.
            recovery_point: recovery point in the checkpoint of the log dir.
            clock: source of the time.
            max_transaction_timeout_ms: milliseconds after which a transaction is late.
            producer_state_config: expiration of producers.
            producer_id_expiration_check_interval_ms: milliseconds between two removals of expired producers.
            log_dir_failure_channel: receives I/O errors of the log dir.
            last_shutdown_clean: whether the last broker stopped cleanly.
            topic_id: topic id in base64, if known.
            disk: disk to read and write with.

        Raises:
            InvalidNameError: the name of the folder is not that of a partition's log.
            InconsistentTopicIdError: the log belongs to another topic.
            LogDirFailureError: the disk fails.
        """
        partition = parse_topic_partition_name(folder)
        log_folder = WritableLogFolder(
            folder, partition, config, scheduler, clock, log_dir_failure_channel, disk
        )
        with log_folder.reporting("cannot load the log of"):
            disk.make_folder(folder)
            epochs = LeaderEpochFileCache(partition, LogEpochCheckpoint(log_folder), scheduler)
            producers = ProducerStateManager(
                partition, folder, max_transaction_timeout_ms, producer_state_config, clock, disk
            )
            segments: LogSegments[WritableSegment] = LogSegments()
            loaded = LogLoader(
                log_folder,
                last_shutdown_clean,
                segments,
                log_start_offset,
                recovery_point,
                epochs,
                producers,
                OUR_LOADING_RULES,
            ).load()
        local_log = LocalLog(
            log_folder, segments, loaded.recovery_point, loaded.next_offset_metadata
        )
        try:
            return cls(
                local_log,
                epochs,
                producers,
                loaded.log_start_offset,
                producer_id_expiration_check_interval_ms=producer_id_expiration_check_interval_ms,
                topic_id=topic_id,
            )
        except BaseException:
            local_log.close_handlers()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def append_as_leader(
        self,
        records: MemoryRecords,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        transaction_version: int = UNKNOWN_TRANSACTION_VERSION,
        to_magic: int = CURRENT_MAGIC,
    ) -> LogAppendInfo:
        """Validate the batches of a producer, assign offsets and the leader epoch, and append them.

        Args:
            records: batches, which are not changed; those of a raft leader have offsets and epoch already.
            leader_epoch: leader epoch of this leader.
            origin: who sent the batches.
            transaction_version: transaction version of a coordinator's end marker.
            to_magic: magic to write; a broker since 4.0 writes only magic 2.

        Returns:
            The assigned offsets, or those of the batch in the log that these records repeat.

        Raises:
            CorruptRecordError: the frame or checksum of a batch is wrong.
            InvalidRecordError, RecordValidationError, InvalidTimestampError: a record is not allowed.
            RecordTooLargeError, RecordBatchTooLargeError: the batches are too large for the log or a segment.
            ProducerStateError: an epoch, sequence or marker contradicts the producer's state.
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        assigns_offsets = origin is not AppendOrigin.RAFT_LEADER
        return append(
            self,
            records,
            AppendTerms(
                origin,
                leader_epoch,
                assigns_offsets,
                to_magic=to_magic,
                transaction_version=transaction_version,
            ),
        )

    def append_as_follower(self, records: MemoryRecords, leader_epoch: int) -> LogAppendInfo:
        """Append the batches of a leader unchanged, without those of an epoch above `leader_epoch`.

        Raises:
            CorruptRecordError: the frame or checksum of a batch is wrong.
            OffsetsOutOfOrderError: the offsets do not ascend.
            UnexpectedAppendOffsetError: the offsets begin below the log end.
            RecordBatchTooLargeError: the batches are too large for a segment.
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        return append(
            self,
            records,
            AppendTerms(
                AppendOrigin.REPLICATION, leader_epoch, assigns_offsets=False, ignores_size=True
            ),
        )

    def read(
        self,
        start_offset: Offset,
        max_length: int,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        *,
        min_one_message: bool = True,
    ) -> FetchDataInfo:
        """Return batches of one segment, from the first that reaches an offset.

        Args:
            start_offset: first offset.
            max_length: most bytes.
            isolation: offset where the reader has to stop.
            min_one_message: return the first batch whole, whatever its size.

        Raises:
            OffsetOutOfRangeError: the log starts above or ends below the offset.
            LogDirFailureError: the log dir is offline, or goes offline now.
            StateError: the log is closed.
        """
        self.ensure_open()
        start = self.log_start_offset
        if start_offset < start:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} starts at offset {start}, above {start_offset}"
            )
        return self.local_log.read(
            start_offset,
            max_length,
            min_one_message,
            self.watermarks.bound(isolation),
            include_aborted_txns=isolation is FetchIsolation.TXN_COMMITTED,
        )

    def collect_aborted_transactions(self, start: Offset, upper_bound: Offset) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap [start, upper_bound)."""
        segments = self.local_log.segments
        return aborted_between(segments, start, self.log_start_offset, upper_bound)

    def fetch_offset_by_timestamp(self, target: Timestamp) -> FoundTimestamp | None:
        """Return the first record at or after a time; None without one.

        Negative times are special: -1 is the log end, -2 and -4 the log start, -3 the record with the largest
        timestamp; -5 and -6 ask about remote storage and give offset -1.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot look up a time in"):
            self.ensure_open()
            return offset_for_time(self, target)

    def update_high_watermark(self, to: Offset | LogOffsetMetadata) -> Offset:
        """Set the high watermark, at least the log start and at most the log end; return it.

        Raises:
            ValueError: the high watermark would be negative.
        """
        return self.watermarks.update_high_watermark(to)

    def maybe_increment_high_watermark(self, to: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Raise the high watermark, or move it to a newer segment; return the old one, None if nothing changed.

        Raises:
            ValueError: the offset is above the log end.
        """
        return self.watermarks.maybe_increment_high_watermark(to)

    def maybe_update_high_watermark(self, to: Offset) -> Offset | None:
        """Set the high watermark as `update_high_watermark` does; return it, None if it did not change."""
        return self.watermarks.maybe_update_high_watermark(to)

    def fetch_offset_snapshot(self) -> LogOffsetSnapshot:
        """Return log start, log end, high watermark and last stable offset with their positions."""
        return self.watermarks.snapshot()

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: Offset) -> None:
        """Assign the start offset of a leader epoch."""
        self.leader_epoch_cache.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, Offset] | None:
        """Return the latest epoch up to `leader_epoch` and its end offset; None if unknown."""
        return self.leader_epoch_cache.end_offset_for(leader_epoch, self.log_end_offset)

    def assign_topic_id(self, topic_id: str) -> None:
        """Assign a topic id, in base64, to a log without one.

        Raises:
            InconsistentTopicIdError: the log has another id.
        """
        self.topic_identity.assign(topic_id)

    def update_config(self, config: LogConfig) -> LogConfig:
        """Replace the configuration, and return the old one."""
        old, self.log_folder.config = self.log_folder.config, config
        return old

    def truncate_to(self, target: Offset) -> bool:
        """Remove all offsets from `target` on; return whether there were any.

        Raises:
            ValueError: `target` is negative.
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        return truncate_to(self, target)

    def truncate_fully_and_start_at(
        self, new_offset: Offset, log_start_offset: Offset | None = None
    ) -> None:
        """Delete all batches and continue at `new_offset`, which is also the default of the log start.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        truncate_fully_and_start_at(self, new_offset, log_start_offset)

    def delete_old_segments(self) -> int:
        """Delete segments by retention and below the log start; return the number of segments.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        return delete_old_segments(self)

    def deletable_segments(self, condition: Condition) -> list[WritableSegment]:
        """Return the oldest segments below the high watermark, up to the first that fails the condition."""
        return deletable_segments(self, condition)

    def segments_between(self, start: Offset, end: Offset) -> list[WritableSegment]:
        """Return the segments that may hold offsets of [start, end). Raises ValueError if `start` is above `end`."""
        with self.lock:
            return list(self.local_log.segments.values(start, end))

    def non_active_segments_from(self, start: Offset) -> list[WritableSegment]:
        """Return the segments that may hold offsets from `start` on, without the active one."""
        with self.lock:
            return list(self.local_log.segments.non_active_from(start))
