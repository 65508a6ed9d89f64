"""How far the metadata log is committed: what a majority of the voters has on its disks.

No disk states the high watermark of the metadata log. Controllers sync each record before they answer for it, and
brokers act on committed records only. So a record on the disks of a majority of the voters is committed. One that a
majority cannot have had is not, if all copies are of one moment: a leader that no majority follows gives up after some
seconds (1.5 × controller.quorum.fetch.timeout.ms, since Kafka 3.7). All between is doubtful.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from engine.replay.cluster import ClusterChange
from engine.units import Offset

_MOST_UNCOMMITTED_MS = 10_000
"""Longest time of records without a majority; copies that are further apart are of different moments."""


class CopyEnd(NamedTuple):
    """A copy of the metadata log.

    Attributes:
        node_id: its node; None if unknown.
        agreed: offset up to which it agrees with the newest copy.
        is_whole: whether it has all that was written to it, as far as its files show.
    """

    node_id: int | None
    agreed: Offset
    is_whole: bool


class QuorumEnds(NamedTuple):
    """Ends of the metadata log.

    Attributes:
        committed: what lies below is committed.
        kept: what lies below may be committed, and counts; what lies above was not.
        voters: number of voters; 0 if they are not known.
        missing: number of voters of which no whole copy is there.
    """

    committed: Offset
    kept: Offset
    voters: int = 0
    missing: int = 0

    def at_least(self, proven: Offset) -> QuorumEnds:
        """Return the ends when what lies below an offset is committed by other evidence."""
        return self._replace(committed=max(self.committed, proven), kept=max(self.kept, proven))


def quorum_ends(
    copies: Sequence[CopyEnd], voters: Collection[int], end: Offset, proven: Offset
) -> QuorumEnds:
    """Return how far the metadata log is committed.

    Args:
        copies: all copies.
        voters: node ids of the controllers; empty if they are not known.
        end: end of the newest copy.
        proven: what lies below is committed by other evidence, such as a snapshot.
    """
    best: dict[int | None, Offset] = {}
    whole: set[int | None] = set()
    for each in copies:
        best[each.node_id] = max(best.get(each.node_id, 0), each.agreed)
        if each.is_whole:
            whole.add(each.node_id)
    if not voters:
        return QuorumEnds(max(_held_by(len(best) // 2 + 1, best.values()), proven), end)
    majority = len(voters) // 2 + 1
    missing = sum(each not in whole for each in voters)
    ends = [best[each] for each in voters if each in best]
    committed = max(_held_by(majority, ends), proven)
    if missing >= majority:  # no majority can be asked: that of all nodes counts
        committed = max(_held_by(len(best) // 2 + 1, best.values()), committed)
    needed = majority - missing
    whole_ends = [best[each] for each in voters if each in whole]
    kept = end if needed <= 0 else _held_by(needed, whole_ends)
    return QuorumEnds(committed, max(kept, committed), len(voters), missing)


def _held_by(count: int, ends: Collection[Offset]) -> Offset:
    """Return the largest offset up to which at least `count` copies go; 0 without so many."""
    return sorted(ends, reverse=True)[count - 1] if 0 < count <= len(ends) else 0


def acted_on(changes: Sequence[ClusterChange], live: Collection[str]) -> Offset:
    """Return the offset behind the newest change that a broker has carried out: a folder of the topic is there."""
    made = (
        change.offset + 1
        for change in changes
        if change.kind == "TOPIC_RECORD" and change.facts["topicId"] in live
    )
    return max(made, default=0)


def counting(
    changes: Sequence[ClusterChange],
    ends: QuorumEnds,
    live: Collection[str],
    names: Mapping[str, str],
) -> tuple[list[ClusterChange], list[str]]:
    """Return the changes that count, and sentences about the others.

    Of what is doubtful all counts but the deletion of a topic whose folders are there: no record goes on doubt.

    Args:
        changes: all changes of the newest copy.
        ends: how far they are committed.
        live: ids of topics that have a folder.
        names: names of topics by id.
    """
    tail = [change for change in changes if change.offset >= ends.kept]
    stamps = [change.timestamp for change in tail]
    sentences = []
    kept = list(changes)
    if _says_something(tail) and max(stamps) - min(stamps) <= _MOST_UNCOMMITTED_MS:
        kept = kept[: -len(tail)]
        sentences.append(
            f"the last {_records(tail)} of the metadata log, from offset {tail[0].offset} on, are"
            f" left out: only a minority of the {ends.voters} voters has them, so that they were"
            " not committed"
        )
    doubtful = [change for change in kept if change.offset >= ends.committed]
    if _says_something(doubtful):
        of = f"of the {ends.voters} voters" if ends.voters else "of the copies"
        sentences.append(
            f"whether the last {_records(doubtful)} of the metadata log, from offset"
            f" {doubtful[0].offset} on, were committed: no majority {of} shows them; they count"
        )
    for change in doubtful:
        if change.kind == "REMOVE_TOPIC_RECORD" and change.facts["topicId"] in live:
            kept.remove(change)
            name = names.get(change.facts["topicId"], change.facts["topicId"])
            sentences.append(f"whether {name} was deleted: its folders are there, and it stays")
    return kept, sentences


def _says_something(changes: Sequence[ClusterChange]) -> bool:
    """Return whether any change is more than a sign of life."""
    return any(change.kind != "NO_OP_RECORD" for change in changes)


def _records(changes: Sequence[ClusterChange]) -> str:
    return f"{len(changes)} record{'s' * (len(changes) != 1)}"
