"""Findings about producers' sequence numbers and end markers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.check.batches.batch_order import Gaps
from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding
from engine.json_facts import facts_of
from engine.units import Offset
from engine.verdict.gap_causes.gaps import Evidence
from engine.verdict.gap_causes.producer_sequences import Producers, SequenceBreak, breaks_without


def producer_findings(
    under: PartitionUnderCheck,
    producers: Producers,
    evidence: Evidence,
    accounted: list[tuple[Offset, Offset]],
    gaps: Mapping[int, Gaps],
) -> Iterator[Finding]:
    """Yield findings for breaks without another explanation, and for markers without a transaction.

    Args:
        under: the partition.
        producers: result of the check of its batches.
        evidence: signs of compaction, which removes batches.
        accounted: offsets (first, next) that are findings already, as lost or out of place.
        gaps: gaps of each segment.
    """
    missing = [(gap[0], gap[1]) for found in gaps.values() for gap in found.kept]
    for each in breaks_without(producers.breaks, [*accounted, *missing]):
        if evidence.is_compacted and not each.is_epoch:
            continue
        yield _broken(under, each)
    if evidence.is_compacted:
        return
    for place, markers in producers.lone_markers.items():
        if any(first < markers.first_offset for first, _ in accounted):
            continue  # the transactions may have begun in the lost batches
        number = markers.number
        what = (
            "1 marker ends a transaction" if number == 1 else f"{number} markers end transactions"
        )
        yield under.found(
            "marker-without-transaction",
            under.segments[place].name,
            f"{what} that did not begin in this partition, the first at offset {markers.first_offset}",
            position=markers.position,
            first_offset=markers.first_offset,
            facts={"markers": number},
        )


def _broken(under: PartitionUnderCheck, each: SequenceBreak) -> Finding:
    kind = "epoch" if each.is_epoch else "sequence"
    sentence = (
        f"producer {each.producer_id} continues at offset {each.first_offset} with {kind} {each.found},"
        f" but after offset {each.after} it should be {'at least ' * each.is_epoch}{each.expected}"
    )
    return under.found(
        "producer-epoch" if each.is_epoch else "producer-sequence",
        under.segments[each.place].name,
        sentence,
        position=each.position,
        length=each.size,
        first_offset=each.first_offset,
        next_offset=each.next_offset,
        facts=facts_of(each, "producer_id producerEpoch=epoch expected found"),
    )
