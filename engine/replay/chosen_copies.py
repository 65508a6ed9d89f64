"""Which of several copies a partition is read from, why, and whom the cluster's metadata has as leader and in sync."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from engine.errors import KafkaStorageError
from engine.log.joined_logs import JoinedLog
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.replay.cluster import ClusterReplay
from engine.units import TopicPartition


def chosen_copies(source: LogSource) -> Callable[[PartitionLog], dict[str, Any]]:
    """Return a function that returns `{"replica": {"node", "reason", "leader", "inSync"}}` of a partition, for JSON.

    It returns {} for a partition of one node, and raises OSError if no copy can be read. Leader and in-sync replicas
    are None without metadata. They are told, and not obeyed: a broker that led may have lost the end of its log.
    """
    return partial(_chosen_copy, ClusterReplay(source))


def _chosen_copy(cluster: ClusterReplay, log: PartitionLog) -> dict[str, Any]:
    if not isinstance(log, JoinedLog):
        return {}
    found = log.described()
    reason = found["reason"] + told_of(log.topic_partition, cluster)
    facts = metadata_of(log.topic_partition, cluster)
    return {"replica": {"node": found["chosen"], "reason": reason, **facts}}


def told_of(place: TopicPartition, cluster: ClusterReplay) -> str:
    """Return the words of the metadata about a partition, to be put behind a reason; "" where it has none."""
    facts = metadata_of(place, cluster)
    if facts["leader"] is None:
        return ""
    in_sync = ", ".join(map(str, facts["inSync"])) or "nobody"
    leader = "no leader" if facts["leader"] < 0 else f"node {facts['leader']} as leader"
    return f"; the metadata has {leader}, and in sync {in_sync}"


def metadata_of(place: TopicPartition, cluster: ClusterReplay) -> dict[str, Any]:
    """Return leader and in-sync replicas of a partition, None where the metadata does not have it."""
    with suppress(KafkaStorageError, OSError):
        image = cluster.image()
        item = image.topics.get(place.topic)
        rows = {} if item is None else image.partitions_of(item.facts["topicId"])
        if place.partition in rows:
            facts = rows[place.partition].facts
            return {"leader": facts["leader"], "inSync": facts["isr"]}
    return {"leader": None, "inSync": None}
