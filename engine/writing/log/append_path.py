"""Append batches to a log, in Kafka's order: offsets, epochs, roll, producers, bytes, transactions."""

from __future__ import annotations

import logging
from typing import NamedTuple

from engine.coding.compression import Compression
from engine.errors import (
    InvalidProducerEpochError,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    UnexpectedAppendOffsetError,
)
from engine.record.attributes import TimestampType
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from engine.state.producer_state_entry import BatchMetadata
from engine.units import MAX_INT32, NO_PRODUCER_ID, LogOffsetMetadata, Offset
from engine.writing.append.append_analysis import (
    AppendedBatch,
    AppendTerms,
    analyze,
    batch_of,
    facts_of,
)
from engine.writing.append.log_append_info import LogAppendInfo
from engine.writing.append.log_validator import LogValidator
from engine.writing.append.validation_result import OffsetCounter
from engine.writing.log.log_upkeep import LogUpkeep
from engine.writing.log.producer_rebuild import update_producers
from engine.writing.records.append_origin import AppendOrigin
from engine.writing.segment.rolling import RollParams
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.completed_txn import CompletedTxn
from engine.writing.state.producer_append_info import ProducerAppendInfo
from engine.writing.state.producer_map import ProducerUpdates

logger = logging.getLogger(__name__)

_CHECKED_FOR_TRANSACTIONS = (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR)


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


def append(log: LogUpkeep, records: MemoryRecords, terms: AppendTerms) -> LogAppendInfo:
    """Append the whole batches of some records.

    Returns:
        Facts about the append, or about the batch in the log that it repeats; `valid_bytes` is 0 without
        a whole batch.

    Raises:
        KafkaStorageError: see `UnifiedLog.append_as_leader` and `append_as_follower`.
    """
    log.topic_identity.maybe_flush()
    info, batches = analyze(
        records,
        terms,
        log.log_folder.topic_partition,
        max_message_size=log.log_folder.config.max_message_size,
        log_start_offset=log.watermarks.log_start_offset,
    )
    if info.valid_bytes <= 0:
        return info
    valid = records
    if info.valid_bytes < records.size:
        valid = records.slice(records.start, info.valid_bytes)
    with log.lock, log.reporting_appends:
        log.ensure_open()
        if terms.assigns_offsets:
            valid = _assign_offsets(log, valid, info, terms)
            batches = list(facts_of(valid))
        elif info.first_or_last_offset_of_first_batch < log.local_log.next_offset_metadata.offset:
            raise _unexpected_offset(log, info, batch_of(valid, batches[0]))
        _append_valid(log, valid, batches, info, terms)
    return info


def _append_valid(
    log: LogUpkeep,
    records: MemoryRecords,
    batches: list[AppendedBatch],
    info: LogAppendInfo,
    terms: AppendTerms,
) -> None:
    _note_epochs(log, batches)
    segment_size = log.log_folder.config.segment_size
    if records.size > segment_size:
        raise RecordBatchTooLargeError(
            f"batches of {records.size} bytes in total for {log.topic_partition} are above the size"
            f" of a segment, {segment_size}"
        )
    segment = maybe_roll(log, records.size, info)
    changes = _check_producers(log, records, segment, batches, terms)
    if changes is not None and changes.duplicate is not None:
        info.first_offset = changes.duplicate.first_offset
        info.last_offset = changes.duplicate.last_offset
        info.log_append_time = changes.duplicate.timestamp
        info.log_start_offset = log.log_start_offset
        return
    heads = [(batch.last_offset, batch.max_timestamp, batch.size) for batch in batches]
    log.local_log.append(info.last_offset, records, heads)
    _follow(log, info.last_offset + 1, segment, changes)


def _follow(
    log: LogUpkeep, log_end: Offset, segment: WritableSegment, changes: ProducerChanges | None
) -> None:
    """Update offsets and producers after an append.

    The log end moves before the transaction index is written: if that fails, offsets still ascend.
    """
    producers = log.producer_state
    log.watermarks.follow_log_end()
    if changes is not None:
        for update in changes.updated.values():
            producers.update(update)
        for completed in changes.completed:
            segment.update_txn_index(completed, producers.last_stable_offset(completed))
            producers.complete_txn(completed)
    producers.update_map_end_offset(log_end)
    log.watermarks.refresh_first_unstable()
    if log_end - log.local_log.recovery_point >= log.log_folder.config.flush_interval:
        log.flush()


