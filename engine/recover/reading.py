"""Read all sources of a recovery: the cluster's metadata, its new nodes, and every partition's copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from engine import processes
from engine.budgets import Budgets
from engine.log.log_directory import LogSource, open_source
from engine.log.partition_choice import PartitionChoice
from engine.rebuild.beside.known_facts import KnownFacts
from engine.rebuild.partition_rebuild import Advance, SummedProgress
from engine.recover.errors import RecoverRefusedError
from engine.recover.metadata.cluster_metadata import (
    ClusterMetadata,
    metadata_from_folders,
    newest_metadata,
)
from engine.recover.nodes import ClusterNode, found_nodes, read_nodes
from engine.recover.options import FOLDERS, RecoverOptions
from engine.recover.partitions.copies import FoundCopies, PartitionCopy, copies_of
from engine.recover.partitions.survey import PartitionSurvey, survey
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset, TopicPartition

_BUDGETS = Budgets(open_files=64)
"""Segments are read one after the other, and the target needs descriptors too."""


@dataclass(frozen=True)
class ClusterSurvey:
    """What the sources hold together.

    Attributes:
        sources: one for each log dir.
        metadata: the old cluster.
        nodes: the new nodes.
        found: the copies of the partitions.
        surveys: what the copies of each partition hold.
        metadata_ends: end of the metadata log by old node id.
    """

    sources: Sequence[LogSource]
    metadata: ClusterMetadata
    nodes: Sequence[ClusterNode]
    found: FoundCopies
    surveys: dict[TopicPartition, PartitionSurvey]
    metadata_ends: dict[int, Offset]


@contextmanager
def opened(paths: Sequence[str]) -> Iterator[list[LogSource]]:
    """Open the log dirs of a cluster, each as a source of its own; of a running broker a snapshot of this moment.

    Raises:
        RecoverRefusedError: a path is one partition.
        SourceError: a path is missing, cannot be read, or is no log dir.
    """
    sources: list[LogSource] = []
    try:
        for path in paths:
            source = open_source(path, budgets=_BUDGETS)
            if source.broker_pid is not None:
                source.close()
                source = open_source(path, snapshot=True, budgets=_BUDGETS)
            sources.append(source)
            if any(not log.folder for log in source.partitions().values()):
                raise RecoverRefusedError(
                    f"{path} is one partition, no log dir: recover takes the log dirs of a cluster's nodes",
                    "kafkafs rebuild takes a partition",
                )
        yield sources
    finally:
        for each in sources:
            each.close()


def read_cluster(
    sources: Sequence[LogSource], options: RecoverOptions, advance: Advance
) -> ClusterSurvey:
    """Read all sources; nothing is written.

    Raises:
        RecoverRefusedError: the sources are of several clusters, or no partition is chosen.
        OSError: a source cannot be read.
    """
    metadata = _metadata(sources, options)
    nodes = found_nodes(sources, metadata) if options.nodes is None else read_nodes(options.nodes)
    choice = PartitionChoice.parse(options.topics, options.partitions)
    ids = {name: topic.topic_id for name, topic in metadata.topics.items()}
    found = copies_of(sources, ids, choice)
    if not found.copies:
        raise RecoverRefusedError(
            "the sources hold no partition that is asked for", "see kafkafs ls for what there is"
        )
    surveys = _surveys(found.copies, KnownFacts(sources), options.jobs, advance)
    return ClusterSurvey(sources, metadata, nodes, found, surveys, _metadata_ends(sources))


def _metadata(sources: Sequence[LogSource], options: RecoverOptions) -> ClusterMetadata:
    if options.metadata == FOLDERS:
        return metadata_from_folders(sources)
    return newest_metadata(sources, options.metadata)


def _metadata_ends(sources: Sequence[LogSource]) -> dict[int, Offset]:
    ends: dict[int, Offset] = {}
    for source in sources:
        nodes = {
            root: properties.node_id
            for root, properties in zip(source.roots, source.meta_properties, strict=True)
            if properties is not None and properties.node_id is not None
        }
        for log in source.partitions().values():
            if log.topic_partition.topic != CLUSTER_METADATA or log.root not in nodes:
                continue
            view = log.view_or_none()
            if view is not None:
                node = nodes[log.root]
                ends[node] = max(ends.get(node, 0), view.log_end_offset)
    return ends


def _surveys(
    copies: dict[TopicPartition, list[PartitionCopy]],
    facts: KnownFacts,
    jobs: int,
    advance: Advance,
) -> dict[TopicPartition, PartitionSurvey]:
    """Look at all partitions, the largest first, in several processes."""
    names = list(copies)
    if jobs < 2 or len(names) < 2:
        return {name: survey(name, copies[name], facts, advance) for name in names}
    weights = [sum(_size(copy) for copy in copies[name]) for name in names]

    def look(place: int, note: Callable[[tuple[str, int]], None]) -> PartitionSurvey:
        progress = SummedProgress(note)
        found = survey(names[place], copies[names[place]], facts, progress)
        progress.send()
        return found

    found: dict[int, PartitionSurvey] = {}
    done = processes.in_any_order(
        look, range(len(names)), jobs, weights, lambda note: advance(*note)
    )
    with closing(done):
        found.update(done)
    return {name: found[place] for place, name in enumerate(names)}


def _size(copy: PartitionCopy) -> int:
    """Return the bytes of a copy's records files as far as they can be listed."""
    view = copy.log.view_or_none()
    size = 0 if view is None else view.size
    copy.log.forget()
    return size
