"""First analysis of batches to append: whether they are whole, allowed and in order, and their first and last offsets.

The kernel returns facts about all batches of an append; most often these show that all are fine. If not,
the batches are checked one by one, which finds the first error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine import kernel
from engine.broker.append.log_append_info import LogAppendInfo
from engine.coding.checksums import crc32c
from engine.coding.compression import CompressionType
from engine.columns.batch_facts import BatchHead, RunFacts
from engine.errors import (
    InvalidRecordError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
)
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import CRC_COVERS_FROM, HEADER, LOG_OVERHEAD
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch, batch_at
from engine.units import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Offset,
    Position,
    Timestamp,
    TopicPartition,
)
from engine.writing.state.append_origin import AppendOrigin

logger = logging.getLogger(__name__)

_CODECS = tuple(CompressionType)

_HEADER = HEADER.subset(
    "base_offset",
    "length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "max_timestamp",
    "producer_id",
)


class AppendTerms(NamedTuple):
    """Terms of an append.

    Attributes:
        origin: who appends.
        leader_epoch: the appender's leader epoch; a leader stamps it, a follower refuses batches above it.
        assigns_offsets: whether offsets are assigned, by a leader; otherwise the batches keep theirs.
        ignores_size: whether batches above max.message.bytes are accepted.
        to_magic: magic that a leader converts to.
        transaction_version: transaction version of a coordinator's end marker; -1 if not stated.
    """

    origin: AppendOrigin
    leader_epoch: int
    assigns_offsets: bool
    ignores_size: bool = False
    to_magic: int = 2
    transaction_version: int = -1


class AppendedBatch(NamedTuple):
    """Facts of a batch that an append needs.

    Attributes:
        position, size: position in the buffer and size, in bytes.
        magic, crc, codec_id: as the header states them.
        base_offset: -1 for magic 0 and 1, which would need decoding.
        last_offset, leader_epoch, max_timestamp, producer_id: -1 without one.
    """

    position: Position
    size: int
    magic: int
    crc: int
    codec_id: int
    base_offset: Offset
    last_offset: Offset
    leader_epoch: int
    max_timestamp: Timestamp
    producer_id: int


class AppendedRun(NamedTuple):
    """What the parts of a log need to know of the batches of one append.

    Attributes:
        heads: head of each batch.
        epochs: leader epochs in order, and where each begins; None for batches of magic 0 and 1.
        has_producer: whether a batch has a producer id.
    """

    heads: list[BatchHead]
    epochs: Sequence[tuple[int | None, Offset]]
    has_producer: bool

    @classmethod
    def of(cls, batches: list[AppendedBatch]) -> AppendedRun:
        """Return the run of any batches."""
        return cls(
            [(batch.last_offset, batch.max_timestamp, batch.size) for batch in batches],
            [
                (batch.leader_epoch if batch.magic >= 2 else None, batch.base_offset)
                for batch in batches
            ],
            any(batch.producer_id > NO_PRODUCER_ID for batch in batches),
        )


class Analysis(NamedTuple):
    """Result of the analysis: the facts of an append, and the batches to append.

    Attributes:
        info: the facts.
        run: the batches; the kernel's facts about them, if nothing about them is unusual.
    """

    info: LogAppendInfo
    run: AppendedRun | RunFacts


def facts_of(records: MemoryRecords) -> Iterator[AppendedBatch]:
    """Yield the facts of each whole batch. Raises CorruptRecordError for an impossible frame."""
    buffer = records.buffer
    end = len(buffer)
    position = 0
    while end - position >= HEADER.size:
        base, length, epoch, magic, crc, attributes, delta, max_timestamp, producer_id = (
            _HEADER.unpack_from(buffer, position)
        )
        size = length + LOG_OVERHEAD
        if magic != 2 or not HEADER.size <= size <= end - position:
            break
        codec_id = attributes & COMPRESSION_MASK
        yield AppendedBatch(
            position,
            size,
            magic,
            crc,
            codec_id,
            base,
            base + delta,
            epoch,
            max_timestamp,
            producer_id,
        )
        position += size
    if position < end:
        rest = records.slice(records.start + position, end - position)
        for batch in rest.batches():
            yield _facts_of_any(batch, batch.file_position - records.start)


def _facts_of_any(batch: RecordBatch, position: Position) -> AppendedBatch:
    return AppendedBatch(
        position,
        batch.size,
        batch.magic,
        batch.crc,
        batch.codec_id,
        batch.base_offset if batch.magic >= 2 else -1,
        batch.last_offset,
        batch.leader_epoch,
        batch.max_timestamp,
        batch.producer_id,
    )


def batch_of(records: MemoryRecords, facts: AppendedBatch) -> RecordBatch:
    """Return the batch of these facts."""
    batch = batch_at(
        records.buffer,
        facts.position,
        file_position=records.start + facts.position,
        path=records.path,
    )
    assert batch is not None
    return batch


def analyze(
    records: MemoryRecords,
    terms: AppendTerms,
    partition: TopicPartition,
    *,
    max_message_size: int,
    log_start_offset: Offset,
) -> Analysis:
    """Check each batch by itself and against the previous one; nothing is decompressed.

    A follower leaves out the first batch with a leader epoch above its own and all after it: their
    sender has lost the leadership, and the batches may still be truncated.

    Raises:
        CorruptRecordError: a batch's frame or checksum is wrong.
        InvalidRecordError: a client's offsets do not start at 0, or a raft leader's epoch is not its own.
        RecordTooLargeError: a batch is above `max_message_size`.
        OffsetsOutOfOrderError: the batches' own offsets do not ascend.
    """
    facts = kernel.batch_facts(records.buffer)
    if facts is not None and _is_usual(facts, terms, max_message_size):
        return _usual_analysis(facts, log_start_offset)
    return analyze_one_by_one(
        records,
        terms,
        partition,
        max_message_size=max_message_size,
        log_start_offset=log_start_offset,
    )


def _is_usual(facts: RunFacts, terms: AppendTerms, max_message_size: int) -> bool:
    """Return whether no check refuses or leaves out one of these batches."""
    if not terms.ignores_size and facts.largest > max_message_size:
        return False
    if terms.origin is AppendOrigin.REPLICATION:
        return max(facts.epochs)[0] <= terms.leader_epoch
    if terms.origin is AppendOrigin.RAFT_LEADER:
        return all(epoch == terms.leader_epoch for epoch, _ in facts.epochs)
    return facts.first_offset == 0 and len(facts.heads) == 1


def _usual_analysis(facts: RunFacts, log_start_offset: Offset) -> Analysis:
    size, _, first_offset, last_offset, max_timestamp, codec_id, _, _, heads, epochs = facts
    epoch = epochs[-1][0]
    info = LogAppendInfo(
        first_offset,
        last_offset,
        None if epoch == NO_PARTITION_LEADER_EPOCH else epoch,
        max_timestamp,
        NO_TIMESTAMP,
        log_start_offset,
        None,
        _CODECS[codec_id],
        size,
        heads[0][0],
    )
    return Analysis(info, facts)


def analyze_one_by_one(
    records: MemoryRecords,
    terms: AppendTerms,
    partition: TopicPartition,
    *,
    max_message_size: int,
    log_start_offset: Offset,
) -> Analysis:
    """Return the analysis of any batches. Arguments and errors as for `analyze`."""
    info = LogAppendInfo(log_start_offset=log_start_offset, valid_bytes=0)
    batches: list[AppendedBatch] = []
    fenced = False
    is_replicated = terms.origin is AppendOrigin.REPLICATION
    for batch in facts_of(records):
        if not is_replicated:
            _check_sender(batch, terms, partition)
        elif not fenced and batch.leader_epoch > terms.leader_epoch:
            fenced = True
            logger.info(
                "leaving out offset %d and what follows for %s: its leader epoch %d is above %d",
                batch.last_offset,
                partition,
                batch.leader_epoch,
                terms.leader_epoch,
            )
        if not fenced:
            if not terms.ignores_size and batch.size > max_message_size:
                raise RecordTooLargeError(
                    f"a batch of {batch.size} bytes for {partition} is above max.message.bytes,"
                    f" {max_message_size}"
                )
            _check_checksum(records, batch)
            if not terms.assigns_offsets and info.last_offset >= batch.last_offset:
                raise OffsetsOutOfOrderError(
                    f"the offsets of an append to {partition} do not ascend: a batch ends at"
                    f" {batch.last_offset}, and one before it at {info.last_offset}"
                )
            _note(info, batch, is_first=not batches)
            batches.append(batch)
    return Analysis(info, AppendedRun.of(batches))


def _check_checksum(records: MemoryRecords, batch: AppendedBatch) -> None:
    if batch.magic >= 2:
        start, end = batch.position + CRC_COVERS_FROM[2], batch.position + batch.size
        if crc32c(records.buffer[start:end]) == batch.crc:
            return
    batch_of(records, batch).ensure_valid()


def _note(info: LogAppendInfo, batch: AppendedBatch, *, is_first: bool) -> None:
    if is_first:
        info.first_offset = batch.base_offset
        info.last_offset_of_first_batch = batch.last_offset
    info.last_offset = batch.last_offset
    epoch = batch.leader_epoch
    info.last_leader_epoch = None if epoch == NO_PARTITION_LEADER_EPOCH else epoch
    if batch.max_timestamp > info.max_timestamp:
        info.max_timestamp = batch.max_timestamp
    info.valid_bytes += batch.size
    if batch.codec_id:
        try:
            info.source_compression = CompressionType(batch.codec_id)
        except ValueError:
            raise InvalidRecordError("the codec is unknown", found=batch.codec_id) from None


def _check_sender(batch: AppendedBatch, terms: AppendTerms, partition: TopicPartition) -> None:
    if terms.origin is AppendOrigin.RAFT_LEADER and batch.leader_epoch != terms.leader_epoch:
        raise InvalidRecordError(
            f"a raft leader's batch for {partition} does not have its leader epoch",
            expected=terms.leader_epoch,
            found=batch.leader_epoch,
        )
    if terms.origin is AppendOrigin.CLIENT and batch.magic >= 2 and batch.base_offset != 0:
        raise InvalidRecordError(
            f"a client's batch for {partition} has not base offset 0",
            expected=0,
            found=batch.base_offset,
        )
