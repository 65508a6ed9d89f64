"""Answer OffsetCommit: keep the offsets in memory, and in the file of `--commit-to`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkafs.serve.cluster_view import ClusterView, ServedTopic
from kafkafs.serve.coordinator.commits.newest import Commit, Place
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.groups.disk_groups import is_joinable
from kafkafs.serve.handlers.groups.served_groups import ServedGroups
from kafkafs.serve.request import Fields, Request

_IDS_SINCE = 10
_UNKNOWN_GROUP_SINCE = 9


class _Offered(NamedTuple):
    """The commits to a topic of a request, of partitions that exist."""

    topic: Fields
    name: str
    partitions: list[Fields]


async def commit(served: ServedGroups, request: Request) -> Fields:
    """Answer OffsetCommit. As in brokers, what does not exist comes first, each topic once."""
    refused, offered = await served.topics.look_up(
        lambda cluster: _sorted(cluster, request.fields["topics"], request.version)
    )
    if not offered:
        return {"topics": refused}
    errors = await _kept(served, request, offered)
    answered = [
        _topic(each.topic)
        | {
            "partitions": [
                {"partitionIndex": one["partitionIndex"], "errorCode": next(errors)}
                for one in each.partitions
            ]
        }
        for each in offered
    ]
    return {"topics": _merged(refused, answered, request.version) if refused else answered}


def _sorted(
    cluster: ClusterView, topics: list[Fields], version: int
) -> tuple[list[Fields], list[_Offered]]:
    """Return the answers for what does not exist, and the commits to the rest."""
    refused: list[Fields] = []
    offered: list[_Offered] = []
    for topic in topics:
        found = _found(cluster, topic, version)
        if isinstance(found, ErrorCode):
            refused.append(_refused(topic, topic["partitions"], found))
            continue
        numbers = {*found.logs, *cluster.missing(found)}
        missing = [each for each in topic["partitions"] if each["partitionIndex"] not in numbers]
        known = [each for each in topic["partitions"] if each["partitionIndex"] in numbers]
        if missing:
            refused.append(_refused(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if known:
            offered.append(_Offered(topic, found.name, known))
    return _merged([], refused, version), offered


def _found(cluster: ClusterView, topic: Fields, version: int) -> ServedTopic | ErrorCode:
    if version >= _IDS_SINCE:
        return cluster.topic_of_id(topic["topicId"]) or ErrorCode.UNKNOWN_TOPIC_ID
    known = cluster.topics().get(topic["name"])
    return known or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _kept(
    served: ServedGroups, request: Request, offered: list[_Offered]
) -> Iterator[ErrorCode]:
    """Keep the commits that the group may make, and return the error of each."""
    most = served.coordinator.limits.commit_metadata
    commits = [
        (
            (topic.name, each["partitionIndex"]),
            Commit(
                each["committedOffset"],
                each["committedLeaderEpoch"],
                each["committedMetadata"] or "",
            ),
        )
        for topic in offered
        for each in topic.partitions
    ]
    found = {place: commit for place, commit in commits if len(commit.metadata) <= most}
    error = await _why_not(served, request, found)
    if found and not error:
        error = await served.coordinator.store.keep(request.fields["groupId"], found)
    too_large = error or ErrorCode.OFFSET_METADATA_TOO_LARGE
    return iter([error if len(commit.metadata) <= most else too_large for _, commit in commits])


async def _why_not(served: ServedGroups, request: Request, found: Iterable[Place]) -> ErrorCode:
    """Return why a request may not commit; NONE if it may."""
    fields = request.fields
    name, epoch = fields["groupId"], fields["generationIdOrMemberEpoch"]
    error = served.coordinator.why_no_commit(
        name, fields["memberId"], fields["groupInstanceId"], epoch, request.version, found
    )
    if error is not None:
        return error
    group = await served.disk.find(name)
    if group is not None and not is_joinable(group):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if epoch < 0:
        return ErrorCode.NONE
    if group is not None or served.coordinator.commits.has(name):
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_told = request.version >= _UNKNOWN_GROUP_SINCE
    return ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.ILLEGAL_GENERATION


def _topic(topic: Fields) -> Fields:
    return {"name": topic["name"], "topicId": topic["topicId"]}


def _refused(topic: Fields, partitions: list[Fields], error: ErrorCode) -> Fields:
    answers = [
        {"partitionIndex": each["partitionIndex"], "errorCode": error} for each in partitions
    ]
    return _topic(topic) | {"partitions": answers}


def _merged(first: list[Fields], then: list[Fields], version: int) -> list[Fields]:
    """Return answers with each topic once."""
    key = "topicId" if version >= _IDS_SINCE else "name"
    found: dict[str, Fields] = {}
    for each in (*first, *then):
        if each[key] in found:
            found[each[key]]["partitions"] += each["partitions"]
        else:
            found[each[key]] = each
    return list(found.values())
