"""Answer OffsetFetch: the offsets on disk, and those committed to this server over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import trio

from engine.errors import CorruptMessageError
from engine.replay.groups.group import CommittedOffset
from engine.units import NO_PARTITION_LEADER_EPOCH
from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.coordinator.commits.newest import NO_OFFSET, Commit, Place
from kafkafs.serve.coordinator.groups import Coordinator
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import CONSUMER, DiskGroups, sent

_IDS_SINCE = 10
_BATCHES_SINCE = 8
_NULL_TOPICS_SINCE = 2
_NO_EPOCH = -1

Waiting = Collection[Place]
"""Partitions with an offset in an open transaction."""
Offsets = Mapping[Place, "CommittedOffset | Commit"]


class GroupOffsets:
    """Answers for all groups.

    Args:
        cluster: the source.
        coordinator: the groups of this server.
        disk: the groups on disk.
        limiter: limits the threads that read.
    """

    def __init__(
        self,
        cluster: ClusterView,
        coordinator: Coordinator,
        disk: DiskGroups,
        limiter: trio.CapacityLimiter,
    ) -> None:
        self._cluster = cluster
        self._coordinator = coordinator
        self._disk = disk
        self._limiter = limiter

    async def fetch(self, asked: Asked) -> Fields:
        """Answer OffsetFetch: the committed offsets of groups."""
        fields = asked.fields
        if asked.version < _NULL_TOPICS_SINCE and fields["topics"] is None:
            raise CorruptMessageError("an OffsetFetch request has no topics")
        many = asked.version >= _BATCHES_SINCE
        answers = []
        for wanted in fields["groups"] if many else [fields]:
            name = wanted["groupId"]
            error = self._coordinator.why_no_fetch(
                name, wanted.get("memberId"), wanted.get("memberEpoch", _NO_EPOCH)
            )
            topics: list[Fields] = []
            if not error:
                newer = self._coordinator.commits.of(name)
                found = await trio.to_thread.run_sync(
                    self._fetched, wanted, newer, asked, limiter=self._limiter
                )
                if isinstance(found, ErrorCode):
                    error = found
                else:
                    topics = found
            answers.append({"groupId": name, "topics": topics, "errorCode": error})
        return {"groups": answers} if many else answers[0]

    def _fetched(
        self, of_group: Fields, newer: dict[Place, Commit], asked: Asked
    ) -> list[Fields] | ErrorCode:
        """Return the answers for the topics of a group, or an error; runs in a thread."""
        version, name, wanted = asked.version, of_group["groupId"], of_group["topics"]
        group = self._disk.find(name)
        if (
            of_group.get("memberId") is not None
            and group is not None
            and group.kind == CONSUMER
            and self._coordinator.table.get(name) is None
        ):
            return ErrorCode.UNKNOWN_MEMBER_ID
        waits: Waiting = set()
        if group is not None and asked.fields["requireStable"]:
            waits = {(each.topic, each.partition) for each in group.pending}
        committed: Offsets = newer if group is None else {**group.offsets, **newer}
        if wanted is None:
            numbers: dict[str, list[int]] = {}
            for topic, number in sorted(committed):
                numbers.setdefault(topic, []).append(number)
            return [self._topic(each, numbers[each], committed, waits, version) for each in numbers]
        found = []
        for each in wanted:
            topic_name = each["name"]
            if version >= _IDS_SINCE:
                served = self._cluster.topic_of_id(each["topicId"])
                if served is None:
                    error = ErrorCode.UNKNOWN_TOPIC_ID
                    unknown = [
                        _partition(number, None, error) for number in each["partitionIndexes"]
                    ]
                    found.append({"topicId": each["topicId"], "partitions": unknown})
                    continue
                topic_name = served.name
            found.append(
                self._topic(topic_name, each["partitionIndexes"], committed, waits, version)
            )
        return found

    def _topic(
        self,
        name: str,
        numbers: Iterable[int],
        committed: Offsets,
        waits: Waiting,
        version: int,
    ) -> Fields:
        answer: Fields = {
            "partitions": [
                _partition(number, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                if (name, number) in waits
                else _partition(number, committed.get((name, number)))
                for number in numbers
            ]
        }
        if version < _IDS_SINCE:
            return answer | {"name": name}
        topic = self._cluster.topics().get(name)
        return answer if topic is None else answer | {"topicId": self._cluster.topic_id(topic)}


def _partition(
    number: int, offset: CommittedOffset | Commit | None, error: ErrorCode = ErrorCode.NONE
) -> Fields:
    epoch = None if offset is None else offset.leader_epoch
    return {
        "partitionIndex": number,
        "committedOffset": NO_OFFSET if offset is None else offset.offset,
        "committedLeaderEpoch": NO_PARTITION_LEADER_EPOCH if epoch is None else epoch,
        "metadata": "" if offset is None else sent(offset.metadata),
        "errorCode": error,
    }
