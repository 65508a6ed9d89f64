"""Answer DescribeTopicPartitions: the partitions of topics in parts, each of which says where the next begins."""

from __future__ import annotations

from collections.abc import Iterable

from engine.topics.topic_names import INTERNAL_TOPICS
from kafkafs.serve.cluster_view import NO_TOPIC_ID, ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.metadata import READ_OPERATIONS, name_error, place_error
from kafkafs.serve.placement import ShownPlace, places
from kafkafs.serve.request import Fields, Request

MOST_PARTITIONS = 2000
"""Most partitions of an answer, as by the default of a broker."""


def describe_topic_partitions(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeTopicPartitions."""
    fields = request.fields
    cursor = fields["cursor"]
    first, first_partition = "", 0
    if cursor is not None:
        first, first_partition = cursor["topicName"], cursor["partitionIndex"]
    known = cluster.topics()
    wanted = {each["name"] for each in fields["topics"]}
    names = sorted(name for name in wanted or known if name >= first)
    if first_partition < 0 or (wanted and cursor is not None and first not in names):
        return _refused(each["name"] for each in fields["topics"])
    room = max(1, min(fields["responsePartitionLimit"], MOST_PARTITIONS))
    found: list[Fields] = []
    for name in names:
        if not room:
            return {"topics": found, "nextCursor": {"topicName": name, "partitionIndex": 0}}
        topic = known.get(name)
        if topic is None:
            found.append(_topic(name_error(name), name, is_internal=name in INTERNAL_TOPICS))
            continue
        start = first_partition if name == first else 0
        rest = [each for each in places(cluster, topic) if each.partition >= start]
        partitions = [_partition(place) for place in rest[:room]]
        error, topic_id = ErrorCode.NONE, cluster.topic_id(topic)
        found.append(
            _topic(error, name, topic_id, is_internal=topic.is_internal, partitions=partitions)
        )
        if len(rest) > room:
            cursor = {"topicName": name, "partitionIndex": rest[room].partition}
            return {"topics": found, "nextCursor": cursor}
        room -= len(rest)
    return {"topics": found, "nextCursor": None}


def _refused(names: Iterable[str]) -> Fields:
    return {"topics": [{"errorCode": ErrorCode.INVALID_REQUEST, "name": name} for name in names]}


def _topic(
    error: ErrorCode,
    name: str,
    topic_id: str = NO_TOPIC_ID,
    *,
    is_internal: bool = False,
    partitions: list[Fields] | None = None,
) -> Fields:
    return {
        "errorCode": error,
        "name": name,
        "topicId": topic_id,
        "isInternal": is_internal,
        "partitions": partitions or [],
        "topicAuthorizedOperations": READ_OPERATIONS,
    }


def _partition(place: ShownPlace) -> Fields:
    return {
        "errorCode": place_error(place),
        "partitionIndex": place.partition,
        "leaderId": place.leader,
        "leaderEpoch": place.epoch,
        "replicaNodes": place.replicas,
        "isrNodes": place.in_sync,
        "eligibleLeaderReplicas": place.eligible,
        "lastKnownElr": place.last_eligible,
        "offlineReplicas": place.offline,
    }
