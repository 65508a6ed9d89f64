"""Facts about appended batches: collected before the append, completed during it, returned after."""

from __future__ import annotations

from dataclasses import dataclass

from engine.coding.compression import CompressionType
from engine.units import NO_TIMESTAMP, Offset, Timestamp


@dataclass(slots=True)
class LogAppendInfo:
    """Facts about a run of batches.

    Attributes:
        first_offset: offset of the first record; -1 if unknown, in a follower's batch of magic 0 or 1.
        last_offset: offset of the last record.
        last_leader_epoch: leader epoch of the last batch, None without one.
        max_timestamp: largest timestamp, -1 without one.
        log_append_time: the broker's time with LOG_APPEND_TIME, else -1.
        log_start_offset: log start offset at the time of the append.
        validation_stats: statistics of the validation; None without validation.
        source_compression: codec of the producer.
        valid_bytes: bytes of whole batches; -1 if unknown.
        last_offset_of_first_batch: used as the first offset if that is unknown.
        record_errors: refused records: index in the batch, and reason.
    """

    first_offset: Offset = -1
    last_offset: Offset = -1
    last_leader_epoch: int | None = None
    max_timestamp: Timestamp = NO_TIMESTAMP
    log_append_time: Timestamp = NO_TIMESTAMP
    log_start_offset: Offset = -1
    validation_stats: object | None = None
    source_compression: CompressionType = CompressionType.NONE
    valid_bytes: int = -1
    last_offset_of_first_batch: Offset = -1
    record_errors: tuple[tuple[int, str], ...] = ()

    @property
    def first_or_last_offset_of_first_batch(self) -> Offset:
        """First offset, or the nearest offset in a header."""
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch

    @classmethod
    def unknown(
        cls,
        log_start_offset: Offset = -1,
        record_errors: tuple[tuple[int, str], ...] = (),
    ) -> LogAppendInfo:
        """Return the facts of an append that did not happen."""
        return cls(log_start_offset=log_start_offset, record_errors=record_errors)
