"""The nodes that clients are told of, and which of them have the replicas of a partition.

By default there is one broker, which leads all partitions of the source. With the nodes of the cluster's metadata,
replicas are where it says. Every node has the address of this server, so each one serves what the source has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from engine.replay.cluster import ClusterImage
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
    image = cluster.image() if cluster.shows_nodes else None
    found = {} if image is None else image.table("brokers")
    if not found:
        return [ShownNode(cluster.node_id)]
    return [
        ShownNode(number, found[number].facts["rack"], bool(found[number].facts["fenced"]))
        for number in sorted(found)
    ]


def places(cluster: ClusterView, topic: ServedTopic) -> list[ShownPlace]:
    """Return the replicas of a topic's partitions by number. Raises OSError."""
    return sorted([*_here(cluster, topic), *_elsewhere(cluster, topic)])


def _here(cluster: ClusterView, topic: ServedTopic) -> Iterator[ShownPlace]:
    """Yield the partitions that the source has."""
    numbers = [node.number for node in shown_nodes(cluster)]
    for partition, log in topic.logs.items():
        facts = _facts(cluster, topic, partition)
        epoch = cluster.leader_epoch(log)
        if facts is None:
            here = [cluster.node_id if cluster.node_id in numbers else numbers[0]]
            yield ShownPlace(partition, here[0], epoch, here, here)
            continue
        wished = (
            facts["leader"],
            cluster.owners.get(log.root.path, NO_LEADER),
            *facts["replicas"],
            numbers[0],
        )
        leader = next(node for node in wished if node in numbers)
        yield _known(facts, leader, epoch)


def _elsewhere(cluster: ClusterView, topic: ServedTopic) -> Iterator[ShownPlace]:
    """Yield the partitions that the source lacks: nobody leads them, and their replicas are offline."""
    for partition in cluster.missing(topic):
        facts = _facts(cluster, topic, partition)
        if facts is None:
            yield ShownPlace(partition)
        else:
            place = _known(facts, NO_LEADER, NO_PARTITION_LEADER_EPOCH)
            yield place._replace(offline=place.replicas)


def _facts(cluster: ClusterView, topic: ServedTopic, partition: int) -> dict[str, Any] | None:
    """Return what the metadata says of a partition; None if it does not know it, or nodes are not shown."""
    image: ClusterImage | None = cluster.image() if cluster.shows_nodes else None
    item = None if image is None else image.topics.get(topic.name)
    if image is None or item is None:
        return None
    row = image.partitions_of(item.facts["topicId"]).get(partition)
    return None if row is None else row.facts


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
