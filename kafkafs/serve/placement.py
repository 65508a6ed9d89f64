"""The nodes that clients are told of, and which of them have the replicas of a partition.

By default there is one broker, which leads all partitions of the source. With the nodes of the cluster's metadata,
replicas are where it says; of log dirs of several nodes without it, where these are. Every node has the address of this server, so each one serves what the source has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from engine.log.joined_logs import JoinedLog
from engine.log.partition_log import PartitionLog
from engine.replay.cluster_tables import Item
from engine.units import NO_PARTITION_LEADER_EPOCH
from kafkafs.serve.cluster_view import ClusterView, ServedTopic

NO_LEADER = -1


class ShownNode(NamedTuple):
    """A broker, as clients are told of it.

    Attributes:
        number: the node id.
        rack: its rack, or None.
        is_fenced: whether the controller had shut it out when the metadata ends.
    """

    number: int
    rack: str | None = None
    is_fenced: bool = False


class ShownPlace(NamedTuple):
    """The replicas of a partition, as clients are told of them.

    Attributes:
        partition: number of the partition.
        leader, epoch: the leader and its epoch; NO_LEADER and -1 if the source does not have the log.
        replicas, in_sync, offline: node ids.
        eligible, last_eligible: the eligible leader replicas, and the last known ones.
    """

    partition: int
    leader: int = NO_LEADER
    epoch: int = NO_PARTITION_LEADER_EPOCH
    replicas: Sequence[int] = ()
    in_sync: Sequence[int] = ()
    offline: Sequence[int] = ()
    eligible: Sequence[int] = ()
    last_eligible: Sequence[int] = ()


def shown_nodes(cluster: ClusterView) -> list[ShownNode]:
    """Return the brokers by number. Raises OSError."""
    found = {} if cluster.shown_image is None else cluster.shown_image.table("brokers")
    if not found:
        return [ShownNode(number) for number in cluster.nodes or (cluster.node_id,)]
    return [
        ShownNode(number, found[number].facts["rack"], bool(found[number].facts["fenced"]))
        for number in sorted(found)
    ]


def places(cluster: ClusterView, topic: ServedTopic) -> list[ShownPlace]:
    """Return the replicas of a topic's partitions by number. Raises OSError."""
    image = cluster.shown_image
    item = None if image is None else image.topics.get(topic.name)
    rows = {} if image is None or item is None else image.partitions_of(item.facts["topicId"])
    return sorted([*_here(cluster, topic, rows), *_elsewhere(cluster, topic, rows)])


def _here(
    cluster: ClusterView, topic: ServedTopic, rows: Mapping[int, Item]
) -> Iterator[ShownPlace]:
    """Yield the partitions that the source has."""
    numbers = [node.number for node in shown_nodes(cluster)]
    for partition, log in topic.logs.items():
        epoch = cluster.leader_epoch(log)
        row = rows.get(partition)
        if row is None:
            here = _nodes_of(cluster, log)
            yield ShownPlace(partition, here[0], epoch, here, here)
            continue
        owner = cluster.owners.get(log.root.path, NO_LEADER)
        wished = (row.facts["leader"], owner, *row.facts["replicas"], *numbers)
        leader = next(node for node in wished if node in numbers)
        yield _known(row.facts, leader, epoch)


def _nodes_of(cluster: ClusterView, log: PartitionLog) -> list[int]:
    """Return the nodes whose log dirs have a partition, the one of the leading copy first."""
    if isinstance(log, JoinedLog):
        leading = log.leading_node
        return [leading, *(node for node in log.nodes if node != leading)]
    owner = cluster.owners.get(log.root.path) if cluster.nodes else None
    return [cluster.node_id if owner is None else owner]


def _elsewhere(
    cluster: ClusterView, topic: ServedTopic, rows: Mapping[int, Item]
) -> Iterator[ShownPlace]:
    """Yield the partitions that the source lacks: nobody leads them, and their replicas are offline."""
    for partition in cluster.missing(topic):
        if partition not in rows:
            yield ShownPlace(partition)
            continue
        place = _known(rows[partition].facts, NO_LEADER, NO_PARTITION_LEADER_EPOCH)
        yield place._replace(offline=place.replicas)


def _known(facts: dict[str, Any], leader: int, epoch: int) -> ShownPlace:
    return ShownPlace(
        facts["partition"],
        leader,
        epoch,
        facts["replicas"],
        facts["isr"],
        (),
        facts["eligibleLeaderReplicas"],
        facts["lastKnownElr"],
    )
