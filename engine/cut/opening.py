"""Open the log dirs of one or several nodes as they were at a moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.cut.cluster_cut import ClusterCut, CutEnd
from engine.cut.folders_then import FoldersThen
from engine.cut.moment import METADATA, Moment
from engine.log.log_directory import LogSource
from engine.log.partition_log import LogCut
from engine.replicas.cluster_source import open_cluster
from engine.units import Timestamp, TopicPartition


class ClusterThen(NamedTuple):
    """What a cluster was at a moment, for what makes new log dirs of it.

    Attributes:
        time: the moment in milliseconds.
        ends: the end of each log, also of the metadata log.
        folders: chooses the folders of the topics of then.
    """

    time: Timestamp
    ends: Mapping[TopicPartition, CutEnd]
    folders: FoldersThen

    @property
    def lacks_metadata(self) -> bool:
        """Whether there is a metadata log that does not reach back to the moment."""
        return METADATA in self.ends and not self.folders.has_metadata


def cluster_then(paths: Sequence[str], at: Moment) -> ClusterThen:
    """Return what the cluster of some log dirs was at a moment. Raises as `open_at`, and UnsupportedCodecError."""
    with closing(open_at(paths, at)) as source:
        cut = cut_of(source)
        assert cut is not None
        ends = {log.topic_partition: end for log, end in cut.ends()}
        return ClusterThen(cut.time, ends, cut.folders)


def open_at(
    paths: str | Sequence[str],
    at: Moment | None,
    *,
    snapshot: bool = False,
    cross_device: bool = False,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> LogSource:
    """Open the paths of an operator for reading, as they were at a moment; without one as they are now.

    Raises:
        MomentError: the source does not have what names the moment.
        SourceError: a path is missing, cannot be read, is empty, or has no files of Kafka.
        OSError: the metadata log cannot be read.
    """

    def opened(cut: LogCut | None) -> LogSource:
        return open_cluster(
            paths, snapshot=snapshot, cross_device=cross_device, cut=cut, budgets=budgets
        )

    if at is None:
        return opened(None)
    cut = ClusterCut(opened, at)
    try:
        return opened(cut)
    except BaseException:
        cut.close()
        raise


def cut_of(source: LogSource) -> ClusterCut | None:
    """Return the cut of a source that is opened as of a moment; None for one of now."""
    return source.cut if isinstance(source.cut, ClusterCut) else None
