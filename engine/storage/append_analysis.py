"""The first look at batches that are to be appended: are they whole, allowed, in order; where do they begin and end."""

from __future__ import annotations

import logging
from typing import NamedTuple

from engine.errors import InvalidRecordError, OffsetsOutOfOrderError, RecordTooLargeError
from engine.record.append_origin import AppendOrigin
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from engine.storage.log_append_info import LogAppendInfo
from engine.units import NO_PARTITION_LEADER_EPOCH, TopicPartition

log = logging.getLogger(__name__)


class AppendTerms(NamedTuple):
    """How batches are appended.

    Attributes:
        origin: where they come from.
        leader_epoch: of whoever appends; a leader stamps it, a follower takes nothing above it.
        assigns_offsets: a leader gives offsets; else those of the batches stand.
        ignores_size: whether batches above max.message.bytes are taken.
        to_magic: the format that a leader converts to.
        transaction_version: of an end marker that a coordinator writes; -1 when it does not say.
    """

    origin: AppendOrigin
    leader_epoch: int
    assigns_offsets: bool
    ignores_size: bool = False
    to_magic: int = 2
    transaction_version: int = -1


class Analysis(NamedTuple):
    """What the first look found: facts, and the batches to append."""

    info: LogAppendInfo
    batches: list[RecordBatch]


def analyze(
    records: MemoryRecords,
    terms: AppendTerms,
    partition: TopicPartition,
    *,
    max_message_size: int,
    log_start_offset: int,
) -> Analysis:
    """Check each batch by itself and against the one before; nothing is decompressed.

    A follower leaves out batches of a leader epoch above its own, and all that come after one: their sender
    has lost the leadership, and they may be truncated yet.

    Raises:
        CorruptRecordError: a batch's frame or checksum is wrong.
        InvalidRecordError: a client's offsets do not start at 0, or a raft leader's epoch is not its own.
        RecordTooLargeError: a batch is above `max_message_size`.
        OffsetsOutOfOrderError: given offsets do not ascend.
    """
    info = LogAppendInfo(log_start_offset=log_start_offset, valid_bytes=0)
    batches: list[RecordBatch] = []
    fenced = False
    for batch in records.batches():
        if terms.origin is not AppendOrigin.REPLICATION:
            _check_sender(batch, terms, partition)
        elif not fenced and batch.leader_epoch > terms.leader_epoch:
            fenced = True
            log.info(
                "leaving out %r and what follows for %s: its leader epoch %d is above %d",
                batch,
                partition,
                batch.leader_epoch,
                terms.leader_epoch,
            )
        if not fenced:
            _note(info, batch, batches, terms, partition, max_message_size)
            batches.append(batch)
    return Analysis(info, batches)


def _note(
    info: LogAppendInfo,
    batch: RecordBatch,
    before: list[RecordBatch],
    terms: AppendTerms,
    partition: TopicPartition,
    max_message_size: int,
) -> None:
    last_offset, size = batch.last_offset, batch.size
    if not before:
        if batch.magic >= 2:
            info.first_offset = batch.base_offset
        info.last_offset_of_first_batch = last_offset
    if not terms.ignores_size and size > max_message_size:
        raise RecordTooLargeError(
            f"a batch of {size} bytes for {partition} is above max.message.bytes, {max_message_size}"
        )
    batch.ensure_valid()
    if info.last_offset >= last_offset and not terms.assigns_offsets:
        raise OffsetsOutOfOrderError(
            f"the offsets of an append to {partition} do not ascend: a batch ends at"
            f" {last_offset}, and one before it at {info.last_offset}"
        )
    info.last_offset = last_offset
    epoch = batch.leader_epoch
    info.last_leader_epoch = None if epoch == NO_PARTITION_LEADER_EPOCH else epoch
    info.max_timestamp = max(info.max_timestamp, batch.max_timestamp)
    info.valid_bytes += size
    if batch.codec_id:
        info.source_compression = batch.compression


def _check_sender(batch: RecordBatch, terms: AppendTerms, partition: TopicPartition) -> None:
    if terms.origin is AppendOrigin.RAFT_LEADER and batch.leader_epoch != terms.leader_epoch:
        raise InvalidRecordError(
            f"a raft leader's batch for {partition} has not its leader epoch",
            expected=terms.leader_epoch,
            found=batch.leader_epoch,
        )
    if terms.origin is AppendOrigin.CLIENT and batch.magic >= 2 and batch.base_offset != 0:
        raise InvalidRecordError(
            f"a client's batch for {partition} has not base offset 0",
            expected=0,
            found=batch.base_offset,
        )
