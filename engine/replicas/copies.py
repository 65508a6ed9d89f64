"""The copies of a source's partitions by the node that wrote them, and what is cheaply known of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from engine.checkpoint.meta_properties import MetaProperties
from engine.errors import KafkaStorageError
from engine.files.file_names import FolderState
from engine.log.leftover_logs import state_of
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.replicas.choice import CopyFacts, Lineage
from engine.units import NO_PARTITION_LEADER_EPOCH, TopicPartition


class Replica(NamedTuple):
    """A copy of a partition.

    Attributes:
        log: the copy.
        meta: meta.properties of its log dir; None if missing or broken.
    """

    log: PartitionLog
    meta: MetaProperties | None

    @property
    def node_id(self) -> int | None:
        """The node that wrote it; None if unknown."""
        return None if self.meta is None else self.meta.node_id

    def facts(self) -> CopyFacts:
        """Return what is known without reading the batches, but the last one. Raises OSError."""
        log, view = self.log, self.log.view()
        end = view.log_end_offset
        partition = log.topic_partition
        return CopyFacts(
            log.root.path,
            self.node_id,
            None if self.meta is None else self.meta.cluster_id,
            view.topic_id,
            view.base_offsets[0] if view.base_offsets else end,
            Lineage(last_epoch(view), end),
            view.leader_epochs,
            log.checkpoints.high_watermark(partition),
            log.checkpoints.log_start_offset(partition),
        )


def replicas_of(sources: Iterable[LogSource]) -> Mapping[TopicPartition, list[Replica]]:
    """Return the copies of each partition in all log dirs of some sources, in the order these were named.

    Folders that a broker set aside are left out. A log dir is named by one source alone.
    """
    found: dict[TopicPartition, list[Replica]] = {}
    for source in sources:
        metas = dict(zip(source.roots, source.meta_properties, strict=True))
        order = {root: at for at, root in enumerate(source.roots)}
        logs = sorted(source.partitions().values(), key=lambda log: order[log.root])
        for log in logs:
            if state_of(log) is FolderState.LOG:
                found.setdefault(log.topic_partition, []).append(Replica(log, metas[log.root]))
    return found


def last_epoch(view: LogView) -> int:
    """Return the leader epoch of the last good batch; -1 without one.

    No checksum covers an epoch: one that a single batch states, and not the leader-epoch-checkpoint, is not believed.
    """
    epochs, end = view.leader_epochs, view.log_end_offset
    stated = []
    for _ in range(2):
        found = None
        with suppress(KafkaStorageError, OSError):
            found = view.batch(end - 1)
        if found is None:
            break
        row = found[1].table[0]
        if row["magic"] < 2:
            return NO_PARTITION_LEADER_EPOCH
        stated.append(int(row["leader_epoch"]))
        end = int(row["base_offset"])
        if stated[-1] == epochs.epoch_for(end):
            return stated[0] if len(set(stated)) == 1 else stated[-1]
    if len(stated) == 2 and stated[0] == stated[1]:
        return stated[0]
    known = epochs.epoch_for(view.log_end_offset - 1)
    return NO_PARTITION_LEADER_EPOCH if known is None else known
