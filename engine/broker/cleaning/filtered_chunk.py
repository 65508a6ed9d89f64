"""Filter a chunk of a log.

A batch that keeps all records is copied, a removed one is skipped, and one that loses records is rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.broker.cleaning.batch_filter import BatchFilter
from engine.broker.cleaning.chunks import CleanedChunk
from engine.broker.cleaning.rewritten_batch import rewrite
from engine.columns.columns import Column, Columns
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.units import NO_TIMESTAMP, Timestamp
from engine.writing.records.record_filter import (
    BatchRetention,
    BatchRetentionResult,
    FilterResult,
    filter_to,
)


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
        The errors of `CleanedChunk.batches`, `CleanedChunk.columns` and `record_filter.filter_to`.
    """
    result = FilterResult()
    for row, batch in chunk.batches():
        result.bytes_read += batch.size
        retention = by.check_batch_retention(batch)
        if retention.batch_retention is BatchRetention.DELETE:
            continue
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
    return result


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
        horizon = by.current_time + by.delete_retention_ms
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
