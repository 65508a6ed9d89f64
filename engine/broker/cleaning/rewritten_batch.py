"""Rewrite a batch of magic 2 with some of its records; offsets, producer and codec stay."""

from __future__ import annotations

from typing import NamedTuple

from engine import kernel
from engine.coding.compression import compress
from engine.coding.varint import to_int32
from engine.columns.columns import Column, Columns
from engine.record.attributes import TimestampType, compute_attributes
from engine.record.batch_frame import CURRENT_MAGIC, BatchHeader
from engine.record.encoding.batch_encoding import encode_batch
from engine.record.record_batch import RecordBatch
from engine.units import NO_TIMESTAMP, Offset, Timestamp


class RewrittenBatch(NamedTuple):
    """A batch, its largest timestamp, and the last offset of its records."""

    data: bytearray
    max_timestamp: Timestamp
    max_offset: Offset


def rewrite(
    batch: RecordBatch, columns: Columns, kept: Column, delete_horizon_ms: Timestamp | None
) -> RewrittenBatch:
    """Return the batch rewritten with some of its records.

    The result equals `record_filter`'s byte for byte, but is made of columns instead of records.

    Args:
        batch: batch of magic 2.
        columns: records of the batch.
        kept: one bool per record, whether to keep it; at least one is True.
        delete_horizon_ms: time when its tombstones may be removed, or None. If set it is the base
            of the timestamp deltas, otherwise the first record's timestamp.
    """
    timestamps = columns.timestamp[kept]
    base_offset = batch.base_offset
    base_timestamp = int(timestamps[0]) if delete_horizon_ms is None else delete_horizon_ms
    records = kernel.encode_records(columns, kept, base_offset, base_timestamp)
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    largest = batch.max_timestamp if is_append_time else max(NO_TIMESTAMP, int(timestamps.max()))
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        partition_leader_epoch=batch.leader_epoch,
        magic=CURRENT_MAGIC,
        crc=0,
        attributes=compute_attributes(
            batch.compression,
            batch.timestamp_type,
            transactional=batch.is_transactional,
            control=batch.is_control,
            delete_horizon=delete_horizon_ms is not None,
        ),
        last_offset_delta=to_int32(batch.last_offset - base_offset),
        base_timestamp=base_timestamp,
        max_timestamp=largest,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=len(timestamps),
    )
    data = encode_batch(
        header, compress(batch.compression, records, magic=CURRENT_MAGIC, level=None)
    )
    return RewrittenBatch(data, largest, int(columns.offset[kept][-1]))
