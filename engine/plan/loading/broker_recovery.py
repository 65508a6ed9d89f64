"""Recover a segment as a broker does, with Kafka's checks in Kafka's order.

A segment of good batches is read a chunk at a time, as in our own recovery; any other batch by batch.
"""

from __future__ import annotations

from typing import Any

from engine.disk.disk import Disk
from engine.errors import CorruptRecordError, InvalidRecordError, OffsetOverflowError
from engine.plan.loading.broker_failure import EXPECTED
from engine.record.batch_frame import SMALLEST_BATCH
from engine.record.frame_walk import batch_in, frames
from engine.record.record_batch import RecordBatch
from engine.units import NO_PRODUCER_ID, Position, TimestampOffset
from engine.writing.index.writable_index import WritableIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.segment.segment_recovery import follow_producer, note_epoch, recover
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager


class NotAllGood(Exception):
    """Not all batches are good: the recovery must be repeated batch by batch."""


def recover_in_chunks(
    segment: WritableSegment,
    producer_state: ProducerStateManager,
    leader_epochs: LeaderEpochFileCache,
    disk: Disk,
) -> int:
    """Recover a segment of good batches; return 0, the number of bytes truncated.

    Raises:
        NotAllGood: a batch is not good. Nothing was truncated, and `recover_by_batch` must follow.
    """
    indexes: list[WritableIndex[Any]] = [segment.offset_index, segment.time_index]
    before = [_start_of(index, segment, disk) for index in indexes]
    had_transactions = disk.exists(segment.txn_index.path)
    try:
        return recover(segment, producer_state, leader_epochs, _give_up)
    except (NotAllGood, *EXPECTED) as error:
        # The new entries must not stay behind those of the recovery by batch.
        for index, data in zip(indexes, before, strict=True):
            written = index.size_in_bytes
            with disk.open(index.path) as file:
                file.write_at(0, data[:written].ljust(written, b"\0"))
        if not had_transactions:
            transactions = segment.txn_index
            transactions.delete_if_exists()
            segment.files.txn_index = WritableTransactionIndex(
                transactions.base_offset, transactions.path, disk=disk
            )
        raise NotAllGood from error


def _start_of(index: WritableIndex[Any], segment: WritableSegment, disk: Disk) -> bytes:
    """Return as much of an index as the records can fill; the file may be preallocated to megabytes."""
    entries = segment.size // max(segment.indexes.interval_bytes, SMALLEST_BATCH[0]) + 2
    with disk.open(index.path, writable=False) as file:
        return file.read_at(0, entries * index.entry_size)


def _give_up() -> None:
    raise NotAllGood


def recover_by_batch(
    segment: WritableSegment,
    producer_state: ProducerStateManager,
    leader_epochs: LeaderEpochFileCache,
) -> int:
    """Recover a segment batch by batch, and truncate it after the last good batch.

    Returns:
        number of bytes truncated.

    Raises:
        OffsetOverflowError: a batch's offset is too far from the base offset.
        InvalidOffsetError: a new index entry has an offset that is not above the last one.
        Exception: another error that a broker does not handle.
    """
    segment.indexes.empty()
    valid, indexed = 0, 0
    try:
        for frame in frames(segment.log.file, 0, segment.log.end):
            batch = batch_in(segment.log.file, frame)
            indexed = _index(segment, batch, valid, indexed)
            valid += frame.size
            if frame.magic >= 2:
                note_epoch(leader_epochs, batch.leader_epoch, batch.base_offset)
                if batch.producer_id > NO_PRODUCER_ID:
                    follow_producer(segment, producer_state, batch)
                producer_state.update_map_end_offset(segment.offset_after(batch.last_offset))
    except (CorruptRecordError, InvalidRecordError):
        pass
    truncated = segment.size - valid
    segment.finish_recovery(valid)
    return truncated


def _index(
    segment: WritableSegment, batch: RecordBatch, position: Position, indexed: Position
) -> Position:
    """Check a batch, and add its index entries; return the position of the last batch with entries."""
    batch.ensure_valid()
    last_offset = batch.last_offset
    if not segment.can_hold(last_offset):
        raise OffsetOverflowError(
            f"offset {last_offset} in {segment.log.path} is too far from {segment.base_offset}"
        )
    if batch.max_timestamp > segment.indexes.largest.timestamp:
        segment.indexes.known_largest = TimestampOffset(batch.max_timestamp, last_offset)
    if position - indexed <= segment.indexes.interval_bytes:
        return indexed
    segment.offset_index.append(last_offset, position)
    segment.time_index.maybe_append(*segment.indexes.largest)
    return position
