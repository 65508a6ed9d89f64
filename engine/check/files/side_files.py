"""List the checks of the files beside the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from engine.check.files.checkpoint_check import check_partition_checkpoints, check_quorum_state
from engine.check.files.epoch_check import check_leader_epochs
from engine.check.files.index_check import check_offset_index
from engine.check.files.kraft_snapshot_check import check_bootstrap_snapshot, check_kraft_snapshots
from engine.check.files.log_dir_files_check import check_log_dir_files
from engine.check.files.snapshot_check import check_producer_snapshots
from engine.check.files.time_index_check import check_time_index
from engine.check.files.topic_id_check import check_topic_ids
from engine.check.files.transaction_index_check import check_transaction_index
from engine.check.files.unfinished_check import check_unfinished
from engine.check.log_end_check import check_log_end
from engine.check.log_start_check import check_log_start
from engine.check.partition_under_check import PartitionCheck, SegmentCheck
from engine.check.rules.finding import Finding
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource

LogDirCheck: TypeAlias = Callable[[LogSource, SourceRoot], Iterator[Finding]]

SEGMENT_CHECKS: tuple[SegmentCheck, ...] = (check_offset_index, check_time_index)
PARTITION_CHECKS: tuple[PartitionCheck, ...] = (
    check_transaction_index,
    check_producer_snapshots,
    check_leader_epochs,
    check_log_start,
    check_log_end,
    check_partition_checkpoints,
    check_quorum_state,
    check_kraft_snapshots,
    check_unfinished,
)
LOG_DIR_CHECKS: tuple[LogDirCheck, ...] = (
    check_log_dir_files,
    check_topic_ids,
    check_bootstrap_snapshot,
)
