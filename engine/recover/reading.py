"""Read all sources of a recovery: the cluster's metadata, its new nodes, and every partition's copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from engine import processes
from engine.budgets import Budgets
from engine.cut.cluster_cut import CutEnd
from engine.cut.moment import METADATA
from engine.cut.opening import ClusterThen, cluster_then
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
        then: what the cluster was at the moment that is asked for; None for now.
    """

    sources: Sequence[LogSource]
    metadata: ClusterMetadata
    nodes: Sequence[ClusterNode]
    found: FoundCopies
    surveys: dict[TopicPartition, PartitionSurvey]
    metadata_ends: dict[int, Offset]
    then: ClusterThen | None = None


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
        RecoverRefusedError: the sources are of several clusters, no partition is chosen, or there is no metadata of
            the moment.
        MomentError: the sources do not have what names the moment.
        OSError: a source cannot be read.
    """
    roots = [root.path for source in sources for root in source.roots]
    then = None if options.at is None else cluster_then(roots, options.at)
    metadata = _metadata(sources, options, then)
    if options.nodes is not None:
        nodes = read_nodes(options.nodes)
    else:
        nodes = found_nodes(sources, None if then is not None else metadata)
    choice = PartitionChoice.parse(options.topics, options.partitions)
    ids = {name: topic.topic_id for name, topic in metadata.topics.items()}
    found = copies_of(sources, ids, choice)
    if not found.copies:
        raise RecoverRefusedError(
            "the sources hold no partition that is asked for", "see kafkafs ls for what there is"
        )
    ends = {} if then is None else then.ends
    surveys = _surveys(found.copies, KnownFacts(sources), options.jobs, advance, ends)
    ends_now = _metadata_ends(sources)
    return ClusterSurvey(sources, metadata, nodes, found, surveys, ends_now, then)


def _metadata(
    sources: Sequence[LogSource], options: RecoverOptions, then: ClusterThen | None
) -> ClusterMetadata:
    if options.metadata == FOLDERS:
        return metadata_from_folders(sources)
    if then is None or METADATA not in then.ends:
        return newest_metadata(sources, options.metadata)
    if then.lacks_metadata:
        raise RecoverRefusedError(
            "the metadata log does not reach back to that moment",
            "name a later one, or take --metadata folders",
        )
    return newest_metadata(sources, options.metadata, then.ends[METADATA].offset)


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
    ends: Mapping[TopicPartition, CutEnd],
) -> dict[TopicPartition, PartitionSurvey]:
    """Look at all partitions, the largest first, in several processes."""
    names = list(copies)
    if jobs < 2 or len(names) < 2:
        return {name: survey(name, copies[name], facts, advance, ends.get(name)) for name in names}
    weights = [sum(_size(copy) for copy in copies[name]) for name in names]

    def look(place: int, note: Callable[[tuple[str, int]], None]) -> PartitionSurvey:
        progress = SummedProgress(note)
        name = names[place]
        found = survey(name, copies[name], facts, progress, ends.get(name))
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
