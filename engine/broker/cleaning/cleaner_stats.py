"""What a cleaning did, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from engine.units import Timestamp


@dataclass(slots=True)
class CleanerStats:
    """One cleaning of one log. Times are milliseconds since 1970, -1 before they are known.

    Attributes:
        start_time, map_complete_time, end_time: when it began, knew the keys, and was through.
        map_bytes_read, map_messages_read: what was read to know the keys.
        bytes_read, messages_read: what was read to write it anew.
        bytes_written, messages_written: what was kept.
        invalid_messages_read: records without a key, which are dropped.
        buffer_utilization: which part of the offset map was taken.
    """

    start_time: Timestamp = -1
    map_complete_time: Timestamp = -1
    end_time: Timestamp = -1
    map_bytes_read: int = 0
    map_messages_read: int = 0
    bytes_read: int = 0
    messages_read: int = 0
    bytes_written: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    buffer_utilization: float = 0.0


@dataclass(slots=True)
class PreCleanStats:
    """What there was to choose from before a cleaning.

    Attributes:
        max_compaction_delay_ms: how late the latest log is for its max.compaction.lag.ms.
        delayed_partitions: how many logs are late.
        cleanable_partitions: how many logs are worth a cleaning.
    """

    max_compaction_delay_ms: int = 0
    delayed_partitions: int = 0
    cleanable_partitions: int = 0

    def note_compaction_delay(self, delay_ms: int) -> None:
        """Take in how late a log is."""
        self.max_compaction_delay_ms = max(self.max_compaction_delay_ms, delay_ms)
        if delay_ms > 0:
            self.delayed_partitions += 1
