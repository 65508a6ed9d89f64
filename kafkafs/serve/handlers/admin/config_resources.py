"""Answer ListConfigResources: what has a configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from engine.replay.cluster_tables import RESOURCE_TYPES
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.placement import shown_nodes
from kafkafs.serve.request import Fields, Request

_TOPIC, _BROKER, _LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
_TYPES_SINCE = 1
_Names = Callable[[ClusterView], Iterable[str]]


def list_config_resources(cluster: ClusterView, request: Request) -> Fields:
    """Answer ListConfigResources; the first version lists subscriptions of client metrics only."""
    kinds = request.fields["resourceTypes"] if request.version >= _TYPES_SINCE else [_METRICS]
    if any(kind not in _NAMES for kind in kinds):
        return {"errorCode": ErrorCode.UNSUPPORTED_VERSION, "configResources": []}
    return {
        "errorCode": ErrorCode.NONE,
        "configResources": [
            {"resourceName": name, "resourceType": kind}
            for kind in dict.fromkeys(kinds or _NAMES)
            for name in _NAMES[kind](cluster)
        ],
    }


def _nodes(cluster: ClusterView) -> Iterable[str]:
    return (str(node.number) for node in shown_nodes(cluster))


def _configured(kind: int) -> _Names:
    """Return what lists the resources of a type that have settings in the cluster's metadata."""

    def names(cluster: ClusterView) -> Iterable[str]:
        image = cluster.image()
        configs = {} if image is None else image.table("configs")
        return sorted(name for known, name in configs if known == RESOURCE_TYPES[kind])

    return names


_NAMES: Mapping[int, _Names] = {
    _TOPIC: ClusterView.topics,
    _BROKER: _nodes,
    _LOGGER: _nodes,
    _METRICS: _configured(_METRICS),
    _GROUP: _configured(_GROUP),
}
