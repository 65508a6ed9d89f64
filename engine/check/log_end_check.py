"""Check for missing last records: compare the end of the records files with the files beside them."""

from __future__ import annotations

from collections.abc import Iterator

from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding
from engine.log.view.proven_end import lost_end


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
