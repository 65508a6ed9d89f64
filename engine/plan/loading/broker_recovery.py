"""The recovery of a segment as a broker does it: by Kafka's order of checks, and with what those let through.

As long as all batches are good they are read a chunk at a time, as in our own recovery; else batch by batch.
"""

from __future__ import annotations

from typing import Any

from engine.errors import CorruptRecordError, InvalidRecordError, OffsetOverflowError
from engine.plan.loading.broker_failure import EXPECTED
from engine.plan.loading.broker_records import batch_in, frames
from engine.record.batch_frame import SMALLEST_BATCH
from engine.record.record_batch import RecordBatch
from engine.units import NO_PRODUCER_ID, Position, TimestampOffset
from engine.writing.disk import Disk
from engine.writing.index.writable_index import WritableIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.segment.segment_recovery import follow_producer, note_epoch, recover
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager


class NotAllGood(Exception):
    """A batch that has to be looked at by itself; what the recovery changed must be made again."""


def recover_in_chunks(
    segment: WritableSegment,
    producer_state: ProducerStateManager,
    leader_epochs: LeaderEpochFileCache,
    disk: Disk,
) -> int:
    """Recover a segment as long as all batches are good.

    Raises:
        NotAllGood: some are not; nothing was cut off. `recover_by_batch` is to follow.
    """
    indexes: list[WritableIndex[Any]] = [segment.offset_index, segment.time_index]
    before = [_start_of(index, segment, disk) for index in indexes]
    had_transactions = disk.exists(segment.txn_index.path)
    try:
        return recover(segment, producer_state, leader_epochs, _give_up)
    except (NotAllGood, *EXPECTED) as error:
        # What was put there must not show behind the entries that will be there.
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
    """Read as much of an index as the records can fill; it may be preallocated to megabytes."""
    entries = segment.size // max(segment.index_interval_bytes, SMALLEST_BATCH[0]) + 2
    with disk.open(index.path, writable=False) as file:
        return file.read_at(0, entries * index.entry_size)


def _give_up() -> None:
    raise NotAllGood


def recover_by_batch(
    segment: WritableSegment,
    producer_state: ProducerStateManager,
    leader_epochs: LeaderEpochFileCache,
) -> int:
    """Recover a segment batch by batch, and cut off what follows the last good one.

    Returns:
        How many bytes were cut off.

    Raises:
        OffsetOverflowError: a batch's offset is too far from the base offset.
        InvalidOffsetError: offsets are not in order where an index entry is due.
        Exception: what else a broker does not expect.
    """
    segment.empty_indexes()
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
    """Check a batch and give it its entries; return where the batch lies that has the last one."""
    batch.ensure_valid()
    last_offset = batch.last_offset
    if not segment.can_hold(last_offset):
        raise OffsetOverflowError(
            f"offset {last_offset} in {segment.log.path} is too far from {segment.base_offset}"
        )
    if batch.max_timestamp > segment.max_timestamp_so_far:
        segment.note_max_timestamp(TimestampOffset(batch.max_timestamp, last_offset))
    if position - indexed <= segment.index_interval_bytes:
        return indexed
    segment.offset_index.append(last_offset, position)
    segment.time_index.maybe_append(*segment.max_timestamp_and_offset_so_far)
    return position
