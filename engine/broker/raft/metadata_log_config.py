"""Configuration of a metadata log."""

from __future__ import annotations

from dataclasses import dataclass

from engine.budgets import MiB
from engine.writing.log_config import DAY_MS, MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """Configuration of a metadata log, with Kafka's defaults. Sizes are bytes, times are milliseconds.

    Attributes:
        segment_size, segment_ms: size and age at which the log rolls.
        retention_size, retention_ms: most bytes of log and snapshots together, and largest age of a
            snapshot; negative for no limit.
        max_batch_size: bytes of the largest batch.
        delete_delay_ms: time from the renaming of a deleted file to its removal.
    """

    segment_size: int = 1024 * MiB
    segment_ms: int = 7 * DAY_MS
    retention_size: int = 100 * MiB
    retention_ms: int = 7 * DAY_MS
    max_batch_size: int = 8 * MiB
    delete_delay_ms: int = MINUTE_MS
