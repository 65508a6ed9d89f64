"""Answers that describe the cluster and configurations: DescribeCluster, DescribeConfigs."""

from __future__ import annotations

from collections.abc import Mapping

from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.metadata import NO_OPERATIONS, READ_OPERATIONS
from kafkafs.serve.placement import shown_nodes

_BROKERS = 1
_TOPIC, _BROKER = 2, 4
"""Types of resources with configurations."""
_OF_TOPIC, _OF_BROKER, _OF_ALL_BROKERS = 1, 2, 3
"""Sources of a setting: set for the topic, the broker, all brokers."""


def describe_cluster(cluster: ClusterView, asked: Asked) -> Fields:
    """Answer DescribeCluster: the brokers."""
    fields = asked.fields
    if fields["endpointType"] != _BROKERS:
        return {
            "errorCode": ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "errorMessage": "this is a broker, not a controller",
            "clusterId": "",
        }
    is_asked = fields["includeClusterAuthorizedOperations"]
    return {
        "errorCode": ErrorCode.NONE,
        "endpointType": _BROKERS,
        "clusterId": cluster.cluster_id or "",
        "controllerId": cluster.node_id,
        "brokers": [
            {
                "brokerId": node.number,
                "host": asked.host,
                "port": asked.port,
                "rack": node.rack,
                "isFenced": node.is_fenced and fields["includeFencedBrokers"],
            }
            for node in shown_nodes(cluster)
        ],
        "clusterAuthorizedOperations": READ_OPERATIONS if is_asked else NO_OPERATIONS,
    }


def describe_configs(cluster: ClusterView, asked: Asked) -> Fields:
    """Answer DescribeConfigs: the settings that the cluster's metadata has, without defaults and secrets."""
    return {"results": [_settings(cluster, each) for each in asked.fields["resources"]]}


def _settings(cluster: ClusterView, wanted: Fields) -> Fields:
    kind, name = wanted["resourceType"], wanted["resourceName"]
    answer: Fields = {
        "errorCode": ErrorCode.NONE,
        "errorMessage": None,
        "resourceType": kind,
        "resourceName": name,
        "configs": [],
    }
    if kind == _TOPIC and name not in cluster.topics():
        return answer | {
            "errorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "errorMessage": f"the source has no topic {name}",
        }
    keys = wanted["configurationKeys"]
    for source, settings in _known_settings(cluster, kind, name):
        answer["configs"] += [
            {
                "name": key,
                "value": value,
                "readOnly": True,
                "configSource": source,
                "isSensitive": False,
                "synonyms": [],
                "documentation": None,
            }
            for key, value in sorted(settings.items())
            if not keys or key in keys
        ]
    return answer


def _known_settings(
    cluster: ClusterView, kind: int, name: str
) -> list[tuple[int, Mapping[str, str]]]:
    """Return sources and settings of a resource, as far as the cluster's metadata has them."""
    replay = cluster.logs.state.cluster
    if not replay.exists or kind not in (_TOPIC, _BROKER):
        return []
    table = replay.image().table("configs")
    resource = "topic" if kind == _TOPIC else "broker"
    wanted = [(_OF_TOPIC if kind == _TOPIC else _OF_BROKER, name)]
    if kind == _BROKER and name:
        wanted.append((_OF_ALL_BROKERS, ""))
    found = ((source, table.get((resource, each))) for source, each in wanted)
    return [(source, item.facts["configs"]) for source, item in found if item is not None]