def _assign_offsets(
    log: LogUpkeep, records: MemoryRecords, info: LogAppendInfo, terms: AppendTerms
) -> MemoryRecords:
    folder = log.log_folder
    config = folder.config
    counter = OffsetCounter(log.local_log.next_offset_metadata.offset)
    info.first_offset = counter.value
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
    ).validate(counter, log.validation_metrics)
    info.max_timestamp = result.max_timestamp_ms
    info.last_offset = counter.value - 1
    info.validation_stats = result.conversion_stats
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        info.log_append_time = result.log_append_time_ms
    if result.message_size_maybe_changed and not terms.ignores_size:
        for batch in result.records.batches():
            if batch.size > config.max_message_size:
                raise RecordTooLargeError(
                    f"a batch for {folder.topic_partition} has {batch.size} bytes after its conversion,"
                    f" above max.message.bytes, {config.max_message_size}"
                )
    return result.records


def _unexpected_offset(
    log: LogUpkeep, info: LogAppendInfo, first: RecordBatch
) -> UnexpectedAppendOffsetError:
    knows_first = info.first_offset >= 0
    which = "the first offset" if knows_first else "the last offset of the first batch"
    return UnexpectedAppendOffsetError(
        f"{which} of an append to {log.topic_partition} is"
        f" {info.first_or_last_offset_of_first_batch}, below the log end {log.log_end_offset};"
        f" its last offset is {info.last_offset}, the log starts at {log.log_start_offset}",
        info.first_offset if knows_first else first.base_offset,
        info.last_offset,
    )


def _note_epochs(log: LogUpkeep, batches: list[AppendedBatch]) -> None:
    """Assign the leader epochs of batches.

    Batches of magic 0 and 1 have no epoch; after them, the known epochs no longer tell where to truncate.
    """
    for batch in batches:
        if batch.magic >= 2:
            # For each batch: the epochs of a follower may go back, and then begin earlier.
            log.leader_epoch_cache.assign(batch.leader_epoch, batch.base_offset)
        elif log.leader_epoch_cache.latest_entry is not None:
            logger.warning(
                "the leader epochs of %s are removed after a batch of magic %d",
                log.topic_partition,
                batch.magic,
            )
            log.leader_epoch_cache.clear_and_flush()


def maybe_roll(log: LogUpkeep, size: int, info: LogAppendInfo) -> WritableSegment:
    """Return the segment for an append of `size` bytes: the active one, or a new one if that is full or old.

    The base offset of a new one is the first appended offset. If a follower would have to decompress a
    batch to know it, the last offset minus 2^31-1 serves: it is not above the first offset, and near
    enough to the last.
    """
    segment = log.local_log.segments.active_segment
    folder = log.log_folder
    params = RollParams.of(folder.config, info, size, folder.clock.now_ms())
    if not segment.should_roll(params):
        return segment
    first = info.first_offset if info.first_offset >= 0 else info.last_offset - MAX_INT32
    return log.roll(first)


def _check_producers(
    log: LogUpkeep,
    records: MemoryRecords,
    segment: WritableSegment,
    batches: list[AppendedBatch],
    terms: AppendTerms,
) -> ProducerChanges | None:
    """Return the changes of the producer state by batches to append to a segment; None without a producer."""
    changes = None
    for facts in batches:
        if facts.producer_id <= NO_PRODUCER_ID:
            continue
        if changes is None:
            changes = ProducerChanges(ProducerUpdates(), [])
        batch = batch_of(records, facts)
        if terms.origin is AppendOrigin.CLIENT:
            entry = log.producer_state.last_entry(batch.producer_id)
            duplicate = None if entry is None else entry.find_duplicate_batch(batch)
            if duplicate is not None:
                return changes._replace(duplicate=duplicate)
        first_offset = None
        if batch.is_transactional:
            if terms.origin in _CHECKED_FOR_TRANSACTIONS:
                _check_epoch(log, batch)
            first_offset = LogOffsetMetadata(
                batch.base_offset, segment.base_offset, segment.size + facts.position
            )
        completed = update_producers(
            log.producer_state,
            batch,
            changes.updated,
            first_offset,
            terms.origin,
            terms.transaction_version,
        )
        if completed is not None:
            changes.completed.append(completed)
    return changes


def _check_epoch(log: LogUpkeep, batch: RecordBatch) -> None:
    entry = log.producer_state.last_entry(batch.producer_id)
    if entry is not None and batch.producer_epoch < entry.producer_epoch:
        raise InvalidProducerEpochError(
            f"the epoch of producer {batch.producer_id} in an append to {log.topic_partition} is"
            f" {batch.producer_epoch}, below the newest, {entry.producer_epoch}"
        )
