"""The features of the cluster, as ApiVersions tells them."""

from __future__ import annotations

import logging

from engine.errors import KafkaStorageError
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.request import Fields

logger = logging.getLogger(__name__)

_ZERO_SINCE = 4
"""First version in which clients take supported features with the level 0."""


def features(cluster: ClusterView, version: int) -> Fields:
    """Return the fields of an answer to ApiVersions about features; none without the cluster's metadata."""
    try:
        image = cluster.image()
    except (KafkaStorageError, OSError) as error:
        logger.warning("the features of the cluster are not known: %s", error)
        return {}
    if image is None:
        return {}
    broker = image.table("brokers").get(cluster.node_id)
    supported = [] if broker is None else broker.facts["features"]
    return {
        "supportedFeatures": [
            {
                "name": each["name"],
                "minVersion": each["minSupportedVersion"],
                "maxVersion": each["maxSupportedVersion"],
            }
            for each in supported
            if each["minSupportedVersion"] or version >= _ZERO_SINCE
        ],
        "finalizedFeaturesEpoch": image.next_offset - 1,
        "finalizedFeatures": [
            {
                "name": name,
                "maxVersionLevel": item.facts["level"],
                "minVersionLevel": item.facts["level"],
            }
            for name, item in sorted(image.table("features").items())
            if item.facts["level"]
        ],
    }
