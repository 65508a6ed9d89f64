"""Answers about share and streams groups: ShareGroupDescribe, StreamsGroupDescribe, DescribeShareGroupOffsets.

No member of these groups is connected to this server, so they are shown without members.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from engine.replay.groups.group import Group
from engine.replay.groups.known_groups import SHARE, KnownGroups
from engine.replay.groups.share_rows import SharePlace, ShareRow
from kafkafs.serve.cluster_view import NO_TOPIC_ID, ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.metadata import NO_OPERATIONS, READ_OPERATIONS
from kafkafs.serve.request import Fields, Request

_STREAMS = "streams"
_EMPTY = "Empty"
_NONE = -1
_ASSIGNOR = "simple"
"""The assignor of share groups: brokers have no other."""


def describe_share_groups(cluster: ClusterView, request: Request) -> Fields:
    """Answer ShareGroupDescribe."""
    return _described(cluster, request, SHARE, lambda _: {"assignorName": _ASSIGNOR})


def describe_streams_groups(cluster: ClusterView, request: Request) -> Fields:
    """Answer StreamsGroupDescribe."""
    return _described(
        cluster, request, _STREAMS, lambda group: {"topology": group.details.get("topology")}
    )


def _described(
    cluster: ClusterView, request: Request, kind: str, details: Callable[[Group], Fields]
) -> Fields:
    is_asked = request.fields["includeAuthorizedOperations"]
    operations = READ_OPERATIONS if is_asked else NO_OPERATIONS
    known = _known(cluster)
    groups = []
    for name in request.fields["groupIds"]:
        if not name:
            groups.append({"errorCode": ErrorCode.INVALID_GROUP_ID, "groupId": name})
            continue
        group = None if known is None else known.group(name)
        if group is None or group.kind != kind:
            groups.append(_missing(name, kind, group))
            continue
        groups.append(
            {
                "errorCode": ErrorCode.NONE,
                "groupId": name,
                "groupState": _EMPTY,
                "groupEpoch": group.epoch or 0,
                "assignmentEpoch": group.details.get("assignmentEpoch") or 0,
                "authorizedOperations": operations,
                **details(group),
            }
        )
    return {"groups": groups}


def _missing(name: str, kind: str, group: Group | None) -> Fields:
    why = "not found" if group is None else f"is not a {kind} group"
    return {
        "errorCode": ErrorCode.GROUP_ID_NOT_FOUND,
        "errorMessage": f"Group {name} {why}.",
        "groupId": name,
    }


def describe_share_offsets(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeShareGroupOffsets: start offsets and lag of share groups."""
    known = _known(cluster)
    return {"groups": [_offsets(cluster, known, each) for each in request.fields["groups"]]}


def _offsets(cluster: ClusterView, known: KnownGroups | None, wanted: Fields) -> Fields:
    name = wanted["groupId"]
    group = None if known is None else known.group(name)
    if known is None or group is None or group.kind != SHARE:
        return _missing(name, SHARE, group) | {"topics": []}
    rows = cluster.logs.state.share_rows(group, known)
    if wanted["topics"] is None:
        found = [row for row in rows if row.is_initialized]
    else:
        ids = {place.topic: place.topic_id for place in rows.places}
        found = [
            rows.row(SharePlace(topic["topicName"], number, _id_of(cluster, topic, ids)))
            for topic in wanted["topics"]
            for number in topic["partitions"]
        ]
    topics = groupby(found, lambda row: (row.place.topic, row.place.topic_id))
    return {
        "groupId": name,
        "errorCode": ErrorCode.NONE,
        "topics": [
            {"topicName": topic, "topicId": topic_id, "partitions": [*map(_partition, of_topic)]}
            for (topic, topic_id), of_topic in topics
        ],
    }


def _id_of(cluster: ClusterView, topic: Fields, ids: dict[str, str]) -> str:
    """Return the id of a topic that is asked for: that of the group's, else that of the source's."""
    name = topic["topicName"]
    served = cluster.topics().get(name)
    return ids.get(name) or (NO_TOPIC_ID if served is None else cluster.topic_id(served))


def _partition(row: ShareRow) -> Fields:
    state = row.state
    start = None if state is None else state.start_offset
    epoch = None if state is None else state.leader_epoch
    return {
        "partitionIndex": row.place.partition,
        "startOffset": _NONE if start is None else start,
        "leaderEpoch": 0 if epoch is None else epoch,
        "lag": _NONE if row.lag is None else row.lag,
        "errorCode": ErrorCode.NONE,
    }


def _known(cluster: ClusterView) -> KnownGroups | None:
    state = cluster.logs.state
    return state.known_groups() if state.has_groups else None
