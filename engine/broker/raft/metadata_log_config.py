"""How the log of a quorum's metadata is kept."""

from __future__ import annotations

from dataclasses import dataclass

from engine.budgets import MiB
from engine.writing.log_config import DAY_MS, MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogConfig:
    """How a metadata log is kept, with Kafka's defaults. Sizes are bytes, times are milliseconds.

    Attributes:
        segment_size, segment_ms: size and age at which the log rolls.
        retention_size, retention_ms: of log and snapshots together, and of a snapshot; negative for no bound.
        max_batch_size: bytes of the largest batch.
        delete_delay_ms: from the renaming of a deleted file to its end.
    """

    segment_size: int = 1024 * MiB
    segment_ms: int = 7 * DAY_MS
    retention_size: int = 100 * MiB
    retention_ms: int = 7 * DAY_MS
    max_batch_size: int = 8 * MiB
    delete_delay_ms: int = MINUTE_MS
