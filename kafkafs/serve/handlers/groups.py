"""Answers about groups from the records of their coordinators: ListGroups, DescribeGroups, OffsetFetch.

No member of a group on disk is connected to this server, so every group is shown without members.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.replay.groups.group import CommittedOffset, Group
from engine.replay.groups.known_groups import KnownGroups
from engine.units import NO_PARTITION_LEADER_EPOCH
from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.metadata import NO_OPERATIONS, READ_OPERATIONS

_NO_OFFSET = -1
_EMPTY, _DEAD = "Empty", "Dead"
_IDS_SINCE = 10
_BATCHES_SINCE = 8
_NOT_FOUND_SINCE = 6

CommittedOffsets = Mapping[tuple[str, int], CommittedOffset]


def list_groups(cluster: ClusterView, asked: Asked) -> Fields:
    """Answer ListGroups."""
    states = {each.lower() for each in asked.fields["statesFilter"]}
    types = {each.lower() for each in asked.fields["typesFilter"]}
    known = _known(cluster)
    found = [] if known is None else [known.group(name) for name in known.names]
    return {
        "errorCode": ErrorCode.NONE,
        "groups": [
            {
                "groupId": _sent(group.group_id),
                "protocolType": group.protocol_type,
                "groupState": _EMPTY,
                "groupType": group.kind,
            }
            for group in found
            if group is not None
            and (not states or _EMPTY.lower() in states)
            and (not types or group.kind.lower() in types)
        ],
    }


def describe_groups(cluster: ClusterView, asked: Asked) -> Fields:
    """Answer DescribeGroups."""
    is_asked = asked.fields["includeAuthorizedOperations"]
    operations = READ_OPERATIONS if is_asked else NO_OPERATIONS
    known = _known(cluster)
    return {
        "groups": [
            _described(known, name, asked.version, operations) for name in asked.fields["groups"]
        ]
    }


def _described(known: KnownGroups | None, name: str, version: int, operations: int) -> Fields:
    group = None if known is None else known.group(name)
    is_missing = group is None and version >= _NOT_FOUND_SINCE
    return {
        "errorCode": ErrorCode.GROUP_ID_NOT_FOUND if is_missing else ErrorCode.NONE,
        "errorMessage": f"Group {name} not found." if is_missing else None,
        "groupId": name,
        "groupState": _DEAD if group is None else _EMPTY,
        "protocolType": "" if group is None else group.protocol_type,
        "protocolData": "",
        "members": [],
        "authorizedOperations": operations,
    }


def offset_fetch(cluster: ClusterView, asked: Asked) -> Fields:
    """Answer OffsetFetch: the committed offsets of groups."""
    known = _known(cluster)
    fields = asked.fields
    if asked.version < _BATCHES_SINCE:
        group = None if known is None else known.group(fields["groupId"])
        topics = _topics(cluster, group, fields["topics"], asked.version)
        return {"topics": topics, "errorCode": ErrorCode.NONE}
    answers = []
    for wanted in fields["groups"]:
        group = None if known is None else known.group(wanted["groupId"])
        topics = _topics(cluster, group, wanted["topics"], asked.version)
        answers.append(
            {"groupId": wanted["groupId"], "topics": topics, "errorCode": ErrorCode.NONE}
        )
    return {"groups": answers}


def _topics(
    cluster: ClusterView, group: Group | None, wanted: list[Fields] | None, version: int
) -> list[Fields]:
    committed: CommittedOffsets = {} if group is None else group.offsets
    if wanted is None:
        numbers: dict[str, list[int]] = {}
        for topic, number in committed:
            numbers.setdefault(topic, []).append(number)
        return [_topic(cluster, name, numbers[name], committed, version) for name in numbers]
    found = []
    for each in wanted:
        if version < _IDS_SINCE:
            found.append(
                _topic(cluster, each["name"], each["partitionIndexes"], committed, version)
            )
            continue
        topic_id = each["topicId"]
        served = cluster.topic_of_id(topic_id)
        if served is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            partitions = [_partition(number, None, error) for number in each["partitionIndexes"]]
            found.append({"topicId": topic_id, "partitions": partitions})
        else:
            found.append(_topic(cluster, served.name, each["partitionIndexes"], committed, version))
    return found


def _topic(
    cluster: ClusterView,
    name: str,
    numbers: list[int],
    committed: CommittedOffsets,
    version: int,
) -> Fields:
    answer: Fields = {
        "partitions": [_partition(number, committed.get((name, number))) for number in numbers]
    }
    if version < _IDS_SINCE:
        return answer | {"name": name}
    topic = cluster.topics().get(name)
    return answer if topic is None else answer | {"topicId": cluster.topic_id(topic)}


def _partition(
    number: int, offset: CommittedOffset | None, error: ErrorCode = ErrorCode.NONE
) -> Fields:
    epoch = None if offset is None else offset.leader_epoch
    return {
        "partitionIndex": number,
        "committedOffset": _NO_OFFSET if offset is None else offset.offset,
        "committedLeaderEpoch": NO_PARTITION_LEADER_EPOCH if epoch is None else epoch,
        "metadata": "" if offset is None else _sent(offset.metadata),
        "errorCode": error,
    }


def _known(cluster: ClusterView) -> KnownGroups | None:
    state = cluster.logs.state
    return state.known_groups() if state.has_groups else None


def _sent(text: str) -> str:
    """Return a text that can be sent: bytes that were not UTF-8 on disk become question marks."""
    return text.encode("utf-8", "replace").decode()
