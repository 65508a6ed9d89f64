"""What a cleaning keeps of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.broker.cleaning.cleaned_transactions import CleanedTransactionMetadata
from engine.broker.cleaning.cleaner_stats import CleanerStats
from engine.broker.cleaning.offset_map import OffsetMap
from engine.columns.columns import Column, Columns
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.units import NO_PRODUCER_ID, Offset, Timestamp
from engine.writing.records.record_filter import BatchRetention, BatchRetentionResult


class LastRecord(NamedTuple):
    """Last that a producer wrote: the last offset of its records, None if there are markers only."""

    last_data_offset: Offset | None
    producer_epoch: int


@dataclass(slots=True)
class BatchFilter:
    """Decides batch by batch, in the order of the log.

    Attributes:
        current_time: when the cleaning began, in milliseconds since 1970.
        delete_retention_ms: how long after that tombstones and markers stay.
        offset_map: the last offset of each key.
        transactions: as they are at this place of the log.
        last_records: of each producer that is alive.
        upper_bound_offset: where the part of the log ends that is cleaned in this round.
        retains_legacy_deletes: whether tombstones of magic 0 and 1 stay.
        stats: counts records without a key.
    """

    current_time: Timestamp
    delete_retention_ms: int
    offset_map: OffsetMap
    transactions: CleanedTransactionMetadata
    last_records: Mapping[int, LastRecord]
    upper_bound_offset: Offset
    retains_legacy_deletes: bool
    stats: CleanerStats
    _discards_records: bool = False

    def check_batch_retention(self, batch: RecordBatch) -> BatchRetentionResult:
        """What becomes of a batch.

        The last batch of a live producer stays, for its sequence and its epoch, if need be without records; so does
        the last batch of the round, for the offset that the log ends at.
        """
        if batch.is_control:
            nothing_left = self.transactions.on_control_batch_read(batch)
            horizon = batch.delete_horizon_ms
            is_over = horizon is not None and horizon <= self.current_time
            self._discards_records = nothing_left and is_over
        else:
            nothing_left = self._discards_records = self.transactions.on_batch_read(batch)
        if self._is_last_of_producer(batch) or batch.next_offset == self.upper_bound_offset:
            retention = BatchRetention.RETAIN_EMPTY
        elif self._discards_records:
            retention = BatchRetention.DELETE
        else:
            retention = BatchRetention.DELETE_EMPTY
        return BatchRetentionResult(retention, nothing_left and batch.is_control)

    def should_retain_record(self, batch: RecordBatch, record: Record) -> bool:
        """Return whether a record of the batch that was asked for last stays."""
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
        """`should_retain_record` for all records of a batch at once: a bool for each."""
        if self._discards_records:
            return np.zeros(len(columns), bool)
        if batch.is_control:
            return np.ones(len(columns), bool)
        is_new = columns.offset > self.offset_map.latest_offset
        has_key = columns.key_size >= 0
        self.stats.invalid_messages_read += int(np.count_nonzero(~has_key & ~is_new))
        stays = has_key & (columns.offset >= self.offset_map.offsets_of(columns))
        if not self._retains_deletes(batch):
            stays &= columns.value_size >= 0
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
