"""Statistics and result of a validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from engine.record.memory_records import MemoryRecords
from engine.units import Offset, Timestamp


@dataclass(slots=True)
class OffsetCounter:
    """Offset of the next record; a successful validation advances it."""

    value: Offset


@dataclass(slots=True)
class ValidationMetrics:
    """Counts of refusals by reason; validations add to them."""

    invalid_magic: int = 0
    invalid_offset: int = 0
    invalid_sequence: int = 0
    invalid_checksums: int = 0
    no_key_compacted_topic: int = 0


class RecordValidationStats(NamedTuple):
    """Cost of a validation.

    Attributes:
        temporary_memory_bytes: bytes of records that were inflated or rewritten.
        records_converted: number of rewritten records.
        conversion_time_ns: nanoseconds of rewriting.
    """

    temporary_memory_bytes: int = 0
    records_converted: int = 0
    conversion_time_ns: int = 0


class ValidationResult(NamedTuple):
    """Records as a leader appends them.

    Attributes:
        log_append_time_ms: time of the validation.
        records: records with their offsets, in a new buffer.
        max_timestamp_ms: largest timestamp, -1 without one.
        message_size_maybe_changed: whether records were rewritten.
        conversion_stats: cost of the validation.
    """

    log_append_time_ms: Timestamp
    records: MemoryRecords
    max_timestamp_ms: Timestamp
    message_size_maybe_changed: bool
    conversion_stats: RecordValidationStats
