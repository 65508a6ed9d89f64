"""Convert records of magic 0 and 1 to magic 2, with their offsets, keys and values."""

from __future__ import annotations

from collections.abc import Iterable

from engine.record.attributes import TimestampType
from engine.record.encoding.records_builder import RecordsBuilder
from engine.record.record import Record
from engine.record.record_batch import RecordBatch
from engine.units import NO_TIMESTAMP, Timestamp


def converted(
    batch: RecordBatch, records: Iterable[Record], horizon: Timestamp | None = None
) -> RecordsBuilder:
    """Return a builder with records in a batch of magic 2, and the codec and timestamp type of an older batch.

    Magic 0 has no timestamps: they become -1, CREATE_TIME.

    Args:
        batch: the batch of magic 0 or 1.
        records: some of its records, at least one; without a codec also those of following batches, which with
            LOG_APPEND_TIME have the same timestamp.
        horizon: delete horizon of the new batch, or None.

    Raises:
        ValueError: offsets do not ascend, are too far apart, or a timestamp is negative and not -1.
    """
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    rest = iter(records)
    first = next(rest)
    builder = RecordsBuilder(
        compression=batch.compression,
        timestamp_type=(
            TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
        ),
        base_offset=first.offset,
        log_append_time=batch.max_timestamp if is_append_time else NO_TIMESTAMP,
        delete_horizon_ms=horizon,
    )
    builder.append_record(first)
    for record in rest:
        builder.append_record(record)
    return builder
