"""Answer OffsetFetch: the offsets on disk, and those committed to this server over them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from engine.errors import CorruptMessageError
from engine.replay.groups.group import CommittedOffset
from engine.units import NO_PARTITION_LEADER_EPOCH
from kafkafs.serve.cluster_view import NO_TOPIC_ID, ClusterView
from kafkafs.serve.coordinator.commits.newest import NO_OFFSET, Commit, Place
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import CONSUMER, sent
from kafkafs.serve.handlers.groups.served_groups import ServedGroups
from kafkafs.serve.request import Fields, Request

_IDS_SINCE = 10
_BATCHES_SINCE = 8
_NULL_TOPICS_SINCE = 2
_NO_EPOCH = -1


class _Committed(NamedTuple):
    """What is committed.

    Attributes:
        offsets: the offsets of a group.
        waits: partitions with an offset in an open transaction.
    """

    offsets: Mapping[Place, CommittedOffset | Commit]
    waits: Collection[Place]

    def topics(self) -> dict[str, list[int]]:
        """Return the partitions with offsets, by topic."""
        found: dict[str, list[int]] = {}
        for topic, number in sorted(self.offsets):
            found.setdefault(topic, []).append(number)
        return found

    def answers(self, topic: str, numbers: Iterable[int]) -> list[Fields]:
        """Return the answers for partitions of a topic."""
        return [
            _partition(number, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if (topic, number) in self.waits
            else _partition(number, self.offsets.get((topic, number)))
            for number in numbers
        ]


async def fetch(served: ServedGroups, request: Request) -> Fields:
    """Answer OffsetFetch: the committed offsets of groups."""
    fields = request.fields
    if request.version < _NULL_TOPICS_SINCE and fields["topics"] is None:
        raise CorruptMessageError("an OffsetFetch request has no topics")
    if request.version < _BATCHES_SINCE:
        return await _of_group(served, fields, request)
    return {"groups": [await _of_group(served, each, request) for each in fields["groups"]]}


async def _of_group(served: ServedGroups, wanted: Fields, request: Request) -> Fields:
    name = wanted["groupId"]
    member_id, epoch = wanted.get("memberId"), wanted.get("memberEpoch", _NO_EPOCH)
    answer: Fields = {"groupId": name, "topics": [], "errorCode": ErrorCode.NONE}
    error = served.coordinator.why_no_fetch(name, member_id, epoch)
    if error:
        return answer | {"errorCode": error}
    newer = served.coordinator.commits.of(name)
    group = await served.disk.find(name)
    is_live = served.coordinator.table.get(name) is not None
    if member_id is not None and group is not None and group.kind == CONSUMER and not is_live:
        return answer | {"errorCode": ErrorCode.UNKNOWN_MEMBER_ID}
    waits: set[Place] = set()
    if group is not None and request.fields["requireStable"]:
        waits = {(each.topic, each.partition) for each in group.pending}
    committed = _Committed(newer if group is None else {**group.offsets, **newer}, waits)
    topics = await served.topics.look_up(
        lambda cluster: _topics(cluster, wanted["topics"], request.version, committed)
    )
    return answer | {"topics": topics}


def _topics(
    cluster: ClusterView, wanted: list[Fields] | None, version: int, committed: _Committed
) -> list[Fields]:
    """Return the answers for topics of a group; None stands for all with offsets."""
    has_ids = version >= _IDS_SINCE
    found: list[Fields] = []
    if wanted is None:
        for name, numbers in committed.topics().items():
            topic = cluster.topics().get(name) if has_ids else None
            topic_id = NO_TOPIC_ID if topic is None else cluster.topic_id(topic)
            partitions = committed.answers(name, numbers)
            found.append({"name": name, "topicId": topic_id, "partitions": partitions})
        return found
    for each in wanted:
        numbers = each["partitionIndexes"]
        if not has_ids:
            partitions = committed.answers(each["name"], numbers)
            found.append({"name": each["name"], "partitions": partitions})
            continue
        topic = cluster.topic_of_id(each["topicId"])
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            partitions = [_partition(number, None, error) for number in numbers]
        else:
            partitions = committed.answers(topic.name, numbers)
        found.append({"topicId": each["topicId"], "partitions": partitions})
    return found


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
