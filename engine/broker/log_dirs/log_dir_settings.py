"""How a broker keeps its log dirs, beyond what each topic's configuration says."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.units import MAX_INT64
from engine.writing.state.producer_state_manager import ProducerStateManagerConfig


@dataclass(frozen=True, slots=True)
class LogDirSettings:
    """A broker's defaults; times are milliseconds.

    Attributes:
        threads_per_log_dir: that load logs, and close them.
        initial_task_delay_ms: from the start to the first run of what is done again and again.
        retention_check_ms: from one look for old segments to the next.
        flush_check_ms: the same for logs to flush, by default never.
        recovery_point_checkpoint_ms, log_start_offset_checkpoint_ms, high_watermark_checkpoint_ms: from
            one writing of a checkpoint to the next.
        failure_check_ms: from one look for log dirs that failed to the next.
        max_transaction_timeout_ms: after which a transaction is late.
        producer_state: when producers expire.
        producer_id_expiration_check_ms: from one look for those to the next.
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
