"""Answers about the cluster: Metadata, FindCoordinator."""

from __future__ import annotations

import re

from engine.errors import CorruptMessageError, InvalidNameError
from engine.files.file_names import validate_topic
from engine.topics.topic_names import INTERNAL_TOPICS
from kafkafs.serve.cluster_view import NO_TOPIC_ID, ClusterView, ServedTopic
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.placement import NO_LEADER, ShownPlace, places, shown_nodes
from kafkafs.serve.request import Fields, Request

NO_OPERATIONS = -(2**31)
"""The authorized operations of an answer that does not tell them."""
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
"""Types of coordinators."""
_SHARE_KEY = re.compile(r"[^:]+:[\w-]{22}:\d+", re.ASCII)
"""Group, topic id and partition."""
_NO_COORDINATOR = "the key or its type is not one of a coordinator"
_KEYS_SINCE, _SHARES_SINCE = 4, 6
"""Versions of FindCoordinator requests."""
_NULL_NAMES_SINCE, _IDS_SINCE = 10, 12
"""Versions of Metadata requests."""
READ_OPERATIONS = 1 << 3 | 1 << 8 | 1 << 10
"""READ, DESCRIBE and DESCRIBE_CONFIGS, as bits by the codes of AclOperation."""


def metadata(cluster: ClusterView, request: Request) -> Fields:
    """Answer Metadata: the broker and topics with their partitions.

    Raises:
        CorruptMessageError: a name or the topics are null, which the version has not.
    """
    fields = request.fields
    wanted = fields["topics"]
    if request.version < _NULL_NAMES_SINCE and any(each["name"] is None for each in wanted or ()):
        raise CorruptMessageError("a topic of a Metadata request has no name")
    if wanted is None and not request.version:
        raise CorruptMessageError("a Metadata request has no topics")
    if request.version < _IDS_SINCE and any(_is_by_id(each) for each in wanted or ()):
        return _refused(wanted)
    is_all = wanted is None or (request.version == 0 and not wanted)
    operations = READ_OPERATIONS if fields["includeTopicAuthorizedOperations"] else NO_OPERATIONS
    if is_all:
        topics = [_topic(cluster, topic, operations) for topic in cluster.topics().values()]
    else:
        topics = _wanted(cluster, wanted, operations)
    of_cluster = READ_OPERATIONS if fields["includeClusterAuthorizedOperations"] else NO_OPERATIONS
    return {
        "brokers": brokers_of(cluster, request),
        "clusterId": cluster.cluster_id,
        "controllerId": cluster.node_id,
        "topics": topics,
        "clusterAuthorizedOperations": of_cluster,
    }


def brokers_of(cluster: ClusterView, request: Request) -> list[Fields]:
    """Return the brokers, all with the address of this server."""
    return [
        {"nodeId": node.number, "host": request.host, "port": request.port, "rack": node.rack}
        for node in shown_nodes(cluster)
    ]


def _is_by_id(wanted: Fields) -> bool:
    return wanted["name"] is None or bool(wanted["topicId"] != NO_TOPIC_ID)


def _refused(wanted: list[Fields]) -> Fields:
    """Return the answer to a request with ids in a version that has none."""
    return {
        "topics": [
            {
                "errorCode": ErrorCode.INVALID_REQUEST,
                "name": each["name"] or "",
                "topicId": each["topicId"],
            }
            for each in wanted
        ]
    }


def _wanted(cluster: ClusterView, wanted: list[Fields], operations: int) -> list[Fields]:
    """Return each topic once: those with the ids, if the request has any, else those with the names."""
    ids = {each["topicId"]: None for each in wanted if each["topicId"] != NO_TOPIC_ID}
    if ids:
        by_id = {each: cluster.topic_of_id(each) for each in ids}
        return [
            _unknown(ErrorCode.UNKNOWN_TOPIC_ID, None, each, NO_OPERATIONS)
            if topic is None
            else _topic(cluster, topic, operations)
            for each, topic in by_id.items()
        ]
    topics = cluster.topics()
    return [
        _topic(cluster, topics[name], operations)
        if name in topics
        else _unknown(name_error(name), name, NO_TOPIC_ID, operations)
        for name in {each["name"]: None for each in wanted}
    ]


def name_error(name: str) -> ErrorCode:
    """Return the error for the name of a topic that is not here."""
    try:
        validate_topic(name)
    except InvalidNameError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _unknown(error: ErrorCode, name: str | None, topic_id: str, operations: int) -> Fields:
    return {
        "errorCode": error,
        "name": name,
        "topicId": topic_id,
        "isInternal": name in INTERNAL_TOPICS,
        "topicAuthorizedOperations": operations,
    }


def _topic(cluster: ClusterView, topic: ServedTopic, operations: int) -> Fields:
    return {
        "errorCode": ErrorCode.NONE,
        "name": topic.name,
        "topicId": cluster.topic_id(topic),
        "isInternal": topic.is_internal,
        "partitions": partitions_of(cluster, topic),
        "topicAuthorizedOperations": operations,
    }


def partitions_of(cluster: ClusterView, topic: ServedTopic) -> list[Fields]:
    """Return the partitions of a topic: led by this server, or by nobody if the source lacks them."""
    return [
        {
            "errorCode": place_error(place),
            "partitionIndex": place.partition,
            "leaderId": place.leader,
            "leaderEpoch": place.epoch,
            "replicaNodes": place.replicas,
            "isrNodes": place.in_sync,
            "offlineReplicas": place.offline,
        }
        for place in places(cluster, topic)
    ]


def place_error(place: ShownPlace) -> ErrorCode:
    """Return the error of a partition: that the source lacks its log, or none.

    With an error that can pass, as LEADER_NOT_AVAILABLE can, admin clients ask for 60 s on end.
    """
    return ErrorCode.RESOURCE_NOT_FOUND if place.leader == NO_LEADER else ErrorCode.NONE


def find_coordinator(cluster: ClusterView, request: Request) -> Fields:
    """Answer FindCoordinator: this server, for every group and transaction."""
    fields = request.fields
    kind = fields["keyType"]
    keys = fields["coordinatorKeys"] if request.version >= _KEYS_SINCE else [fields["key"]]
    found = [_coordinator(cluster, request, kind, key) for key in keys]
    return {"coordinators": found} if request.version >= _KEYS_SINCE else found[0]


def _coordinator(cluster: ClusterView, request: Request, kind: int, key: str) -> Fields:
    is_share = kind == _SHARE and request.version >= _SHARES_SINCE and _SHARE_KEY.fullmatch(key)
    if kind not in (_GROUP, _TRANSACTION) and not is_share:
        is_bad_key = kind == _SHARE and request.version >= _KEYS_SINCE
        return {
            "key": key,
            "errorCode": ErrorCode.INVALID_REQUEST,
            "errorMessage": "" if is_bad_key else _NO_COORDINATOR,
            "nodeId": NO_LEADER,
            "host": "",
            "port": -1,
        }
    return {
        "key": key,
        "errorCode": ErrorCode.NONE,
        "errorMessage": "" if request.version >= _KEYS_SINCE else "NONE",
        "nodeId": cluster.node_id,
        "host": request.host,
        "port": request.port,
    }
