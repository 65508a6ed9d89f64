"""What a source lost besides the contents of its logs: folders of partitions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from engine.errors import KafkaStorageError
from engine.files.file_names import (
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    FolderState,
)
from engine.files.folder_entries import EntryKind
from engine.log.leftover_logs import state_of
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.damage import DamageKind
from engine.log.segment.problems import ProblemEntry
from engine.units import TopicPartition
from engine.verdict.gap_causes.cleanup_policies import cluster_image
from engine.verdict.log_losses import losses_of
from engine.verdict.missing_folders import MissingFolder, StatedOffsets, missing_folders
from engine.verdict.source_evidence import evidence_of

MOST_LOGS = 2000
"""Partitions of a source up to which each is looked at for its problems."""


def lost_partitions(source: LogSource) -> list[MissingFolder]:
    """Return the partitions of a source whose folders are certainly lost, by name.

    The metadata is read only if a checkpoint names a partition without a folder.
    """
    folders = evidence_of(source).of_listing(_Folders)
    named = (
        partition
        for _, stated in folders.stated()
        for ends in stated.ends.values()
        for partition in ends
        if not folders.holds(partition, None)
    )
    if next(named, None) is None:
        return []
    return [each for each in absent_partitions(source) if each.is_certain]


def absent_partitions(source: LogSource) -> list[MissingFolder]:
    """Return the partitions that the metadata or a checkpoint of a source names, and that have no folder, by name.

    Without metadata nothing tells what became of them. A log dir that a broker has open is left out: its checkpoints
    are written after its folders change; and so is a source that ends at a time.
    """
    return evidence_of(source).of_listing(_absent)


def _absent(source: LogSource) -> list[MissingFolder]:
    facts = evidence_of(source)
    folders, by_node = facts.of_listing(_Folders), dict[int | None, list[StatedOffsets]]()
    for place, stated in folders.stated():
        meta = source.meta_properties[place]
        by_node.setdefault(None if meta is None else meta.node_id, []).append(stated)
    if not by_node:
        return []
    image, found = facts.of_listing(cluster_image), dict[str, MissingFolder]()
    if image is not None and image.missing is not None:
        image = None
    for node_id, stated_here in by_node.items():
        for each in missing_folders(image, node_id, stated_here, folders.holds, folders.beside):
            found.setdefault(each.name, each)
    return [found[name] for name in sorted(found)]


class _Folders:
    """The folders of a source's log dirs.

    Attributes:
        beside: names of the folders that a broker set aside, by partition.
    """

    def __init__(self, source: LogSource) -> None:
        self._source = source
        self._logs: set[TopicPartition] = set()
        self.beside: dict[TopicPartition, list[str]] = {}
        self._futures: set[tuple[TopicPartition, str]] = set()
        self._links = {each.name for each in source.others if each.kind is EntryKind.SYMLINK}
        for log in source.partitions().values():
            state = state_of(log)
            if state is FolderState.LOG:
                self._logs.add(log.topic_partition)
                continue
            self.beside.setdefault(log.topic_partition, []).append(log.name)
            if state is FolderState.FUTURE:
                self._futures.add((log.topic_partition, log.root.path))

    def holds(self, partition: TopicPartition, log_dir: str | None) -> bool:
        """Return whether a folder holds a partition: a log, or a future one in its log dir, which becomes the log."""
        return (
            partition in self._logs
            or (log_dir is not None and (partition, log_dir) in self._futures)
            or str(partition) in self._links
        )

    def stated(self) -> Iterator[tuple[int, StatedOffsets]]:
        """Yield what the checkpoints of each log dir state, with the log dir's place in the source."""
        source = self._source
        for place, (root, log_dir) in enumerate(zip(source.roots, source.log_dirs, strict=True)):
            if log_dir is not root or source.cut is not None or root.broker_pid() is not None:
                continue
            known, meta = source.checkpoints(root), source.meta_properties[place]
            yield (
                place,
                StatedOffsets(
                    root.path,
                    None if meta is None else meta.directory_id,
                    known.stopped_cleanly(),
                    known.all_log_starts(),
                    {
                        REPLICATION_OFFSET_CHECKPOINT: known.all_high_watermarks(),
                        RECOVERY_POINT_CHECKPOINT: known.all_recovery_points(),
                    },
                ),
            )


def source_problems(source: LogSource) -> list[ProblemEntry]:
    """Return the problems found so far, with the losses that are known without reading batches.

    Of a source with more than MOST_LOGS partitions, only logs that somebody has read are looked at.
    """
    logs = source.partitions()
    for log in logs.values():
        if state_of(log) in (FolderState.DELETE, FolderState.STRAY):
            continue  # what a log that was set aside lacks is no loss
        if log.is_loaded or len(logs) <= MOST_LOGS:
            _note_losses(log)
    entries = source.problems
    entries += [
        {
            "partition": lost.name,
            "kind": DamageKind.MISSING,
            "file": lost.name,
            "reason": lost.reason,
            "elsewhere": [each.to_json() for each in lost.loss().elsewhere],
        }
        for lost in lost_partitions(source)
    ]
    return entries


def _note_losses(log: PartitionLog) -> None:
    view = log.view_or_none()
    if view is None:
        return
    losses = losses_of(view)
    with suppress(OSError, KafkaStorageError):
        for loss in losses.cheap():
            losses.note(loss.damage())
