"""Decide which records and batches a cleaning keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.broker.cleaning.chunks import PlainRun
from engine.broker.cleaning.cleaned_transactions import CleanedTransactionMetadata
from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.cleaning.record_filter import BatchRetention, BatchRetentionResult
from engine.coding.varint import to_int64
from engine.columns.columns import Column, Columns
from engine.index.offset_map import HashedOffsetMap
from engine.record.attributes import DELETE_HORIZON_MASK
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.units import NO_PRODUCER_ID, Offset, Timestamp


class LastRecord(NamedTuple):
    """The last record of a producer: its offset, None if only markers are left."""

    last_data_offset: Offset | None
    producer_epoch: int


@dataclass(slots=True)
class BatchFilter:
    """Filter that is applied batch by batch, in log order.

    Attributes:
        current_time: start of the cleaning, in milliseconds since 1970.
        delete_retention_ms: time for which tombstones and markers are kept, in milliseconds.
        offset_map: last offset of each key.
        transactions: transactions open or aborted at the current batch.
        last_records: last record of each live producer.
        high_watermark: that of the log.
        retains_legacy_deletes: whether tombstones of magic 0 and 1 are kept.
        stats: counts records without a key.
    """

    current_time: Timestamp
    delete_retention_ms: int
    offset_map: HashedOffsetMap
    transactions: CleanedTransactionMetadata
    last_records: Mapping[int, LastRecord]
    high_watermark: Offset
    retains_legacy_deletes: bool
    stats: CleanerStats
    _discards_records: bool = False

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        """Return the retention of a batch.

        The last batch of a live producer stays even without records, to keep its sequence and
        epoch; so does the last batch below the high watermark, to keep the log end; Kafka before 4.4
        kept the last batch of the round.
        """
        if batch.is_control:
            nothing_left = self.transactions.on_control_batch_read(batch)
            horizon = batch.delete_horizon_ms
            is_over = horizon is not None and horizon <= self.current_time
            self._discards_records = nothing_left and is_over
        else:
            nothing_left = self._discards_records = self.transactions.on_batch_read(batch)
        if self._is_last_of_producer(batch) or batch.next_offset == self.high_watermark:
            retention = BatchRetention.RETAIN_EMPTY
        elif self._discards_records:
            retention = BatchRetention.DELETE
        else:
            retention = BatchRetention.DELETE_EMPTY
        return BatchRetentionResult(retention, nothing_left and batch.is_control)

    def should_retain_record(self, batch: RecordBatch, record: Record) -> bool:
        """Return whether to keep a record of the last checked batch."""
        if self._discards_records:
            return False
        if batch.is_control or record.offset > self.offset_map.latest_offset:
            return True
        if record.key is None:
            self.stats.invalid_messages_read += 1
            return False
        if record.offset < self.offset_map.get(record.key):
            return False
        return record.value is not None or self._retains_deletes(batch)

    def kept_of(self, batch: RecordBatch, columns: Columns) -> Column:
        """Return `should_retain_record` for all records of a batch as a bool array."""
        if self._discards_records:
            return np.zeros(len(columns), bool)
        if batch.is_control:
            return np.ones(len(columns), bool)
        return self._kept(columns, not self._retains_deletes(batch))

    def kept_of_plain(self, run: PlainRun) -> Column:
        """Return the records to keep of batches of magic 2 without control records and transactions."""
        self.transactions.begin_aborted_up_to(int(run.rows["last_offset"].max()))
        self._discards_records = False
        is_over = run.rows["base_timestamp"] <= self.current_time
        is_over &= run.rows["attributes"] & DELETE_HORIZON_MASK != 0
        drops_deletes = is_over[run.columns.row - run.first] if is_over.any() else False
        return self._kept(run.columns, drops_deletes)

    @property
    def new_horizon(self) -> Timestamp:
        """Delete horizon of a batch that gets one now; wraps as in Java."""
        return to_int64(self.current_time + self.delete_retention_ms)

    def stays_empty(self, producer_id: int, last_offset: Offset) -> bool:
        """Return whether a batch of plain records stays when it has lost them all."""
        if last_offset + 1 == self.high_watermark:
            return True
        last = self.last_records.get(producer_id) if producer_id != NO_PRODUCER_ID else None
        return last is not None and last.last_data_offset == last_offset

    def _kept(self, columns: Columns, drops_deletes: Column | bool) -> Column:
        is_new = columns.offset > self.offset_map.latest_offset
        has_key = columns.key_size >= 0
        self.stats.invalid_messages_read += int(np.count_nonzero(~has_key & ~is_new))
        stays = has_key & (columns.offset >= self.offset_map.offsets_of(columns))
        if drops_deletes is not False:
            stays &= (columns.value_size >= 0) | ~np.asarray(drops_deletes)
        kept: Column = stays | is_new
        return kept

    def _retains_deletes(self, batch: RecordBatch) -> bool:
        if batch.magic < CURRENT_MAGIC:
            return self.retains_legacy_deletes
        horizon = batch.delete_horizon_ms
        return horizon is None or self.current_time < horizon

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        last = self.last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch
