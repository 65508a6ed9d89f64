"""Answers about the cluster: Metadata, FindCoordinator."""

from __future__ import annotations

from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.cluster_view import NO_TOPIC_ID, ClusterView, ServedTopic
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.placement import NO_LEADER, ShownPlace, places, shown_nodes

NO_OPERATIONS = -(2**31)
"""The authorized operations of an answer that does not tell them."""
READ_OPERATIONS = 1 << 3 | 1 << 8 | 1 << 10
"""READ, DESCRIBE and DESCRIBE_CONFIGS, as bits by the codes of AclOperation."""


def metadata(cluster: ClusterView, asked: Asked) -> Fields:
    """Answer Metadata: the broker and topics with their partitions."""
    fields = asked.fields
    wanted = fields["topics"]
    is_all = wanted is None or (asked.version == 0 and not wanted)
    operations = READ_OPERATIONS if fields["includeTopicAuthorizedOperations"] else NO_OPERATIONS
    found = cluster.topics().values() if is_all else ()
    topics = [_topic(cluster, topic, operations) for topic in found]
    if not is_all:
        topics += (_wanted(cluster, each, operations) for each in wanted)
    of_cluster = READ_OPERATIONS if fields["includeClusterAuthorizedOperations"] else NO_OPERATIONS
    return {
        "brokers": brokers_of(cluster, asked),
        "clusterId": cluster.cluster_id,
        "controllerId": cluster.node_id,
        "topics": topics,
        "clusterAuthorizedOperations": of_cluster,
    }


def brokers_of(cluster: ClusterView, asked: Asked) -> list[Fields]:
    """Return the brokers, all with the address of this server."""
    return [
        {"nodeId": node.number, "host": asked.host, "port": asked.port, "rack": node.rack}
        for node in shown_nodes(cluster)
    ]


def _wanted(cluster: ClusterView, wanted: Fields, operations: int) -> Fields:
    name, topic_id = wanted["name"], wanted["topicId"]
    if name is not None:
        topic = cluster.topics().get(name)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        topic = cluster.topic_of_id(topic_id)
        error = ErrorCode.UNKNOWN_TOPIC_ID
    if topic is not None:
        return _topic(cluster, topic, operations)
    return {
        "errorCode": error,
        "name": name,
        "topicId": NO_TOPIC_ID if name is not None else topic_id,
        "isInternal": False,
        "partitions": [],
        "topicAuthorizedOperations": NO_OPERATIONS,
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


def find_coordinator(cluster: ClusterView, asked: Asked) -> Fields:
    """Answer FindCoordinator: this server, for every key."""
    here = {
        "errorCode": ErrorCode.NONE,
        "errorMessage": "NONE",
        "nodeId": cluster.node_id,
        "host": asked.host,
        "port": asked.port,
    }
    if asked.version < 4:
        return here
    keys = asked.fields["coordinatorKeys"]
    return {"coordinators": [{"key": key, **here, "errorMessage": ""} for key in keys]}
