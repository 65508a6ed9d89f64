"""A chunk of a log without the records that a cleaning drops.

A batch that stays whole is copied, one that goes is passed over; what lies between is for `record_filter`.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.record import default_records
from engine.record.columns import Columns
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.record.record_filter import (
    BatchRetention,
    BatchRetentionResult,
    FilterResult,
    filter_to,
)
from engine.storage.cleaning.batch_filter import BatchFilter
from engine.storage.cleaning.chunks import Chunk
from engine.units import Timestamp


@dataclass(slots=True)
class _Decided:
    """A RecordFilter for one batch about which everything is known."""

    current_time: Timestamp
    delete_retention_ms: int
    retention: BatchRetentionResult
    kept: list[bool]

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        return self.retention

    def should_retain_record(self, batch: RecordBatch, record: Record) -> bool:
        return self.kept[record.index]


def filter_chunk(chunk: Chunk, by: BatchFilter) -> FilterResult:
    """What stays of a chunk.

    Raises:
        The errors of `Chunk.batches`, of `Chunk.columns` and of `record_filter.filter_to`.
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
        if not any(kept):
            if retention.batch_retention is BatchRetention.RETAIN_EMPTY:
                _rewrite(batch, kept, retention, by, result)
        elif all(kept) and _stays_as_it_is(batch, columns, retention):
            result.output += batch.raw
            last = batch.last_offset
            result.add(batch.max_timestamp, last, last, len(kept), batch.size)
        else:
            _rewrite(batch, kept, retention, by, result)
    return result


def _stays_as_it_is(batch: RecordBatch, columns: Columns, retention: BatchRetentionResult) -> bool:
    """Whether a batch that keeps all its records needs no new format and no delete horizon."""
    if batch.magic != default_records.MAGIC:
        return False
    if batch.delete_horizon_ms is not None:
        return True
    if retention.contains_marker_for_empty_txn:
        return False
    return bool((columns.value_size >= 0).all())


def _rewrite(
    batch: RecordBatch,
    kept: list[bool],
    retention: BatchRetentionResult,
    by: BatchFilter,
    result: FilterResult,
) -> None:
    decided = _Decided(by.current_time, by.delete_retention_ms, retention, kept)
    made = filter_to([batch], decided)
    result.output += made.output
    if made.output:
        result.add(
            made.max_timestamp,
            made.offset_of_max_timestamp,
            made.max_offset,
            made.messages_retained,
            made.bytes_retained,
        )
