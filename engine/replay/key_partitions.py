"""The partition to which Kafka's default partitioner sends a key."""

from __future__ import annotations

from typing import Final

from engine.coding.checksums import murmur2
from engine.coding.layout import Buffer
from engine.replay.cluster import ClusterReplay

_POSITIVE: Final = 0x7FFFFFFF


def partition_of_key(key: Buffer, count: int) -> int:
    """Return the partition of a key among `count`, by the murmur2 of the key as BuiltInPartitioner of Kafka's clients.

    >>> partition_of_key(b"k1", 2)
    1
    """
    return (murmur2(key) & _POSITIVE) % count


def stated_partitions(cluster: ClusterReplay, topic: str) -> int | None:
    """Return the number of partitions of a topic in the cluster's metadata; None if the source does not state it."""
    if not cluster.exists:
        return None
    image = cluster.image()
    if topic not in image.topics:
        return None
    return len(image.partitions_of(image.topics[topic].facts["topicId"])) or None
