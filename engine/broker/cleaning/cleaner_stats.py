"""Statistics of a cleaning."""

from __future__ import annotations

from dataclasses import dataclass

from engine.units import Timestamp


@dataclass(slots=True)
class CleanerStats:
    """Statistics of one cleaning of one log. Times are milliseconds since 1970, -1 if not reached.

    Attributes:
        start_time, map_complete_time, end_time: start, end of collecting the keys, and end.
        map_bytes_read, map_messages_read: bytes and records read to collect the keys.
        bytes_read, messages_read: bytes and records read to rewrite the log.
        bytes_written, messages_written: kept bytes and records.
        invalid_messages_read: records without a key, which are dropped.
        buffer_utilization: used share of the offset map.
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
    """Statistics of the logs before a choice.

    Attributes:
        max_compaction_delay_ms: largest delay of a log after its max.compaction.lag.ms.
        delayed_partitions: number of delayed logs.
        cleanable_partitions: number of logs worth cleaning.
    """

    max_compaction_delay_ms: int = 0
    delayed_partitions: int = 0
    cleanable_partitions: int = 0

    def note_compaction_delay(self, delay_ms: int) -> None:
        """Add the delay of a log."""
        self.max_compaction_delay_ms = max(self.max_compaction_delay_ms, delay_ms)
        if delay_ms > 0:
            self.delayed_partitions += 1
