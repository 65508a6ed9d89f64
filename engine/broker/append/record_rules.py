"""Check each record of a batch by a leader's rules, and collect facts about the records.

Of a batch of magic 2 the kernel returns a few facts about all records; most often these show that all
are valid. If not, and for magic 0 and 1, the records are checked one by one, which names the invalid
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from engine import kernel
from engine.broker.append.validation_result import ValidationMetrics
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.coding.varint import size_of_varint, to_int64
from engine.columns.batch_table import BATCH_ROW
from engine.columns.columns import Columns
from engine.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordValidationError,
)
from engine.record.attributes import TimestampType
from engine.record.batch_frame import CURRENT_MAGIC, LOG_OVERHEAD
from engine.record.legacy_records import LegacyRecordBatch
from engine.record.record import Header, Record
from engine.record.record_batch import RecordBatch
from engine.units import NO_TIMESTAMP, Timestamp, TopicPartition

_ROW = np.zeros(1, BATCH_ROW.dtype)
_SHOWN = 3
"""Most record errors in the message of the error for all."""


class CheckedRecord(NamedTuple):
    """Fields of a record that is rewritten."""

    timestamp: Timestamp
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class RecordFailure(NamedTuple):
    """A refused record: its index in the batch, the reason, and whether the reason is its timestamp."""

    place: int
    reason: str
    is_timestamp: bool = False


@dataclass(slots=True)
class CheckedBatch:
    """A batch of valid records.

    Attributes:
        count: number of records.
        max_timestamp: largest timestamp of the records, at least -1.
        bytes: uncompressed bytes of the records.
        counts_from_zero: whether the record offsets in the batch are 0, 1, 2 and so on.
        source: the records themselves, or what decodes them.
    """

    count: int
    max_timestamp: Timestamp
    bytes: int
    counts_from_zero: bool
    source: Callable[[], Columns] | list[Record]

    def entries(self) -> Iterator[CheckedRecord]:
        """Yield the records, in order."""
        if isinstance(self.source, list):
            for record in self.source:
                yield CheckedRecord(record.timestamp, record.key, record.value, record.headers)
        else:
            columns = self.source()
            key, value, headers = columns.key, columns.value, columns.headers
            for index, timestamp in enumerate(columns.timestamp.tolist()):
                yield CheckedRecord(timestamp, key(index), value(index), headers(index))


@dataclass(slots=True, kw_only=True)
class RecordRules:
    """Rules for each record of one append.

    Attributes:
        topic_partition: for error messages.
        now: time of the leader's clock, in milliseconds.
        timestamp_type: timestamp type of the log.
        before_max_ms, after_max_ms: most milliseconds of a record's timestamp before and after `now`.
        compact: whether every record needs a key.
        metrics: counts refusals.
        budgets: limits of a batch.
    """

    topic_partition: TopicPartition
    now: Timestamp
    timestamp_type: TimestampType
    before_max_ms: int
    after_max_ms: int
    compact: bool
    metrics: ValidationMetrics
    budgets: Budgets = DEFAULT_BUDGETS

    def check(self, batch: RecordBatch) -> CheckedBatch:
        """Check all records of a batch.

        Raises:
            RecordValidationError: some records are refused; the error lists all of them.
            InvalidRecordError: a record breaks the format.
            CorruptRecordError: the checksum of a message in a wrapper is wrong, or the message does
                not inflate.
            LimitExceededError: the batch or its content is too large.
        """
        if batch.magic == CURRENT_MAGIC:
            checked = self.check_at_once(batch)
            if checked is not None:
                return checked
        return self.check_one_by_one(batch)

    # All at once

    def check_at_once(self, batch: RecordBatch) -> CheckedBatch | None:
        """Return the result for a batch of magic 2 if facts about its records show that all are valid, else None."""
        facts = kernel.record_facts(batch.raw, budgets=self.budgets)
        if facts is None or (self.compact and facts.without_key):
            return None
        low, high = facts.smallest_timestamp, facts.largest_timestamp
        if not self._are_fine(batch, low, high):
            return None
        ends = facts.first_offset == 0 and facts.last_offset == facts.records - 1
        return CheckedBatch(
            facts.records,
            max(NO_TIMESTAMP, high),
            facts.size,
            ends and not facts.descents,
            partial(self._columns_of, batch),
        )

    def _columns_of(self, batch: RecordBatch) -> Columns:
        table, data = _ROW.copy(), batch.raw
        kernel.walk(data, table, 0, 0, False, largest=self.budgets.batch_bytes)
        return kernel.decode(data, table, 0, 1, start_position=0, budgets=self.budgets)

    def _are_fine(self, batch: RecordBatch, low: Timestamp, high: Timestamp) -> bool:
        """Return whether a batch's timestamps, from `low` to `high`, are all allowed."""
        is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        if self.timestamp_type is not TimestampType.CREATE_TIME:
            return not is_append_time
        if low <= NO_TIMESTAMP <= high:  # a record without one is not checked against the window
            if is_append_time:
                return False
            stamps = self._columns_of(batch).timestamp
            stamps = stamps[stamps != NO_TIMESTAMP]
            if not len(stamps):
                return True
            low, high = int(stamps.min()), int(stamps.max())
        return self.now - self.before_max_ms <= low and high <= self.now + self.after_max_ms

    # One by one

    def check_one_by_one(self, batch: RecordBatch) -> CheckedBatch:
        """Return the result for any batch. Raises as `check` does."""
        failures: list[RecordFailure] = []
        records: list[Record] = []
        newest, size = NO_TIMESTAMP, 0
        for index, (message, record) in enumerate(self._messages(batch)):
            failure = self._failure_of(batch, message, record, index)
            if failure is not None:
                failures.append(failure)
                continue
            newest = max(newest, record.timestamp)
            size += _size_of(record, batch.magic)
            records.append(record)
        if failures:
            raise self._refusal(failures)
        from_zero = all(record.offset == index for index, record in enumerate(records))
        return CheckedBatch(len(records), newest, size, from_zero, records)

    def _messages(self, batch: RecordBatch) -> Iterator[tuple[LegacyRecordBatch | None, Record]]:
        if isinstance(batch, LegacyRecordBatch):
            yield from batch.messages(self.budgets)
        else:
            for record in batch.records(self.budgets):
                yield None, record

    def _failure_of(
        self, batch: RecordBatch, message: LegacyRecordBatch | None, record: Record, index: int
    ) -> RecordFailure | None:
        if message is not None and message.magic != batch.magic:
            self.metrics.invalid_magic += 1
            return RecordFailure(
                index,
                f"a message of magic {message.magic} in one of magic {batch.magic}"
                f" in {self.topic_partition}",
            )
        if message is not None and batch.is_compressed:
            self._check_message(message)
        if self.compact and record.key is None:
            self.metrics.no_key_compacted_topic += 1
            return RecordFailure(
                index, f"a record without a key in the compacted log {self.topic_partition}"
            )
        return self._timestamp_failure(batch, record, index)

    def _check_message(self, message: LegacyRecordBatch) -> None:
        """Check the checksum of a message in a wrapper; a bare message is checked as a batch."""
        try:
            message.ensure_valid()
        except CorruptRecordError:
            self.metrics.invalid_checksums += 1
            raise

    def _timestamp_failure(
        self, batch: RecordBatch, record: Record, index: int
    ) -> RecordFailure | None:
        timestamp = record.timestamp
        if self.timestamp_type is TimestampType.CREATE_TIME and timestamp != NO_TIMESTAMP:
            past = to_int64(self.now - timestamp)
            if past > self.before_max_ms or to_int64(-past) > self.after_max_ms:
                window = f"{self.now - self.before_max_ms} to {self.now + self.after_max_ms}"
                return RecordFailure(
                    index,
                    f"the timestamp {timestamp} of the record at offset {record.offset} is out of"
                    f" range: {window}",
                    is_timestamp=True,
                )
        elif batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return RecordFailure(index, "a producer must not set LogAppendTime", is_timestamp=True)
        return None

    def _refusal(self, failures: list[RecordFailure]) -> RecordValidationError:
        """Return the error for a batch; its cause depends on whether timestamps are refused."""
        errors = tuple((failure.place, failure.reason) for failure in failures)
        cause: Exception
        if any(failure.is_timestamp for failure in failures):
            reason = f"{len(errors)} records are refused, some for their timestamps"
            cause = InvalidTimestampError(reason, errors)
        else:
            reason = f"{len(errors)} records are refused"
            cause = InvalidRecordError(reason)
        shown = "; ".join(f"record {index}: {why}" for index, why in errors[:_SHOWN])
        refusal = RecordValidationError(f"{reason}: {shown}", errors)
        refusal.__cause__ = cause
        return refusal


def _size_of(record: Record, magic: int) -> int:
    """Return the bytes of a record with its length prefix, or of a message with its offset."""
    if magic == CURRENT_MAGIC:
        return size_of_varint(record.size) + record.size
    return LOG_OVERHEAD + record.size
