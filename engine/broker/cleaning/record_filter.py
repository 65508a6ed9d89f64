"""Filter the records of batches, as the log cleaner does.

A batch that keeps all records is copied. A batch that loses records or gets a delete horizon is
rewritten as magic 2 with its offsets, producer and codec. A batch of older magic is always
rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import compress
from typing import NamedTuple, Protocol

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.errors import StateError
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.default_records import DefaultRecordBatch
from engine.record.encoding.batch_encoding import BATCH_OVERHEAD, encode_empty_batch
from engine.record.encoding.batch_rewrite import rewrite_batch
from engine.record.encoding.conversion import converted
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.units import NO_TIMESTAMP, Offset, Timestamp


class BatchRetention(Enum):
    """Retention of a batch."""

    DELETE = "delete"
    """Remove the batch without a look at its records."""
    RETAIN_EMPTY = "retain empty"
    """Keep the batch, even without records."""
    DELETE_EMPTY = "delete empty"
    """Remove the batch if no record is kept."""


class BatchRetentionResult(NamedTuple):
    """Retention of a batch, and whether it is the marker of a transaction without remaining records."""

    batch_retention: BatchRetention
    contains_marker_for_empty_txn: bool = False


class RecordFilter(Protocol):
    """Protocol that decides which records to keep.

    Attributes:
        current_time: current time, in milliseconds since 1970.
        delete_retention_ms: milliseconds after that during which tombstones and markers are kept.
    """

    current_time: Timestamp
    delete_retention_ms: int

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        """Return the retention of a batch; called once, before its records."""

    def should_retain_record(self, batch: RecordBatch, record: Record) -> bool:
        """Return whether to keep a record; called in order, for batches that are not deleted."""


@dataclass(slots=True)
class FilterResult:
    """Result of a filter.

    Attributes:
        output: the remaining batches.
        messages_read, bytes_read: filtered records, and bytes of whole batches.
        messages_retained, bytes_retained: remaining records and bytes.
        max_offset: largest remaining offset, -1 without one.
        max_timestamp: largest remaining timestamp, -1 without one.
        offset_of_max_timestamp: last offset of the first batch with that timestamp, -1 without one.
    """

    output: bytearray = field(default_factory=bytearray)
    messages_read: int = 0
    bytes_read: int = 0
    messages_retained: int = 0
    bytes_retained: int = 0
    max_offset: Offset = -1
    max_timestamp: Timestamp = NO_TIMESTAMP
    offset_of_max_timestamp: Offset = -1

    def add(
        self,
        timestamp: Timestamp,
        offset_of_timestamp: Offset,
        max_offset: Offset,
        messages: int,
        size: int,
    ) -> None:
        """Count a remaining batch. Raises ValueError if one of its offsets is unknown."""
        if timestamp != NO_TIMESTAMP and offset_of_timestamp < 0:
            raise ValueError(f"no offset for the largest timestamp {timestamp}")
        if max_offset < 0:
            raise ValueError(f"the last offset of a batch is {max_offset}")
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = offset_of_timestamp
        self.max_offset = max(self.max_offset, max_offset)
        self.messages_retained += messages
        self.bytes_retained += size

    def add_whole(self, batch: RecordBatch, messages: int) -> None:
        """Copy an unchanged batch."""
        self.output += batch.raw
        last = batch.last_offset
        self.add(batch.max_timestamp, last, last, messages, batch.size)

    def add_rewritten(
        self,
        batch: DefaultRecordBatch,
        stays: Sequence[bool],
        max_offset: Offset,
        horizon: Timestamp | None,
        budgets: Budgets = DEFAULT_BUDGETS,
    ) -> None:
        """Rewrite a batch with the kept records, at least one; they were decoded before.

        Args:
            batch: batch of magic 2.
            stays: one bool per record, whether to keep it.
            max_offset: offset of the last kept record.
            horizon: new delete horizon of the batch; None keeps its own.
            budgets: limit of the inflated batch.

        Raises:
            The errors of `rewrite_batch`.
        """
        if horizon is None:
            horizon = batch.delete_horizon_ms
        data, timestamp = rewrite_batch(batch, stays, horizon, budgets)
        self.output += data
        known = -1 if timestamp == NO_TIMESTAMP else batch.last_offset
        self.add(timestamp, known, max_offset, sum(stays), len(data))

    def add_empty(self, batch: RecordBatch) -> None:
        """Write the header of a batch without its records. Raises StateError before magic 2."""
        if batch.magic != CURRENT_MAGIC:
            raise StateError(f"a batch of magic {batch.magic} is not kept empty")
        last = batch.last_offset
        self.output += encode_empty_batch(
            base_offset=batch.base_offset,
            last_offset=last,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            partition_leader_epoch=batch.leader_epoch,
            timestamp_type=batch.timestamp_type,
            timestamp=batch.max_timestamp,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        )
        self.add(batch.max_timestamp, last, last, 0, BATCH_OVERHEAD)


def filter_to(
    batches: Iterable[RecordBatch],
    record_filter: RecordFilter,
    *,
    capacity: int | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> FilterResult:
    """Return the batches and records that a filter keeps.

    Args:
        batches: in the order of the log.
        record_filter: the filter.
        capacity: bytes of output after which to stop; the batch that reaches the limit is included,
            and `bytes_read` is the end of the filtered batches. None for no limit.
        budgets: limits of a decoded batch.

    Raises:
        StateError: a batch of magic 0 or 1 should be kept empty.
        ValueError: a remaining batch has no last offset.
        The errors of `RecordBatch.records`.
    """
    result = FilterResult()
    for batch in batches:
        retention, is_marker_for_empty = record_filter.check_batch_retention(batch)
        result.bytes_read += batch.size
        if retention is BatchRetention.DELETE:
            continue
        records = list(batch.records(budgets))
        stays = [record_filter.should_retain_record(batch, record) for record in records]
        result.messages_read += len(records)
        if any(stays):
            retained = list(compress(records, stays))
            horizon = _new_horizon(batch, retained, record_filter, is_marker_for_empty)
            _write(batch, retained, stays, horizon, result, budgets)
        elif retention is BatchRetention.RETAIN_EMPTY:
            result.add_empty(batch)
        if capacity is not None and len(result.output) > capacity:
            break
    return result


def _new_horizon(
    batch: RecordBatch, retained: list[Record], record_filter: RecordFilter, is_marker: bool
) -> Timestamp | None:
    """Return the delete horizon to set on a batch now, or None."""
    if batch.delete_horizon_ms is not None:
        return None
    if is_marker or any(record.value is None for record in retained):
        return record_filter.current_time + record_filter.delete_retention_ms
    return None


def _write(
    batch: RecordBatch,
    retained: list[Record],
    stays: list[bool],
    horizon: Timestamp | None,
    result: FilterResult,
    budgets: Budgets,
) -> None:
    largest = retained[-1].offset
    if not isinstance(batch, DefaultRecordBatch):
        builder = converted(batch, retained, horizon)
        records = builder.build()
        result.output += records.buffer
        result.add(*builder.info, largest, len(retained), records.size)
    elif horizon is None and all(stays):
        result.add_whole(batch, len(retained))
    else:
        result.add_rewritten(batch, stays, largest, horizon, budgets)
