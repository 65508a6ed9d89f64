"""The log of a partition that is written to: what a broker knows of it beyond its segments.

Kafka's UnifiedLog without the remote tier. `LocalLog` keeps the segments, `Watermarks` what readers see,
the producer state manager who wrote, the leader epoch cache under which leaders.
"""

from __future__ import annotations

import os
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
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log.append_path import append
from engine.writing.log.epoch_checkpoint import EpochCheckpointInLogDir
from engine.writing.log.loading_steps import OUR_LOADING_RULES
from engine.writing.log.local_log import LocalLog, parse_topic_partition_name
from engine.writing.log.log_loader import LogLoader
from engine.writing.log.log_upkeep import LogUpkeep
from engine.writing.log.offsets_for_times import offset_for_time
from engine.writing.log.producer_rebuild import UNKNOWN_TRANSACTION_VERSION
from engine.writing.log.retention import Condition, deletable_segments, delete_old_segments
from engine.writing.log.truncation import truncate_fully_and_start_at, truncate_to
from engine.writing.log.watermarks import LogOffsetSnapshot
from engine.writing.log_config import MINUTE_MS, LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.records.append_origin import AppendOrigin
from engine.writing.scheduler import Scheduler
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)


class UnifiedLog(LogUpkeep):
    """A partition's log. Threads may share it; a context manager that closes it.

    Made by `create`, which loads what is in the folder. What fails on the disk raises LogDirFailureError
    and takes the whole log dir offline; from then on every change is refused.
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
        disk: Disk = DISK,
    ) -> None:
        super().__init__(
            local_log,
            leader_epoch_cache,
            producer_state,
            log_start_offset,
            topic_id=topic_id,
            validation_metrics=validation_metrics,
            disk=disk,
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
        max_transaction_timeout_ms: int = 15 * 60 * 1000,
        producer_state_config: ProducerStateManagerConfig | None = None,
        producer_id_expiration_check_interval_ms: int = 10 * 60 * 1000,
        log_dir_failure_channel: LogDirFailureChannel | None = None,
        last_shutdown_clean: bool = True,
        topic_id: str | None = None,
        disk: Disk = DISK,
    ) -> Self:
        """Load the log in a folder, or begin one; a recovery comes first if it was not closed properly.

        Args:
            folder: named after the topic and the partition; made if it is not there.
            config: how the log is kept.
            scheduler: does what can wait: flushes, deletions, expirations.
            log_start_offset: as the log dir's checkpoint has it.
            recovery_point: as the log dir's checkpoint has it: what lies below is on the disk.
            clock: tells the time.
            max_transaction_timeout_ms: after which a transaction is late.
            producer_state_config: when producers expire.
            producer_id_expiration_check_interval_ms: how often to look for those that have.
            log_dir_failure_channel: where failures of the log dir are reported.
            last_shutdown_clean: whether the broker before stopped properly.
            topic_id: in base64, if it is known.
            disk: does the writing.

        Raises:
            InvalidNameError: the folder's name is not that of a partition's log.
            InconsistentTopicIdError: the log is another topic's.
            LogDirFailureError: the disk fails.
        """
        folder = os.fspath(folder)
        partition = parse_topic_partition_name(folder)
        channel = log_dir_failure_channel or LogDirFailureChannel()
        log_dir = os.path.dirname(folder)
        with channel.reporting(log_dir, f"cannot load the log of {partition} in {log_dir}"):
            disk.make_folder(folder)
            epochs = LeaderEpochFileCache(
                partition, EpochCheckpointInLogDir(folder, channel, disk), scheduler
            )
            producers = ProducerStateManager(
                partition, folder, max_transaction_timeout_ms, producer_state_config, clock, disk
            )
            segments: LogSegments[WritableSegment] = LogSegments()
            loaded = LogLoader(
                folder,
                partition,
                config,
                scheduler,
                clock,
                channel,
                last_shutdown_clean,
                segments,
                log_start_offset,
                recovery_point,
                epochs,
                producers,
                OUR_LOADING_RULES,
                disk,
            ).load()
        local_log = LocalLog(
            folder,
            config,
            segments,
            loaded.recovery_point,
            loaded.next_offset_metadata,
            scheduler,
            clock,
            partition,
            channel,
            disk=disk,
        )
        try:
            return cls(
                local_log,
                epochs,
                producers,
                loaded.log_start_offset,
                producer_id_expiration_check_interval_ms=producer_id_expiration_check_interval_ms,
                topic_id=topic_id,
                disk=disk,
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
        """Append what a producer sent: validated, with the next offsets and the leader's epoch.

        Args:
            records: what was sent; not changed. A raft leader's have their offsets and epoch already.
            leader_epoch: of this leader.
            origin: who sent it.
            transaction_version: of an end marker that the transaction coordinator writes.
            to_magic: the format to write; a broker since 4.0 writes only the newest.

        Returns:
            The offsets that were given; those of the batch in the log if this one repeats it.

        Raises:
            CorruptRecordError: a batch's frame or checksum is wrong.
            InvalidRecordError, RecordValidationError, InvalidTimestampError: records that are not allowed.
            RecordTooLargeError, RecordBatchTooLargeError: more than a batch or a segment may hold.
            ProducerStateError: an epoch, a sequence or a marker that does not follow what came before.
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
        """Append what a leader sent, as it is. Batches of an epoch above `leader_epoch` are left out.

        Raises:
            CorruptRecordError: a batch's frame or checksum is wrong.
            OffsetsOutOfOrderError: the offsets do not ascend.
            UnexpectedAppendOffsetError: they begin below the log end.
            RecordBatchTooLargeError: together more than a segment may hold.
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
        """Batches of one segment, from the one on that holds an offset.

        Args:
            start_offset: where to begin.
            max_length: bytes to give at most.
            isolation: up to where this reader sees.
            min_one_message: give the first batch whole, whatever its size.

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
        """The aborted transactions that overlap [start, upper_bound)."""
        return self.local_log.collect_aborted_transactions(
            self.log_start_offset, start, upper_bound
        )

    def fetch_offset_by_timestamp(self, target: Timestamp) -> FoundTimestamp | None:
        """The first record at or after a time; None when there is none.

        Negative times ask for places: -1 the log end, -2 and -4 the log start, -3 the record of the largest
        timestamp, -5 and -6 what a log without remote storage answers with -1.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        with self.reporting("cannot look up a time in"):
            self.ensure_open()
            return offset_for_time(self, target)

    def update_high_watermark(self, to: Offset | LogOffsetMetadata) -> Offset:
        """Set the high watermark, as near as log start and log end allow; the new one.

        Raises:
            ValueError: it would be negative.
        """
        return self.watermarks.update_high_watermark(to)

    def maybe_increment_high_watermark(self, to: LogOffsetMetadata) -> LogOffsetMetadata | None:
        """Raise the high watermark, or move it on to a newer segment; the old one if that changed it.

        Raises:
            ValueError: it would lie above the log end.
        """
        return self.watermarks.maybe_increment_high_watermark(to)

    def maybe_update_high_watermark(self, to: Offset) -> Offset | None:
        """Set the high watermark as `update_high_watermark` does; the new one if it changed."""
        return self.watermarks.maybe_update_high_watermark(to)

    def fetch_offset_snapshot(self) -> LogOffsetSnapshot:
        """Log start, log end, high watermark and last stable offset, with their places."""
        return self.watermarks.snapshot()

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: Offset) -> None:
        """Note where a leader epoch begins."""
        self.leader_epoch_cache.assign(leader_epoch, start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, Offset] | None:
        """The newest epoch up to `leader_epoch`, and where it ends; None when that is not known."""
        return self.leader_epoch_cache.end_offset_for(leader_epoch, self.log_end_offset)

    def assign_topic_id(self, topic_id: str) -> None:
        """Give a log without one a topic id, in base64.

        Raises:
            InconsistentTopicIdError: it has another one.
        """
        self.topic_identity.assign(topic_id)

    def update_config(self, config: LogConfig) -> LogConfig:
        """Keep the log in another way from now on; the configuration before."""
        old = self.local_log.config
        self.local_log.update_config(config)
        return old

    def truncate_to(self, target: Offset) -> bool:
        """Cut off all offsets from `target` on; whether there were any.

        Raises:
            ValueError: `target` is negative.
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        return truncate_to(self, target)

    def truncate_fully_and_start_at(
        self, new_offset: Offset, log_start_offset: Offset | None = None
    ) -> None:
        """Delete everything and go on at `new_offset`, which is the log start too unless that is given.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        truncate_fully_and_start_at(self, new_offset, log_start_offset)

    def delete_old_segments(self) -> int:
        """Let go of segments that retention or the log start offset leave behind; how many.

        Raises:
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        return delete_old_segments(self)

    def deletable_segments(self, condition: Condition) -> list[WritableSegment]:
        """The oldest segments below the high watermark, up to the first that fails the condition."""
        return deletable_segments(self, condition)

    def segments_between(self, start: Offset, end: Offset) -> list[WritableSegment]:
        """Segments that may hold offsets of [start, end). ValueError when `start` is above `end`."""
        with self.lock:
            return list(self.local_log.segments.values(start, end))

    def non_active_segments_from(self, start: Offset) -> list[WritableSegment]:
        """Segments that may hold offsets from `start` on, without the active one."""
        with self.lock:
            return list(self.local_log.segments.non_active_from(start))
