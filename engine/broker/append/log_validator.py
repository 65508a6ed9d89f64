"""Validate records for a leader before it appends them, and assign their offsets.

If the log's magic and codec are those of the batches and inner offsets count from zero, only the
headers are stamped, in a copy. Otherwise the records are rewritten into one batch of the log's
magic and codec (magic 0 and 1 without a codec: one message each).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from engine.broker.append.record_rules import CheckedBatch, RecordRules
from engine.broker.append.validation_result import (
    OffsetCounter,
    RecordValidationStats,
    ValidationMetrics,
    ValidationResult,
)
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.clock import Clock
from engine.coding.compression import Compression, CompressionType
from engine.coding.varint import to_int64
from engine.errors import InvalidRecordError, UnsupportedForMessageFormatError
from engine.record.attributes import TimestampType
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.encoding import writable_batch
from engine.record.encoding.batch_encoding import batch_overhead
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from engine.units import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Offset,
    Timestamp,
    TopicPartition,
)
from engine.writing.state.append_origin import AppendOrigin

_V2 = CURRENT_MAGIC
_NONE = CompressionType.NONE
_NO_STATS = RecordValidationStats()


@dataclass(slots=True)
class LogValidator:
    """Validator of records for a leader's log; the records are not changed.

    Attributes:
        records: whole batches; their checksums were checked before.
        topic_partition: for error messages.
        clock: time of the append.
        source_compression: codec of the records.
        target_compression: codec of the log, with its level.
        compact: whether every record needs a key.
        to_magic: magic of the log.
        timestamp_type: timestamp type of the log.
        before_max_ms, after_max_ms: most milliseconds of a record's timestamp before and after the clock's.
        partition_leader_epoch: leader epoch to stamp on batches of magic 2.
        origin: who appends; only a client's batches are checked as a whole.
        budgets: limits of a batch.
    """

    records: MemoryRecords
    topic_partition: TopicPartition
    clock: Clock
    source_compression: CompressionType
    target_compression: Compression
    compact: bool
    to_magic: int
    timestamp_type: TimestampType
    before_max_ms: int
    after_max_ms: int
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    origin: AppendOrigin = AppendOrigin.CLIENT
    budgets: Budgets = DEFAULT_BUDGETS

    def validate(
        self, offset_counter: OffsetCounter, metrics: ValidationMetrics | None = None
    ) -> ValidationResult:
        """Validate the records and assign offsets from the counter's on.

        Args:
            offset_counter: set to the offset after the last, unless an error is raised.
            metrics: counts refusals.

        Raises:
            RecordValidationError: records are refused; the cause is an InvalidTimestampError or an
                InvalidRecordError.
            InvalidRecordError: a batch or a record breaks the format's rules.
            CorruptRecordError: a message in a wrapper has a wrong checksum, or records do not inflate.
            UnsupportedForMessageFormatError: a magic below 2 cannot hold a producer or a transaction.
            ValueError: a magic below 2 cannot hold headers, zstd or a negative timestamp.
        """
        metrics = ValidationMetrics() if metrics is None else metrics
        is_plain = self.source_compression is _NONE and self.target_compression.type is _NONE
        batches = list(self.records.batches())
        self._check_first(batches, _NONE if is_plain else self.source_compression)
        rules = self._rules(metrics)
        if not is_plain:
            made = self._validate_compressed(batches, rules, offset_counter.value)
        elif {batch.magic for batch in batches} == {self.to_magic}:
            made = self._assign_offsets(batches, rules, offset_counter.value)
        else:
            made = self._convert(batches, rules, offset_counter.value)
        result, offset_counter.value = made
        return result

    def _rules(self, metrics: ValidationMetrics) -> RecordRules:
        return RecordRules(
            topic_partition=self.topic_partition,
            now=self.clock.now_ms(),
            timestamp_type=self.timestamp_type,
            before_max_ms=self.before_max_ms,
            after_max_ms=self.after_max_ms,
            compact=self.compact,
            metrics=metrics,
            budgets=self.budgets,
        )

    # In place, converted or compressed

    def _assign_offsets(
        self, batches: list[RecordBatch], rules: RecordRules, offset: Offset
    ) -> tuple[ValidationResult, Offset]:
        """Stamp each uncompressed batch with the next offsets."""
        buffer = bytearray(self.records.buffer)
        position, newest = 0, NO_TIMESTAMP
        for batch in batches:
            self._check_batch(batches[0], batch, rules.metrics)
            checked = rules.check(batch)
            offset += checked.count
            newest = max(newest, checked.max_timestamp)
            self._stamp(buffer, position, offset - 1, checked.max_timestamp, rules.now)
            position += batch.size
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            newest = rules.now if self.to_magic > 0 else NO_TIMESTAMP
        records = MemoryRecords(buffer)
        result = ValidationResult(rules.now, records, newest, False, _NO_STATS)
        return result, offset

    def _stamp(
        self,
        buffer: bytearray,
        position: int,
        last_offset: Offset,
        newest: Timestamp,
        now: Timestamp,
    ) -> None:
        writable_batch.set_last_offset(buffer, position, last_offset)
        if self.to_magic > 0:
            is_now = self.timestamp_type is TimestampType.LOG_APPEND_TIME
            stamp = now if is_now else newest
            writable_batch.set_max_timestamp(buffer, position, self.timestamp_type, stamp)
        if self.to_magic == _V2:
            epoch = self.partition_leader_epoch
            writable_batch.set_partition_leader_epoch(buffer, position, epoch)

    def _convert(
        self, batches: list[RecordBatch], rules: RecordRules, offset: Offset
    ) -> tuple[ValidationResult, Offset]:
        """Rewrite all uncompressed records in another magic."""
        checked = []
        for batch in batches:
            self._check_batch(batches[0], batch, rules.metrics)
            checked.append(rules.check(batch))
        return self._build(batches[0], checked, rules.now, offset, 0)

    def _validate_compressed(
        self, batches: list[RecordBatch], rules: RecordRules, offset: Offset
    ) -> tuple[ValidationResult, Offset]:
        """Stamp the one batch, or rewrite all records, with a codec before or after."""
        first = batches[0]
        is_in_place = self.source_compression is self.target_compression.type
        if first.magic != self.to_magic or self.to_magic == 0:
            is_in_place = False
        if self.source_compression is _NONE and first.is_control:
            is_in_place = True  # control records are never compressed
        checked: list[CheckedBatch] = []
        size = 0
        for batch in batches:
            self._check_batch(first, batch, rules.metrics)
            checked.append(rules.check(batch))
            size += batch_overhead(self.to_magic, batch.compression) + checked[-1].bytes
            if batch.magic > 0 and self.to_magic > 0 and not checked[-1].counts_from_zero:
                # In older magics wrong inner offsets of some clients are accepted.
                if is_in_place and batch.magic == _V2 and batch.is_compressed:
                    raise self._invalid("offsets in a compressed batch do not count from 0")
                is_in_place = False
        if not is_in_place:
            return self._build(first, checked, rules.now, offset, size)
        return self._stamp_one(checked[0], rules.now, offset, size)

    def _stamp_one(
        self, checked: CheckedBatch, now: Timestamp, offset: Offset, size: int
    ) -> tuple[ValidationResult, Offset]:
        offset += checked.count
        buffer = bytearray(self.records.buffer)
        self._stamp(buffer, 0, offset - 1, checked.max_timestamp, now)
        is_now = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        newest = now if is_now else checked.max_timestamp
        stats = RecordValidationStats(size)
        return ValidationResult(now, MemoryRecords(buffer), newest, False, stats), offset

    def _build(
        self,
        first: RecordBatch,
        checked: Iterable[CheckedBatch],
        now: Timestamp,
        offset: Offset,
        size: int,
    ) -> tuple[ValidationResult, Offset]:
        """Return one batch of the log's magic and codec; `size` is the inflated size in bytes."""
        started = time.perf_counter_ns()
        builder = RecordsBuilder(
            magic=self.to_magic,
            compression=self.target_compression.type,
            level=self.target_compression.level,
            timestamp_type=self.timestamp_type,
            base_offset=offset,
            log_append_time=now,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            base_sequence=first.base_sequence,
            is_transactional=first.is_transactional,
            partition_leader_epoch=self.partition_leader_epoch,
        )
        for batch in checked:
            for entry in batch.entries():
                builder.append_with_offset(offset, *entry)
                offset += 1
        records = builder.build()
        stats = RecordValidationStats(
            size + builder.uncompressed_bytes_written,
            builder.record_count,
            time.perf_counter_ns() - started,
        )
        newest = builder.info.max_timestamp
        return ValidationResult(now, records, newest, True, stats), offset

    # Checks of whole batches

    @staticmethod
    def _check_first(batches: list[RecordBatch], source: CompressionType) -> None:
        if not batches:
            raise InvalidRecordError("there are no batches to append")
        if len(batches) > 1 and (batches[0].magic == _V2 or source is not _NONE):
            raise InvalidRecordError("there is more than one batch", found=len(batches))

    def _check_batch(
        self, first: RecordBatch, batch: RecordBatch, metrics: ValidationMetrics
    ) -> None:
        if batch.magic != first.magic:
            metrics.invalid_magic += 1
            raise self._invalid("batches of different magics", first.magic, batch.magic)
        if self.origin is AppendOrigin.CLIENT:
            self._check_client_batch(batch, metrics)
        if self.to_magic < _V2:
            if batch.is_transactional:
                raise UnsupportedForMessageFormatError(
                    f"records of magic {self.to_magic} cannot be transactional"
                )
            if batch.producer_id > NO_PRODUCER_ID:
                raise UnsupportedForMessageFormatError(
                    f"records of magic {self.to_magic} cannot be idempotent"
                )

    def _check_client_batch(self, batch: RecordBatch, metrics: ValidationMetrics) -> None:
        if batch.record_count is not None:
            covered = to_int64(batch.last_offset - batch.base_offset + 1)
            reason = None
            if covered <= 0:
                reason = "the batch covers no offsets"
            elif batch.record_count <= 0:
                reason = "the batch has no records"
            elif covered != batch.record_count:
                reason = "the batch's offsets and its number of records do not agree"
            if reason is not None:
                metrics.invalid_offset += 1
                raise self._invalid(reason, f"{covered} records", batch.record_count)
        if batch.is_control:
            metrics.invalid_offset += 1
            raise self._invalid("a client must not write control records")
        if batch.producer_id > NO_PRODUCER_ID and batch.base_sequence < 0:
            metrics.invalid_sequence += 1
            reason = f"the sequence of producer {batch.producer_id} is negative"
            raise self._invalid(reason, "0 or more", batch.base_sequence)

    def _invalid(
        self, reason: str, expected: object = None, found: object = None
    ) -> InvalidRecordError:
        path = str(self.topic_partition)
        return InvalidRecordError(reason, path=path, expected=expected, found=found)
