"""Answer DescribeCluster."""

from __future__ import annotations

from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.metadata import NO_OPERATIONS, READ_OPERATIONS
from kafkafs.serve.placement import shown_nodes
from kafkafs.serve.request import Fields, Request

_BROKERS, _CONTROLLERS = 1, 2
"""Types of endpoints."""


def describe_cluster(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeCluster: the brokers."""
    fields = request.fields
    if fields["endpointType"] != _BROKERS:
        is_known = fields["endpointType"] == _CONTROLLERS
        return {
            "errorCode": (
                ErrorCode.MISMATCHED_ENDPOINT_TYPE
                if is_known
                else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            ),
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
                "host": request.host,
                "port": request.port,
                "rack": node.rack,
                "isFenced": node.is_fenced and fields["includeFencedBrokers"],
            }
            for node in shown_nodes(cluster)
        ],
        "clusterAuthorizedOperations": READ_OPERATIONS if is_asked else NO_OPERATIONS,
    }
