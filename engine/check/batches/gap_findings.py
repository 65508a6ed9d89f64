"""Findings about missing offsets: losses one by one, normal gaps in one note per segment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from engine.check.batches.batch_order import Gaps
from engine.check.partition_under_check import PartitionUnderCheck, SegmentUnderCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.units import Offset
from engine.verdict.gap_causes.gap_evidence import compare_keys
from engine.verdict.gap_causes.gaps import Evidence, OffsetGap, Verdict, classify, without


def gap_findings(
    under: PartitionUnderCheck,
    gaps: Mapping[int, Gaps],
    late: list[tuple[Offset, Offset]],
    evidence: Evidence,
) -> Iterator[Finding]:
    """Yield findings for the gaps of each segment; `gaps` by the segment's index in the log."""
    compare_keys(under.view, (gap for found in gaps.values() for gap in found.kept), evidence)
    for place, found in gaps.items():
        segment = under.segments[place]
        normal: dict[Verdict, list[OffsetGap]] = defaultdict(list)
        left = without(found.kept, late) if late else found.kept
        for gap in left:
            verdict = classify(gap, evidence)
            if verdict.is_normal:
                normal[verdict].append(gap)
            else:
                yield _lost(segment, gap, verdict)
        more = found.count - len(found.kept)
        for verdict, same in normal.items():
            yield _summed(segment, verdict, same, found, more)
            more = 0
        if more > 0:
            yield _more(segment, found, more)


def _lost(segment: SegmentUnderCheck, gap: OffsetGap, verdict: Verdict) -> Finding:
    number = gap.next_offset - gap.first_offset
    what = f"offset {gap.first_offset} is" if number == 1 else f"{number} offsets are"
    sentence = f"{what} missing before byte {gap.position}"
    if number > 1:
        sentence = f"offsets {gap.first_offset} to {gap.next_offset - 1} ({number}) are missing before byte {gap.position}"
    where = segment.base_offset
    if gap.position == 0 and gap.first_offset < where:
        sentence += ", at the start of the segment: a segment, or the end of one, is missing"
    return segment.partition.found(
        verdict.rule,
        segment.name,
        f"{sentence}; {verdict.sentence}",
        position=gap.position,
        first_offset=gap.first_offset,
        next_offset=gap.next_offset,
        facts={"offsets": number, "certain": verdict.is_certain, "why": verdict.why},
    )


def _summed(
    segment: SegmentUnderCheck, verdict: Verdict, gaps: list[OffsetGap], found: Gaps, more: int
) -> Finding:
    """Return one finding for many gaps of one cause; gaps that were not kept are assumed to have the first cause."""
    number = len(gaps) + more
    offsets = sum(gap.next_offset - gap.first_offset for gap in gaps)
    last = gaps[-1].next_offset
    if more:
        kept = sum(gap.next_offset - gap.first_offset for gap in found.kept)
        offsets, last = offsets + found.offsets - kept, max(last, found.next_offset)
    plural = "" if number == 1 else "s"
    sentence = f"{offsets} offsets in {number} gap{plural} are missing; {verdict.why}"
    return segment.partition.found(
        verdict.rule,
        segment.name,
        sentence,
        position=gaps[0].position,
        first_offset=gaps[0].first_offset,
        next_offset=last,
        facts={
            "gaps": number,
            "offsets": offsets,
            "certain": verdict.is_certain,
            "why": verdict.why,
        },
    )


def _more(segment: SegmentUnderCheck, found: Gaps, more: int) -> Finding:
    sentence = f"{more} more gaps, not listed one by one"
    return segment.partition.found(
        "gap-unexplained",
        segment.name,
        sentence,
        position=found.kept[-1].position,
        first_offset=found.kept[-1].next_offset,
        next_offset=found.next_offset,
        severity=Severity.ERROR,
        facts={"gaps": more},
    )
