"""What is proven of the offsets of a recovered log: committed, doubtful, not acknowledged at acks=all, lost.

Committed is what lies below the largest high watermark of any copy, below an offset that a group committed, or below the
end marker of a completed transaction: its coordinator writes that only after all markers are acknowledged. An acks=all
answer needs every member of the in-sync replicas: what lies above the smallest log end of the last ones was not
acknowledged, if their disks are all there, are not cut, and are of the cluster's last moment. All between is doubtful.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from engine.recover.coordinators.group_offsets import GroupOffset
from engine.recover.coordinators.transaction_states import TransactionalState
from engine.recover.partitions.survey import PartitionSurvey, SurveyedCopy
from engine.units import Offset, Timestamp, TopicPartition

MOST_METADATA_BEHIND = 3
"""Offsets that the metadata log of a node may be behind the newest one, when all stopped at one moment."""


class OffsetClass(Enum):
    """What is known of offsets."""

    COMMITTED = "committed"
    DOUBTFUL = "doubtful"
    NOT_ACKNOWLEDGED = "not acknowledged at acks=all"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ClassedRange:
    """A range of offsets, [first, next), its class and the evidence in words."""

    first: Offset
    next: Offset
    kind: OffsetClass
    evidence: str

    def to_json(self) -> dict[str, Any]:
        """Return the range for JSON."""
        return {
            "first": self.first,
            "next": self.next,
            "class": self.kind.value,
            "evidence": self.evidence,
        }


@dataclass(frozen=True)
class ClusterEvidence:
    """What other partitions and the metadata prove.

    Attributes:
        group_offsets: largest offset that a group committed, with the group, by partition.
        completed: newest completion of a transaction by producer and epoch of its markers.
        isr: old node ids of the last in-sync replicas, by partition.
        cut: why a node's disk lost unflushed records, by old node id.
        metadata_ends: end of the metadata log on each node.
        metadata_end: end of the newest metadata log; None without one.
        no_power_loss: whether the operator knows that no machine lost its power: the disks alone cannot tell.
    """

    group_offsets: Mapping[TopicPartition, tuple[Offset, str]]
    completed: Mapping[tuple[int, int], Timestamp]
    isr: Mapping[TopicPartition, Sequence[int]]
    cut: Mapping[int, str]
    metadata_ends: Mapping[int, Offset]
    metadata_end: Offset | None
    no_power_loss: bool = False


def cut_nodes(surveys: Iterable[PartitionSurvey], known: ClusterEvidence) -> dict[int, str]:
    """Return why the disk of a node lost records that were not flushed, by old node id.

    A power failure takes the tails of many files of a disk at once, and only some of them end below what is known of
    them: by the disk's own checkpoints, written each five seconds, or since it was in sync, by all that proves that
    records were committed. One such file is enough to trust none of the disk.
    """
    found: dict[int, str] = {}
    for survey in surveys:
        committed, _ = _committed(survey, known)
        best: dict[int, SurveyedCopy] = {}
        for copy in survey.copies:
            node = copy.node_id
            if node is not None and (node not in best or copy.end > best[node].end):
                best[node] = copy
        for node, copy in best.items():
            stated = max(copy.high_watermark or 0, copy.recovery_point or 0, copy.proven_end)
            if node in known.isr.get(survey.partition, ()):
                stated = max(stated, committed)
            if copy.end < stated:
                found.setdefault(
                    node,
                    f"node {node}, an in-sync replica, lost unflushed records: its"
                    f" {survey.partition} ends at {copy.end}, and had offsets up to {stated}",
                )
    return found


def largest_group_offsets(
    offsets: Iterable[GroupOffset],
) -> dict[TopicPartition, tuple[Offset, str]]:
    """Return the largest committed offset of each partition, with its group."""
    found: dict[TopicPartition, tuple[Offset, str]] = {}
    for each in offsets:
        known = found.get(each.partition)
        if known is None or each.offset > known[0]:
            found[each.partition] = each.offset, each.group
    return found


def completions(states: Iterable[TransactionalState]) -> dict[tuple[int, int], Timestamp]:
    """Return the newest time at which a transaction was complete, by producer and epoch of its markers."""
    found: dict[tuple[int, int], Timestamp] = {}
    for state in states:
        if state.status.commits is not None and not state.status.is_open:
            key = state.producer_id, state.marker_epoch
            found[key] = max(found.get(key, -1), state.updated)
    return found


def classes(survey: PartitionSurvey, known: ClusterEvidence) -> list[ClassedRange]:
    """Return the classes of all offsets of a log, in order, and those lost past its end."""
    start, end = survey.start, survey.end
    committed, why = _committed(survey, known)
    limit, why_not = _limit(survey, known)
    if committed > limit:
        # A copy of an in-sync replica that ends below what was committed is not of the last moment.
        limit, why_not = end, ""
    middle = min(max(committed, start), end)
    limit = min(max(limit, middle), end)
    gone = max([end, *(each.next_offset or 0 for each in survey.missing)])
    stop = end if survey.is_cut else committed
    ranges = [
        ClassedRange(start, middle, OffsetClass.COMMITTED, why),
        ClassedRange(middle, limit, OffsetClass.DOUBTFUL, why_not or "nothing proves more"),
        ClassedRange(limit, end, OffsetClass.NOT_ACKNOWLEDGED, why_not),
        *_lost(survey),
        ClassedRange(gone, stop, OffsetClass.LOST, f"no disk has them, and {why}"),
    ]
    return [each for each in ranges if each.first < each.next]


def _committed(survey: PartitionSurvey, known: ClusterEvidence) -> tuple[Offset, str]:
    found: list[tuple[Offset, str]] = [(survey.start, "the log start")]
    for copy in survey.copies:
        if copy.high_watermark is not None:
            place = copy.path if copy.node_id is None else f"node {copy.node_id}"
            found.append((copy.high_watermark, f"the high watermark of {place}"))
    if survey.partition in known.group_offsets:
        offset, group = known.group_offsets[survey.partition]
        found.append((offset, f"group {group} committed {offset}"))
    for marker in survey.markers:
        done = known.completed.get((marker.producer_id, marker.epoch))
        if done is not None and done >= marker.timestamp and not marker.is_aside:
            found.append(
                (
                    marker.offset + 1,
                    f"the marker of a completed transaction at offset {marker.offset}",
                )
            )
    return max(found, key=lambda each: each[0])


def _limit(survey: PartitionSurvey, known: ClusterEvidence) -> tuple[Offset, str]:
    """Return the offset above which nothing was acknowledged at acks=all, and why; the log end without proof."""
    isr = known.isr.get(survey.partition, ())
    if not isr:
        return survey.end, "the last in-sync replicas are not known"
    ends = []
    for node in isr:
        copies = [each for each in survey.copies if each.node_id == node]
        reason = _why_unsure(node, copies, known)
        if reason is not None:
            return survey.end, reason
        ends.append(max(each.end for each in copies))
    if not known.no_power_loss:
        return survey.end, "the machines may have lost power, and their disks the last records"
    nodes = ", ".join(map(str, isr))
    return min(ends), f"the smallest log end of the last in-sync replicas, nodes {nodes}"


def _why_unsure(node: int, copies: Sequence[SurveyedCopy], known: ClusterEvidence) -> str | None:
    if not copies:
        return f"the disk of node {node}, an in-sync replica, is not there"
    if node in known.cut:
        return known.cut[node]
    if known.metadata_end is None:
        return "no metadata log states the last moment"
    behind = known.metadata_end - known.metadata_ends.get(node, 0)
    if behind > MOST_METADATA_BEHIND:
        return f"the copy of node {node}, an in-sync replica, is older than the newest metadata"
    return None


def _lost(survey: PartitionSurvey) -> Iterator[ClassedRange]:
    for loss in survey.missing:
        if loss.first_offset is not None and loss.next_offset is not None:
            yield ClassedRange(loss.first_offset, loss.next_offset, OffsetClass.LOST, loss.reason)
