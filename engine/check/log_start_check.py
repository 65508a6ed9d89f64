"""Check for missing first segments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
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
