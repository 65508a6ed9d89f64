"""Open the log dirs of one or several nodes as one source, in which the copies of a partition are one log."""

from __future__ import annotations

from collections.abc import Sequence

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.checkpoint.meta_properties import MetaProperties
from engine.log.joined_logs import JoinedLog
from engine.log.log_directory import LogSource, open_source
from engine.log.partition_log import LogCut, PartitionLog, Shared


def open_cluster(
    paths: str | Sequence[str],
    *,
    snapshot: bool = False,
    cross_device: bool = False,
    cut: LogCut | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> LogSource:
    """Open the paths of an operator for reading; see `open_source`.

    Log dirs whose meta.properties name several nodes of one cluster are read as that cluster: a partition is the union
    of its copies. Those of one node are read as its log.dirs.
    """
    return open_source(
        paths,
        snapshot=snapshot,
        cross_device=cross_device,
        cut=cut,
        budgets=budgets,
        join=_join,
    )


def _join(
    name: str, copies: Sequence[tuple[PartitionLog, MetaProperties | None]], shared: Shared
) -> JoinedLog:
    # Imported here: most sources are of one node.
    from engine.replicas.copies import Replica
    from engine.replicas.union_log import UnionLog

    replicas = [Replica(log, meta) for log, meta in copies]
    first = replicas[0].log
    return UnionLog(name, replicas, shared=shared, budgets=first.budgets, frozen=first.frozen)
