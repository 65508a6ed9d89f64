"""Filter a chunk of a log.

A batch that keeps all records is copied, a removed one is skipped, and one that loses records is rewritten:
by the kernel, many batches at a time, where they are plain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine import kernel
from engine.broker.cleaning.batch_filter import BatchFilter
from engine.broker.cleaning.chunks import CleanedChunk, PlainRun
from engine.broker.cleaning.record_filter import (
    BatchRetention,
    BatchRetentionResult,
    FilterResult,
    filter_to,
)
from engine.coding.compression import compress
from engine.coding.varint import to_int32
from engine.columns.columns import Column, Columns
from engine.record.attributes import TimestampType, compute_attributes
from engine.record.batch_frame import CURRENT_MAGIC, BatchHeader
from engine.record.encoding.batch_encoding import encode_batch
from engine.record.record import Record
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


@dataclass(slots=True)
class _Decided:
    """A RecordFilter for one batch with known decisions."""

    current_time: Timestamp
    delete_retention_ms: int
    retention: BatchRetentionResult
    kept: list[bool]

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        return self.retention

    def should_retain_record(self, batch: RecordBatch, record: Record) -> bool:
        return self.kept[record.index]


def filter_chunk(chunk: CleanedChunk, by: BatchFilter) -> FilterResult:
    """Return the kept part of a chunk.

    Raises:
        The errors of `CleanedChunk.parts`, `CleanedChunk.columns` and `record_filter.filter_to`.
    """
    result = FilterResult()
    for part in chunk.parts():
        if isinstance(part, PlainRun):
            _filter_run(chunk, part, by, result)
        else:
            _filter_batch(chunk, *part, by, result)
    return result


def _filter_batch(
    chunk: CleanedChunk, row: int, batch: RecordBatch, by: BatchFilter, result: FilterResult
) -> None:
    result.bytes_read += batch.size
    retention = by.check_batch_retention(batch)
    if retention.batch_retention is BatchRetention.DELETE:
        return
    columns = chunk.columns(row, batch)
    result.messages_read += len(columns)
    kept = by.kept_of(batch, columns)
    if not kept.any():
        if retention.batch_retention is BatchRetention.RETAIN_EMPTY:
            _put_by_records(batch, kept, retention, by, result)
    elif batch.magic == CURRENT_MAGIC and not batch.is_control:
        _put_by_columns(batch, columns, kept, by, result)
    else:
        _put_by_records(batch, kept, retention, by, result)


def _filter_run(chunk: CleanedChunk, run: PlainRun, by: BatchFilter, result: FilterResult) -> None:
    """Filter plain batches by the kernel, but for those that must be compressed or may stay without records."""
    rows, columns = run.rows, run.columns
    result.bytes_read += int(rows["size"].sum())
    result.messages_read += len(columns)
    kept = by.kept_of_plain(run)
    ends = np.cumsum(rows["record_count"]).tolist()
    row, at = run.first, 0
    while row < run.last:
        data, made, stopped = kernel.keep_records(
            run.buffer,
            run.table,
            row,
            run.last,
            _part(columns, at, len(columns)),
            kept[at:],
            start_position=run.position,
            delete_horizon=by.new_horizon,
            upper_bound=by.high_watermark,
        )
        _add(data, made, run.table["last_offset"][row:stopped], result)
        if stopped == run.last:
            return
        place = stopped - run.first
        at, end = ends[place - 1] if place else 0, ends[place]
        batch = chunk.batch(stopped)
        if kept[at:end].any():
            _put_by_columns(batch, _part(columns, at, end), kept[at:end], by, result)
        elif by.stays_empty(batch.producer_id, batch.last_offset):
            empty = BatchRetentionResult(BatchRetention.RETAIN_EMPTY, False)
            _put_by_records(batch, kept[at:end], empty, by, result)
        row, at = stopped + 1, end


def _part(columns: Columns, start: int, end: int) -> Columns:
    return Columns(columns.table[start:end], columns.arena, [], columns.next_row)


def _add(data: bytes, made: Column, last_offsets: Column, result: FilterResult) -> None:
    """Add batches that the kernel wrote."""
    stays = made["size"] > 0
    if not stays.any():
        return
    made, last_offsets = made[stays], last_offsets[stays]
    newest = int(made["max_timestamp"].argmax())
    lowest, highest = int(made["max_offset"].min()), int(made["max_offset"].max())
    result.output += data
    result.add(
        int(made["max_timestamp"][newest]),
        int(last_offsets[newest]),
        lowest if lowest < 0 else highest,
        int(made["count"].sum()),
        len(data),
    )


def _put_by_columns(
    batch: RecordBatch, columns: Columns, kept: Column, by: BatchFilter, result: FilterResult
) -> None:
    horizon = batch.delete_horizon_ms
    needs_horizon = horizon is None and bool((columns.value_size[kept] < 0).any())
    last = batch.last_offset
    if kept.all() and not needs_horizon:
        result.output += batch.raw
        result.add(batch.max_timestamp, last, last, len(columns), batch.size)
        return
    if needs_horizon:
        horizon = by.new_horizon
    made = rewrite(batch, columns, kept, horizon)
    result.output += made.data
    count = int(np.count_nonzero(kept))
    of_max = last if made.max_timestamp != NO_TIMESTAMP else -1
    result.add(made.max_timestamp, of_max, made.max_offset, count, len(made.data))


def _put_by_records(
    batch: RecordBatch,
    kept: Column,
    retention: BatchRetentionResult,
    by: BatchFilter,
    result: FilterResult,
) -> None:
    """Filter rare batches record by record: empty batches, markers, batches of magic 0 and 1."""
    decided = _Decided(by.current_time, by.delete_retention_ms, retention, kept.tolist())
    made = filter_to([batch], decided)
    if made.output:
        result.output += made.output
        result.add(
            made.max_timestamp,
            made.offset_of_max_timestamp,
            made.max_offset,
            made.messages_retained,
            made.bytes_retained,
        )
