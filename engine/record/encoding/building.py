"""Build a batch in one call from its records."""

from __future__ import annotations

from typing import Any

from engine.clock import SYSTEM_CLOCK
from engine.record.attributes import TimestampType
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.quorum_records import QuorumFields
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import (
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    Offset,
    Timestamp,
)


def records_of(
    *records: SimpleRecord,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: Timestamp | None = None,
    **batch: Any,  # noqa: ANN401
) -> MemoryRecords:
    """Return one batch of these records; empty without records.

    `log_append_time` defaults to now; `batch` is what else `RecordsBuilder` takes. Raises as it does.
    """
    if not records:
        return MemoryRecords(b"")
    if log_append_time is None:
        is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
        log_append_time = SYSTEM_CLOCK.now_ms() if is_append_time else NO_TIMESTAMP
    builder = RecordsBuilder(
        timestamp_type=timestamp_type, log_append_time=log_append_time, **batch
    )
    for record in records:
        builder.append_record(record)
    return builder.build()


def end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: Timestamp | None = None,
    base_offset: Offset = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> MemoryRecords:
    """Return the control batch that ends a transaction; its timestamp defaults to now.

    Raises:
        ValueError: the producer id or the epoch is -1.
    """
    if timestamp is None:
        timestamp = SYSTEM_CLOCK.now_ms()
    builder = RecordsBuilder(
        base_offset=base_offset,
        log_append_time=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control_batch=True,
        partition_leader_epoch=partition_leader_epoch,
    )
    builder.append_end_transaction_marker(timestamp, marker)
    return builder.build()


def quorum_batch(
    kind: ControlRecordType,
    fields: QuorumFields,
    *,
    base_offset: Offset,
    timestamp: Timestamp,
    leader_epoch: int,
) -> MemoryRecords:
    """Return the control batch of a quorum record; raises as `RecordsBuilder.append_quorum_record` does."""
    builder = RecordsBuilder(
        base_offset=base_offset,
        log_append_time=timestamp,
        is_control_batch=True,
        partition_leader_epoch=leader_epoch,
    )
    builder.append_quorum_record(timestamp, kind, fields)
    return builder.build()
