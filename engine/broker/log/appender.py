"""Append batches to a log, in Kafka's order: offsets, epochs, roll, producers, bytes, transactions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from engine.broker.append import usual_batch
from engine.broker.append.append_analysis import (
    AppendedRun,
    AppendTerms,
    analyze,
    facts_of,
)
from engine.broker.append.log_append_info import LogAppendInfo
from engine.broker.append.log_validator import LogValidator
from engine.broker.append.validation_result import OffsetCounter, ValidationMetrics
from engine.broker.log.log_state import LogState
from engine.broker.log.roller import Roller
from engine.coding.compression import Compression
from engine.columns.batch_facts import RunFacts
from engine.errors import (
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnexpectedAppendOffsetError,
)
from engine.record.attributes import TimestampType
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.memory_records import MemoryRecords
from engine.state.producer_state_entry import BatchMetadata
from engine.units import MAX_INT32, NO_PRODUCER_ID, LogOffsetMetadata, Offset
from engine.writing.log.producer_rebuild import update_producers
from engine.writing.segment.rolling import RollParams
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import (
    UNKNOWN_TRANSACTION_VERSION,
    ProducerAppendInfo,
)
from engine.writing.state.producer_map import ProducerUpdates
from engine.writing.state.producer_state_manager import ProducerStateManager

logger = logging.getLogger(__name__)


class ProducerChanges(NamedTuple):
    """Changes of the producer state by an append.

    Attributes:
        updated: new state of each producer.
        completed: transactions that the append ends.
        duplicate: batch in the log that the append repeats; then nothing is written.
    """

    updated: ProducerUpdates[ProducerAppendInfo]
    completed: list[CompletedTxn]
    duplicate: BatchMetadata | None = None

    def apply(self, producers: ProducerStateManager, segment: WritableSegment) -> None:
        """Change the producer state, and add aborted transactions to the index of the segment with the batches."""
        for update in self.updated.values():
            producers.update(update)
        for completed in self.completed:
            segment.update_txn_index(completed, producers.last_stable_offset(completed))
            producers.complete_txn(completed)


def find_changes(
    producers: ProducerStateManager,
    records: MemoryRecords,
    segment: WritableSegment,
    terms: AppendTerms,
) -> ProducerChanges:
    """Return the changes by batches to append to a segment.

    Raises:
        ProducerStateError: a batch contradicts the producer's state, which is not changed.
    """
    changes = ProducerChanges(ProducerUpdates(), [])
    for batch in records.batches():
        if batch.producer_id <= NO_PRODUCER_ID:
            continue
        if terms.origin is AppendOrigin.CLIENT:
            entry = producers.last_entry(batch.producer_id)
            duplicate = None if entry is None else entry.find_duplicate_batch(batch)
            if duplicate is not None:
                return changes._replace(duplicate=duplicate)
        first_offset = None
        if batch.is_transactional:
            first_offset = LogOffsetMetadata(
                batch.base_offset,
                segment.base_offset,
                segment.size + batch.file_position - records.start,
            )
        completed = update_producers(
            producers,
            batch,
            changes.updated,
            first_offset,
            terms.origin,
            terms.transaction_version,
        )
        if completed is not None:
            changes.completed.append(completed)
    return changes


class Appender:
    """Appends batches to a log.

    Attributes:
        validation_metrics: counts of refused appends.
    """

    def __init__(self, state: LogState, roller: Roller) -> None:
        self._state = state
        self._roller = roller
        self._folder = state.folder
        self._local_log = state.local_log
        self._producers = state.producer_state
        self._watermarks = state.watermarks
        self._reporting = state.folder.reporting("cannot append to")
        self._following = AppendTerms(
            AppendOrigin.REPLICATION, 0, assigns_offsets=False, ignores_size=True
        )
        self.validation_metrics = ValidationMetrics()

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
            ValueError: the first record of a producer's control batch is no COMMIT or ABORT, as in Kafka.
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        assigns_offsets = origin is not AppendOrigin.RAFT_LEADER
        return self._append(
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
            InvalidRecordError: an end marker is damaged.
            InvalidTxnStateError: a batch outside of a transaction comes while its producer has one open.
            ValueError: the first record of a producer's control batch is no COMMIT or ABORT, as in Kafka.
            LogDirFailureError: the log dir is offline, or goes offline now.
        """
        terms = self._following
        if terms.leader_epoch != leader_epoch:
            terms = self._following = terms._replace(leader_epoch=leader_epoch)
        return self._append(records, terms)

    def _append(self, records: MemoryRecords, terms: AppendTerms) -> LogAppendInfo:
        state = self._state
        state.topic_identity.maybe_flush()
        info, run = analyze(
            records,
            terms,
            self._folder.topic_partition,
            max_message_size=self._folder.config.max_message_size,
            log_start_offset=self._watermarks.log_start_offset,
        )
        if info.valid_bytes <= 0:
            return info
        valid = records
        if info.valid_bytes < records.size:
            valid = records.slice(records.start, info.valid_bytes)
        with state.lock, self._reporting:
            state.ensure_open()
            log_end = self._local_log.next_offset_metadata.offset
            if terms.assigns_offsets:
                valid, run = self._assign_offsets(valid, info, run, terms, log_end)
            elif info.first_or_last_offset_of_first_batch < log_end:
                raise self._unexpected_offset(info, valid)
            self._append_valid(valid, run, info, terms)
        return info

    def _append_valid(
        self,
        records: MemoryRecords,
        run: AppendedRun | RunFacts,
        info: LogAppendInfo,
        terms: AppendTerms,
    ) -> None:
        self._note_epochs(run.epochs)
        segment_size = self._folder.config.segment_size
        if records.size > segment_size:
            raise RecordBatchTooLargeError(
                f"batches of {records.size} bytes in total for {self._folder.topic_partition} are"
                f" above the size of a segment, {segment_size}"
            )
        segment = self._maybe_roll(records.size, info)
        changes = None
        if run.has_producer:
            changes = find_changes(self._producers, records, segment, terms)
        if changes is not None and changes.duplicate is not None:
            info.first_offset = changes.duplicate.first_offset
            info.last_offset = changes.duplicate.last_offset
            info.log_append_time = changes.duplicate.timestamp
            return
        self._local_log.append(info.last_offset, records, run.heads)
        # The log end moves before the transaction index is written: if that fails, offsets still ascend.
        self._watermarks.follow_log_end()
        if changes is not None:
            changes.apply(self._producers, segment)
        log_end = info.last_offset + 1
        self._producers.update_map_end_offset(log_end)
        # After any append, as in Kafka: a truncation before it may have changed the transactions.
        self._watermarks.refresh_first_unstable()
        if log_end - self._local_log.recovery_point >= self._folder.config.flush_interval:
            self._roller.flush()

    def _assign_offsets(
        self,
        records: MemoryRecords,
        info: LogAppendInfo,
        run: AppendedRun | RunFacts,
        terms: AppendTerms,
        log_end: Offset,
    ) -> tuple[MemoryRecords, AppendedRun]:
        folder = self._folder
        config = folder.config
        info.first_offset = log_end
        if isinstance(run, RunFacts):
            stamped = usual_batch.stamp(records, run, terms, config, log_end, folder.clock.now_ms())
            if stamped is not None:
                info.last_offset = stamped.last_offset
                info.validation_stats = stamped.stats
                return stamped.records, stamped.run
        counter = OffsetCounter(log_end)
        result = LogValidator(
            records,
            folder.topic_partition,
            folder.clock,
            info.source_compression,
            Compression(*(config.compression or (info.source_compression, None))),
            config.compact,
            terms.to_magic,
            config.message_timestamp_type,
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
            terms.leader_epoch,
            terms.origin,
        ).validate(counter, self.validation_metrics)
        info.max_timestamp = result.max_timestamp_ms
        info.last_offset = counter.value - 1
        info.validation_stats = result.conversion_stats
        if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            info.log_append_time = result.log_append_time_ms
        if result.message_size_maybe_changed:
            for batch in result.records.batches():
                if batch.size > config.max_message_size:
                    raise RecordTooLargeError(
                        f"a batch for {folder.topic_partition} has {batch.size} bytes after its conversion,"
                        f" above max.message.bytes, {config.max_message_size}"
                    )
        return result.records, AppendedRun.of(list(facts_of(result.records)))

    def _unexpected_offset(
        self, info: LogAppendInfo, records: MemoryRecords
    ) -> UnexpectedAppendOffsetError:
        first = next(records.batches())
        knows_first = info.first_offset >= 0
        which = "the first offset" if knows_first else "the last offset of the first batch"
        return UnexpectedAppendOffsetError(
            f"{which} of an append to {self._folder.topic_partition} is"
            f" {info.first_or_last_offset_of_first_batch}, below the log end"
            f" {self._local_log.log_end_offset}; its last offset is {info.last_offset}, the log starts"
            f" at {self._watermarks.log_start_offset}",
            info.first_offset if knows_first else first.base_offset,
            info.last_offset,
        )

    def _note_epochs(self, starts: Sequence[tuple[int | None, Offset]]) -> None:
        """Assign the leader epochs of batches, in order: those of a follower may go back, and then begin earlier.

        Batches of magic 0 and 1 have no epoch; after them, the known epochs no longer tell where to truncate.
        """
        epochs = self._state.leader_epoch_cache
        for epoch, start in starts:
            if epoch is not None:
                epochs.assign(epoch, start)
            elif epochs.latest_entry is not None:
                logger.warning(
                    "the leader epochs of %s are removed after a batch of magic 0 or 1",
                    self._folder.topic_partition,
                )
                epochs.clear_and_flush()

    def _maybe_roll(self, size: int, info: LogAppendInfo) -> WritableSegment:
        """Return the segment for an append of `size` bytes: the active one, or a new one if that is full or old.

        The base offset of a new one is the first appended offset. If a follower would have to decompress a
        batch to know it, the last offset minus 2^31-1 serves: it is not above the first offset, and near
        enough to the last.
        """
        segment = self._local_log.segments.active_segment
        config = self._folder.config
        params = RollParams(
            config.max_segment_ms,
            config.segment_size,
            info.max_timestamp,
            info.last_offset,
            size,
            self._folder.clock.now_ms(),
        )
        if not segment.should_roll(params):
            return segment
        first = info.first_offset if info.first_offset >= 0 else info.last_offset - MAX_INT32
        return self._roller.roll(first)
