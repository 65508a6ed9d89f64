"""Options of a recovery."""

from __future__ import annotations

from dataclasses import dataclass

from engine.cut.moment import Moment
from engine.plan.loading.broker_versions import CURRENT

FOLDERS = "folders"


@dataclass(frozen=True)
class RecoverOptions:
    """Options of a recovery.

    Attributes:
        topics, partitions: the lists of a `PartitionChoice`; none for all.
        metadata: a log dir whose metadata log alone counts, or FOLDERS; None for the newest one.
        nodes: path of a TOML file of the new nodes; None for the nodes found.
        cluster_id: "keep" or "new".
        quorum: "static" or "dynamic".
        replication: number of replicas; None for as many as before. The brokers limit it.
        fits_min_isr: lower min.insync.replicas to the number of replicas.
        leaves_open: leave the transactions open of which no disk shows how they ended.
        no_power_loss: no machine lost its power: the disks have all that was written.
        hold: stop retention and expiry.
        kafka_version: release that will run the cluster.
        at: the cluster as it was at this moment; None for all that the disks hold.
        jobs: number of processes.
    """

    topics: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    metadata: str | None = None
    nodes: str | None = None
    cluster_id: str = "keep"
    quorum: str = "static"
    replication: int | None = None
    fits_min_isr: bool = False
    leaves_open: bool = False
    no_power_loss: bool = False
    hold: bool = False
    kafka_version: str = CURRENT
    at: Moment | None = None
    jobs: int = 1
