"""What a source lost besides the contents of its logs: folders of partitions.

A broker writes each partition of a log dir into the log dir's checkpoints. A name there without a folder is a partition
that was deleted, moved to another log dir or broker, or lost: the cluster's metadata decides. At its next start a broker
makes the folder of a lost partition anew, empty, and gives offset 0 to the next record.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.damage import DamageKind
from engine.log.segment.problems import ProblemEntry
from engine.replay.cluster import ClusterImage, ClusterReplay
from engine.replay.internal_logs import InternalLogs
from engine.units import Offset, TopicPartition
from engine.verdict.log_losses import losses_of
from engine.verdict.loss import Loss, LossKind
from engine.verdict.source_evidence import evidence_of

MOST_LOGS = 2000
"""Partitions of a source up to which each is looked at for its problems."""


class LostPartition(NamedTuple):
    """A partition whose folder is gone.

    Attributes:
        name, topic_partition: as of a partition in a source, so that a choice of partitions takes it.
        loss: its offsets and the evidence.
    """

    name: str
    topic_partition: TopicPartition
    loss: Loss


def lost_partitions(source: LogSource) -> list[LostPartition]:
    """Return the partitions of a source's log dirs whose folders are gone, by name.

    Partitions that the metadata does not know, or assigns to other brokers or log dirs, are not lost. Without
    metadata each name in a checkpoint is taken for a loss that is likely, not certain. A log dir that a broker has open
    is left out: its checkpoints are written after its folders change.
    """
    if source.before is not None:
        return []
    facts, logs = evidence_of(source), source.partitions()
    known = facts.lost_partitions
    if known is None or known[0] is not logs:
        known = facts.lost_partitions = logs, _look_for_lost(source)
    return [lost for lost in known[1] if isinstance(lost, LostPartition)]


def _look_for_lost(source: LogSource) -> list[LostPartition]:
    found: dict[str, LostPartition] = {}
    there = {log.topic_partition for log in source.partitions().values()}
    image: list[ClusterImage | None] = []
    for place, (root, log_dir) in enumerate(zip(source.roots, source.log_dirs, strict=True)):
        if log_dir is None or log_dir is not root or log_dir.broker_pid() is not None:
            continue
        for partition, offsets in _named(source, log_dir).items():
            if partition in there or str(partition) in found:
                continue
            if not image:
                image.append(_image(source))
            lost = _lost(source, place, log_dir, partition, offsets, image[0])
            if lost is not None:
                found[lost.name] = lost
    return [found[name] for name in sorted(found)]


def source_problems(source: LogSource) -> list[ProblemEntry]:
    """Return the problems found so far, with the losses that are known without reading batches.

    Of a source with more than MOST_LOGS partitions, only logs that somebody has read are looked at.
    """
    logs = source.partitions()
    for log in logs.values():
        if log.is_loaded or len(logs) <= MOST_LOGS:
            _note_losses(log)
    entries = source.problems
    for lost in lost_partitions(source):
        if lost.loss.is_certain:
            entries.append(
                {
                    "partition": lost.name,
                    "kind": DamageKind.MISSING,
                    "file": lost.name,
                    "reason": lost.loss.reason,
                }
            )
    return entries


def _note_losses(log: PartitionLog) -> None:
    view = log.view_or_none()
    if view is None:
        return
    losses = losses_of(view)
    with suppress(OSError, KafkaStorageError):
        for loss in losses.cheap():
            losses.note(loss.damage())


def _named(
    source: LogSource, log_dir: SourceRoot
) -> Mapping[TopicPartition, tuple[Offset, Offset]]:
    """Return the log start and the largest offset that a log dir's checkpoints state, by partition."""
    known = source.checkpoints(log_dir)
    ends: dict[TopicPartition, tuple[Offset, Offset]] = {}
    for partition, end in (
        *known.all_high_watermarks().items(),
        *known.all_recovery_points().items(),
    ):
        start = known.log_start_offset(partition) or 0
        ends[partition] = start, max(end, ends.get(partition, (0, 0))[1])
    return ends


def _image(source: LogSource) -> ClusterImage | None:
    replay = ClusterReplay(InternalLogs(source))
    try:
        return replay.image() if replay.exists else None
    except (OSError, KafkaStorageError):
        return None


def _lost(
    source: LogSource,
    place: int,
    log_dir: SourceRoot,
    partition: TopicPartition,
    offsets: tuple[Offset, Offset],
    image: ClusterImage | None,
) -> LostPartition | None:
    topic, number = partition
    meta = source.meta_properties[place]
    says, is_certain = "no metadata here tells whether it was deleted", False
    if image is not None:
        item = image.topics.get(topic)
        rows = {} if item is None else image.partitions_of(item.facts["topicId"])
        row = rows.get(number)
        if row is None:
            return None
        node = None if meta is None else meta.node_id
        replicas = row.facts.get("replicas") or ()
        if node is not None and replicas and node not in replicas:
            return None
        says, is_certain = f"the metadata assigns it to node {node}", True
    start, end = offsets
    name = str(partition)
    held = (
        f"it held offsets up to {end - 1}"
        if end > 0
        else "it held no record that a checkpoint names"
    )
    reason = (
        f"the folder of {name} is gone from {log_dir.path}: its checkpoints name it, {says}; {held},"
        " and a broker that starts here makes it anew, empty"
    )
    loss = Loss(
        partition=name,
        kind=LossKind.PARTITION,
        first_offset=start,
        next_offset=max(end, start),
        file="",
        reason=reason,
        is_certain=is_certain,
    )
    return LostPartition(name, partition, loss)
