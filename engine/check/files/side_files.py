"""List the checks of the files beside the log; check where the log starts and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

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
from engine.check.partition_under_check import PartitionCheck, PartitionUnderCheck, SegmentCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.log.view.proven_end import lost_end
from engine.verdict.log_start import Certainty, lost_start

_SEVERITIES = {
    Certainty.CERTAIN: Severity.ERROR,
    Certainty.LIKELY: Severity.WARNING,
    Certainty.TIERED: Severity.NOTE,
}


def check_log_start(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield a finding about offsets below the first records file that no file shows as deleted."""
    lost = lost_start(partition.view, may_be_tiered=partition.may_be_tiered)
    if lost is None:
        return
    facts: dict[str, Any] = {}
    if lost.claims:
        facts["claims"] = {claim.file: claim.offset for claim in lost.claims}
    yield partition.found(
        "log-start-short",
        lost.file,
        lost.sentence,
        first_offset=lost.first,
        next_offset=lost.next,
        severity=_SEVERITIES[lost.certainty],
        expected=lost.expected,
        found=lost.first if not lost.claims else lost.next,
        **facts,
    )


def check_log_end(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield a finding about offsets at the end of the log that had records once but are in no records file."""
    view = partition.newest_view() if partition.is_live else partition.view
    lost = lost_end(view)
    if lost is None:
        return
    yield partition.found(
        "log-end-short",
        lost.file,
        lost.sentence,
        first_offset=lost.first,
        next_offset=lost.end.offset,
        expected=lost.end.offset,
        found=view.log_end_offset,
        proofs={proof.file: proof.offset for proof in lost.end.proofs},
    )


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
