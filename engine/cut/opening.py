"""Open the log dirs of one or several nodes as they were at a moment."""

from __future__ import annotations

from collections.abc import Sequence

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.cut.cluster_cut import ClusterCut
from engine.cut.moment import Moment
from engine.log.log_directory import LogSource
from engine.log.partition_log import LogCut
from engine.replicas.cluster_source import open_cluster


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
