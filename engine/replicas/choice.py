"""Which of several copies of a partition leads, and up to which offset each other copy agrees with it.

The best lineage has the largest epoch of the last batch, of these the largest log end: the copy that a clean
election would choose if all brokers were there. The rule is that of KIP-101: two copies agree up to the end of the
largest epoch that both know, in the copy where it ends first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import NO_PARTITION_LEADER_EPOCH, Offset


class Lineage(NamedTuple):
    """What decides whether a copy leads.

    Attributes:
        last_epoch: leader epoch of the last batch; -1 without one, and before magic 2.
        end: log end.
    """

    last_epoch: int
    end: Offset


class CopyFacts(NamedTuple):
    """What is known of a copy of a partition without reading its batches.

    Attributes:
        place: the log dir, for messages.
        node_id, cluster_id: of the log dir's meta.properties; None if unknown.
        topic_id: of partition.metadata; None if unknown.
        first: first offset of its files; the log end without a segment.
        lineage: epoch of its last batch, and its log end.
        epochs: its leader epochs.
        high_watermark: its checkpointed high watermark; None if unknown.
        deleted_to: its checkpointed log start, up to which DeleteRecords deleted; None if unknown.
    """

    place: str
    node_id: int | None
    cluster_id: str | None
    topic_id: str | None
    first: Offset
    lineage: Lineage
    epochs: LeaderEpochCache
    high_watermark: Offset | None
    deleted_to: Offset | None

    @property
    def end(self) -> Offset:
        """Log end."""
        return self.lineage.end

    @property
    def name(self) -> str:
        """The copy in words."""
        return self.place if self.node_id is None else f"node {self.node_id} ({self.place})"


class ReplicaChoice(NamedTuple):
    """The leading one of several copies, and what the others have.

    Attributes:
        leading: index of the leading copy.
        agreed: for each copy the offset up to which it agrees with the leading one; None for a stranger.
        strangers: reasons by index of the copies that are of another topic or cluster, and are never joined.
        start: the log start: the largest one up to which a copy says that records were deleted, else the
            smallest first offset.
        reason: why the leading copy leads, in one sentence.
    """

    leading: int
    agreed: tuple[Offset | None, ...]
    strangers: dict[int, str]
    start: Offset
    reason: str

    def tail(self, at: int, end: Offset) -> tuple[Offset, Offset] | None:
        """Return the offsets [first, end) of a copy that lost to those of the leading one; None without any.

        Args:
            at: index of the copy.
            end: its log end.
        """
        agreed = self.agreed[at]
        return None if agreed is None or agreed >= end else (agreed, end)


def leading(lineages: Sequence[Lineage]) -> int:
    """Return the index of the best lineage: largest last epoch, then largest end, then the first one.

    >>> leading([Lineage(3, 900), Lineage(4, 700), Lineage(4, 700)])
    1
    """
    return max(range(len(lineages)), key=lambda at: (*lineages[at], -at))


def choose(
    copies: Sequence[CopyFacts], *, topic_id: str | None = None, told: str = ""
) -> ReplicaChoice:
    """Choose the leading copy of a partition.

    Args:
        copies: the copies, at least one.
        topic_id: the id that the cluster's metadata has for the topic; None if unknown.
        told: leader and in-sync replicas of the metadata in words. They are told and not obeyed: a broker
            that led may have lost the end of its log.
    """
    strangers = _strangers(copies, topic_id)
    ours = [at for at in range(len(copies)) if at not in strangers]
    best = ours[leading([copies[at].lineage for at in ours])]
    agreed = tuple(
        None if at in strangers else agreement(copies[best], copy) for at, copy in enumerate(copies)
    )
    deleted = [copies[at].deleted_to for at in ours]
    start = max((each for each in deleted if each is not None), default=0)
    first = min(
        (copies[at].first for at in ours if copies[at].first < (agreed[at] or 0)),
        default=copies[best].first,
    )
    reason = _reason(copies, ours, best) + (f"; {told}" if told else "")
    return ReplicaChoice(best, agreed, strangers, max(start, first), reason)


def agreement(leader: CopyFacts, copy: CopyFacts) -> Offset:
    """Return the offset up to which a copy agrees with the leading one, and would keep its log as its follower."""
    end = min(leader.end, copy.end)
    epoch = copy.lineage.last_epoch
    if epoch == NO_PARTITION_LEADER_EPOCH or leader.epochs.latest is None:
        return end
    if epoch > leader.epochs.latest.epoch:
        epoch = leader.epochs.latest.epoch
    found = leader.epochs.end_offset_for(epoch, leader.end)
    if found is None:
        return end
    common, end_there = found
    here = copy.epochs.end_offset_for(common, copy.end)
    end_here = copy.end if common >= copy.lineage.last_epoch or here is None else here[1]
    return min(end, end_there, end_here)


def _strangers(copies: Sequence[CopyFacts], topic_id: str | None) -> dict[int, str]:
    found: dict[int, str] = {}
    cluster = _most(copies, [copy.cluster_id for copy in copies])
    for at, copy in enumerate(copies):
        if copy.cluster_id not in (None, cluster):
            found[at] = f"{copy.name} is of cluster {copy.cluster_id}, not of {cluster}"
    left = [at for at in range(len(copies)) if at not in found]
    ids = [copies[at].topic_id for at in left]
    right = topic_id if topic_id in ids else None
    right = right or _most([copies[at] for at in left], ids)
    for at in left:
        if copies[at].topic_id not in (None, right):
            stated = (
                f"the topic with the id {copies[at].topic_id}, which is another one than {right}"
            )
            found[at] = f"{copies[at].name} has {stated}"
    return found


def _most(copies: Sequence[CopyFacts], ids: Sequence[str | None]) -> str | None:
    """Return the id that most copies have, of several the one of the best lineage."""
    counts = Counter(each for each in ids if each is not None)
    if not counts:
        return None
    most = max(counts.values())
    ours = [at for at, each in enumerate(ids) if each is not None and counts[each] == most]
    return ids[ours[leading([copies[at].lineage for at in ours])]]


def _reason(copies: Sequence[CopyFacts], ours: Sequence[int], best: int) -> str:
    chosen = copies[best]
    others = [copies[at] for at in ours if at != best]
    epoch, end = chosen.lineage
    if not others:
        return f"{chosen.name} has the only copy of the topic"
    if all(other.lineage == chosen.lineage for other in others):
        return (
            f"{chosen.name} comes first of {len(ours)} copies with epoch {epoch} and log end {end}"
        )
    if all(other.lineage.last_epoch < epoch for other in others):
        newest = max(other.lineage.last_epoch for other in others)
        return f"{chosen.name} has the last batch of the newest epoch, {epoch}; the others have {newest}"
    longest = max(other.end for other in others if other.lineage.last_epoch == epoch)
    return (
        f"{chosen.name} has the largest log end of epoch {epoch}: {end}; the others have {longest}"
    )
