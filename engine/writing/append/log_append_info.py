"""What is known of batches that are appended: gathered before, completed on the way, given back after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from engine.coding.compression import CompressionType
from engine.units import NO_TIMESTAMP, Offset, Timestamp


class LeaderHwChange(Enum):
    """What an append did to the leader's high watermark."""

    INCREASED = "increased"
    SAME = "same"
    NONE = "none"


@dataclass(slots=True)
class LogAppendInfo:
    """Facts about a run of batches.

    Attributes:
        first_offset: the first record's offset; -1 when unknown: a follower's magic 0 or 1.
        last_offset: the last record's offset.
        last_leader_epoch: of the last batch; None when it has none.
        max_timestamp: the largest timestamp, -1 when there is none.
        log_append_time: the broker's time where that counts, else -1.
        log_start_offset: of the log at the time of the append.
        validation_stats: what validation counted; None when nothing was validated.
        source_compression: the producer's codec.
        valid_bytes: how many bytes whole batches take; -1 when unknown.
        last_offset_of_first_batch: stands for the first offset where that is unknown.
        record_errors: records that were refused: their places in their batch, and why.
        leader_hw_change: what became of the high watermark.
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
    leader_hw_change: LeaderHwChange = LeaderHwChange.NONE

    @property
    def first_or_last_offset_of_first_batch(self) -> Offset:
        """First offset, or the nearest to it that a header tells."""
        return self.first_offset if self.first_offset >= 0 else self.last_offset_of_first_batch

    @property
    def message_count(self) -> int:
        """How many offsets are taken; 0 when the first or the last is unknown."""
        if self.first_offset >= 0 and self.last_offset >= 0:
            return self.last_offset - self.first_offset + 1
        return 0

    def with_hw_change(self, change: LeaderHwChange) -> LogAppendInfo:
        """Return the same after the high watermark was looked at."""
        return replace(self, leader_hw_change=change)

    @classmethod
    def unknown(
        cls,
        log_start_offset: Offset = -1,
        record_errors: tuple[tuple[int, str], ...] = (),
    ) -> LogAppendInfo:
        """For an append that did not happen."""
        return cls(log_start_offset=log_start_offset, record_errors=record_errors)
