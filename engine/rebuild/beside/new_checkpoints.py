"""Checkpoints of a rebuilt log dir."""

from __future__ import annotations

from typing import NamedTuple

from engine.checkpoint.offset_checkpoint import render_offset_checkpoint
from engine.files.file_names import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset, TopicPartition


class CheckpointEntries(NamedTuple):
    """What the checkpoints state of a new log.

    Attributes:
        partition: topic and partition.
        log_start, log_end: bounds of the new log.
        first_base: base offset of its first segment.
        high_watermark, cleaner_offset: entries in the source's checkpoints; None without one.
    """

    partition: TopicPartition
    log_start: Offset
    log_end: Offset
    first_base: Offset
    high_watermark: Offset | None
    cleaner_offset: Offset | None


class NewCheckpoints:
    """Entries of the log dir's checkpoints, only those that are true for the new logs."""

    def __init__(self) -> None:
        self._recovery_points: dict[TopicPartition, Offset] = {}
        self._log_starts: dict[TopicPartition, Offset] = {}
        self._high_watermarks: dict[TopicPartition, Offset] = {}
        self._cleaner_offsets: dict[TopicPartition, Offset] = {}

    def add(self, new: CheckpointEntries) -> None:
        """Add the entries of a new log."""
        partition, log_start, log_end, first_base, high_watermark, cleaner_offset = new
        if partition.topic == CLUSTER_METADATA:
            return  # a broker has checkpoints only for its own partitions
        self._recovery_points[partition] = log_end
        if log_start > first_base:
            self._log_starts[partition] = log_start
        if high_watermark is not None:
            self._high_watermarks[partition] = min(max(high_watermark, log_start), log_end)
        if cleaner_offset is not None and log_start <= cleaner_offset <= log_end:
            self._cleaner_offsets[partition] = cleaner_offset

    def files(self) -> dict[str, bytes]:
        """Return the checkpoints by name; a broker without compacted logs has no cleaner checkpoint."""
        checkpoints = {
            RECOVERY_POINT_CHECKPOINT: self._recovery_points,
            LOG_START_OFFSET_CHECKPOINT: self._log_starts,
            REPLICATION_OFFSET_CHECKPOINT: self._high_watermarks,
        }
        if self._cleaner_offsets:
            checkpoints[CLEANER_OFFSET_CHECKPOINT] = self._cleaner_offsets
        return {name: render_offset_checkpoint(offsets) for name, offsets in checkpoints.items()}
