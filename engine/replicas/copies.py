"""The copies of a source's partitions by the node that wrote them, and what is cheaply known of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from engine.units import NO_PARTITION_LEADER_EPOCH, Offset, TopicPartition


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

    def facts(self, view: LogView | None = None) -> CopyFacts:
        """Return what is known without reading the batches, but the last one; of a view. Raises OSError."""
        log = self.log
        view = log.view() if view is None else view
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
    """Return the leader epoch of the last good batch; -1 without one, and before magic 2.

    No checksum covers an epoch: one that a single batch states, and not the leader-epoch-checkpoint, is not believed.
    """
    epochs, stated = view.leader_epochs, list[int]()
    for base, epoch in _last_batches(view):
        if epoch < 0 or epoch == epochs.epoch_for(base):
            return epoch
        stated.append(epoch)
        if len(stated) == 2:
            break
    if len(stated) == 2 and stated[0] == stated[1]:
        return stated[0]
    known = epochs.epoch_for(view.log_end_offset - 1)
    return NO_PARTITION_LEADER_EPOCH if known is None or not stated else known


def _last_batches(view: LogView) -> Iterator[tuple[Offset, int]]:
    """Yield base offset and leader epoch of the last good batches, the last one first."""
    for place in reversed(range(len(view))):
        segment = view.segment_at(place)
        is_active = segment is view.active_segment
        end = view.log_end_offset if is_active else segment.next_offset
        while end > segment.base_offset:
            run = None
            with suppress(KafkaStorageError, OSError):
                run = segment.batch(end - 1)
            if run is None:
                break
            row = run.table[0]
            end = int(row["base_offset"])
            yield end, int(row["leader_epoch"]) if row["magic"] >= 2 else NO_PARTITION_LEADER_EPOCH
