"""Who was in sync when: the changes of partitions in the metadata log, and what they say of the records of a losing leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.log.view.log_view import LogView
from engine.replay.cluster import ClusterChange, cluster_changes
from engine.replay.partition_records import replayed_records
from engine.topics.topic_names import CLUSTER_METADATA

_NO_LEADER_CHANGE = -2
_NO_LEADER = -1


class IsrState(NamedTuple):
    """The leader of a partition, its epoch, and the replicas in sync."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


class Acknowledged(NamedTuple):
    """Whether records may have been acknowledged at acks=all, and why."""

    is_possible: bool
    reason: str

    def __str__(self) -> str:
        return f"{'possible' if self.is_possible else 'impossible'}: {self.reason}"


class IsrHistory:
    """The in-sync replicas of all partitions through time, by the longest metadata log of some sources.

    What a snapshot took the place of is not in it.
    """

    def __init__(self, sources: Sequence[LogSource]) -> None:
        self._states: dict[tuple[str, int], list[IsrState]] = {}
        view = _longest(sources)
        if view is None:
            return
        try:
            records = replayed_records(view, view.log_start_offset, view.log_end_offset)
            for change in cluster_changes(records, [], []):
                self._take(change)
        except (KafkaStorageError, OSError):
            return  # what was read counts

    def acknowledged(self, topic_id: str, number: int, epoch: int) -> Acknowledged:
        """Return whether records of a leader epoch that a later leader does not have may have been acknowledged.

        If the next leader was in sync, it had all that acks=all had acknowledged.
        """
        states = self._states.get((topic_id, number), [])
        last = [each for each in states if each.leader_epoch <= epoch]
        later = [each for each in states if each.leader_epoch > epoch]
        follower = next((each for each in later if each.leader != _NO_LEADER), None)
        if not last or follower is None:
            return Acknowledged(True, "no metadata states who was in sync then")
        before = later[: later.index(follower)]
        in_sync = (before or last)[-1].isr
        if follower.leader in in_sync:
            return Acknowledged(
                False,
                f"node {follower.leader}, the next leader, was in sync, and does not have them",
            )
        return Acknowledged(
            True, f"node {follower.leader}, the next leader, was not in sync: an unclean election"
        )

    def _take(self, change: ClusterChange) -> None:
        facts = change.facts
        if change.kind == "PARTITION_RECORD":
            state = IsrState(facts["leader"], facts["leaderEpoch"], tuple(facts["isr"]))
            self._states[facts["topicId"], facts["partitionId"]] = [state]
        elif change.kind == "PARTITION_CHANGE_RECORD":
            known = self._states.get((facts["topicId"], facts["partitionId"]))
            if known:
                known.append(_changed(known[-1], facts))


def _changed(state: IsrState, facts: dict[str, Any]) -> IsrState:
    if facts.get("isr") is not None:
        state = state._replace(isr=tuple(facts["isr"]))
    leader = facts.get("leader", _NO_LEADER_CHANGE)
    if leader == _NO_LEADER_CHANGE:
        return state
    return state._replace(leader=leader, leader_epoch=state.leader_epoch + 1)


def _longest(sources: Sequence[LogSource]) -> LogView | None:
    views = [
        view
        for source in sources
        for log in source.partitions().values()
        if log.topic_partition.topic == CLUSTER_METADATA
        and (view := log.view_or_none()) is not None
    ]
    return max(views, key=lambda view: view.log_end_offset, default=None)
