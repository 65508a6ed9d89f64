"""What a validation counts and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from engine.record.memory_records import MemoryRecords
from engine.units import Offset, Timestamp


@dataclass(slots=True)
class OffsetCounter:
    """Offset that the next record gets; a validation that succeeds moves it on."""

    value: Offset


@dataclass(slots=True)
class ValidationMetrics:
    """How often something was refused, by what was wrong with it; a validation adds to them."""

    invalid_magic: int = 0
    invalid_offset: int = 0
    invalid_sequence: int = 0
    invalid_checksums: int = 0
    no_key_compacted_topic: int = 0


class RecordValidationStats(NamedTuple):
    """What a validation cost.

    Attributes:
        temporary_memory_bytes: of records that were inflated or built anew.
        records_converted: records that were built anew.
        conversion_time_ns: nanoseconds that this took.
    """

    temporary_memory_bytes: int = 0
    records_converted: int = 0
    conversion_time_ns: int = 0


class ValidationResult(NamedTuple):
    """Records as a leader appends them.

    Attributes:
        log_append_time_ms: the clock at the validation.
        records: with their offsets; a buffer of their own.
        max_timestamp_ms: the largest timestamp, -1 when there is none.
        message_size_maybe_changed: whether they were built anew.
        conversion_stats: what it cost.
    """

    log_append_time_ms: Timestamp
    records: MemoryRecords
    max_timestamp_ms: Timestamp
    message_size_maybe_changed: bool
    conversion_stats: RecordValidationStats
