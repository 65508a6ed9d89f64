"""Settings of a broker's log dirs, beyond each topic's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.units import MAX_INT64
from engine.writing.state.producer_state_manager import ProducerStateManagerConfig


@dataclass(frozen=True, slots=True)
class LogDirSettings:
    """A broker's defaults; times are milliseconds.

    Attributes:
        threads_per_log_dir: threads that load and close logs.
        initial_task_delay_ms: delay of the first run of periodic tasks.
        retention_check_ms: interval of looking for old segments.
        flush_check_ms: interval of looking for logs to flush, by default never.
        recovery_point_checkpoint_ms, log_start_offset_checkpoint_ms, high_watermark_checkpoint_ms:
            intervals of writing the checkpoints.
        failure_check_ms: interval of looking for failed log dirs.
        max_transaction_timeout_ms: time after which a transaction is late.
        producer_state: expiration of producers.
        producer_id_expiration_check_ms: interval of looking for expired producers.
    """

    threads_per_log_dir: int = 2
    initial_task_delay_ms: int = 30_000
    retention_check_ms: int = 300_000
    flush_check_ms: int = MAX_INT64
    recovery_point_checkpoint_ms: int = 60_000
    log_start_offset_checkpoint_ms: int = 60_000
    high_watermark_checkpoint_ms: int = 5_000
    failure_check_ms: int = 1_000
    max_transaction_timeout_ms: int = 15 * 60 * 1000
    producer_state: ProducerStateManagerConfig = field(default_factory=ProducerStateManagerConfig)
    producer_id_expiration_check_ms: int = 10 * 60 * 1000
