"""What an erase cannot reach: copies that the metadata names and nobody gave, and what nobody can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.log.leftover_logs import is_set_aside
from engine.log.log_directory import LogSource
from engine.recover.metadata.cluster_metadata import ClusterMetadata, newest_metadata
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import TopicPartition

REMOTE = "remote.storage.enable"


class Unreached(NamedTuple):
    """Where a copy may still be: a name for programs, and a sentence."""

    kind: str
    reason: str


def unreached(
    sources: Sequence[LogSource], touched: Iterable[TopicPartition]
) -> Iterator[Unreached]:
    """Yield the copies of some partitions that are not among the sources.

    Raises:
        RecoverRefusedError: the sources are of several clusters.
    """
    partitions = sorted(touched)
    try:
        metadata = newest_metadata(sources)
    except OSError as error:
        yield Unreached("no_metadata", f"the cluster's metadata cannot be read: {error}")
        return
    if metadata.image is None:
        yield Unreached(
            "no_metadata",
            f"which brokers have copies is not known: no source has {CLUSTER_METADATA}-0; name a"
            " controller's log dir, too",
        )
        return
    given = _given(sources)
    for partition in partitions:
        yield from _missing(partition, metadata, given)
    remote = sorted({each.topic for each in partitions if _is_remote(metadata, each.topic)})
    for topic in remote:
        yield Unreached("tiered", f"{topic} has segments in remote storage, which is not read here")


def _missing(
    partition: TopicPartition, metadata: ClusterMetadata, given: set[tuple[TopicPartition, int]]
) -> Iterator[Unreached]:
    topic = metadata.topics.get(partition.topic)
    known = None if topic is None else topic.partitions.get(partition.partition)
    for node in () if known is None else known.replicas:
        if (partition, node) not in given:
            yield Unreached(
                "replica",
                f"broker {node} has a copy of {partition} that is in no source: name its log dirs, too",
            )


def _given(sources: Sequence[LogSource]) -> set[tuple[TopicPartition, int]]:
    return {
        (log.topic_partition, properties.node_id)
        for source in sources
        for properties in source.meta_properties
        if properties is not None and properties.node_id is not None
        for log in source.partitions().values()
        if not is_set_aside(log)
    }


def _is_remote(metadata: ClusterMetadata, name: str) -> bool:
    topic = metadata.topics.get(name)
    return topic is not None and topic.configs.get(REMOTE) == "true"
