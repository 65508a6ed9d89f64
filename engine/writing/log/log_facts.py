"""Parts of a writable log, and its offsets, size and names."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from engine.errors import StateError
from engine.units import LogOffsetMetadata, Offset, TopicPartition
from engine.writing.append.validation_result import ValidationMetrics
from engine.writing.log.local_log import LocalLog
from engine.writing.log.topic_identity import TopicIdentity
from engine.writing.log.watermarks import Watermarks
from engine.writing.log_config import LogConfig
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager


class LogFacts:
    """Parts of a log.

    Attributes:
        log_folder: folder, configuration, scheduler, clock and disk of the log.
        local_log: segments.
        producer_state: state of the producers.
        leader_epoch_cache: leader epochs.
        watermarks: offsets that bound what readers see.
        topic_identity: topic id.
        lock: held by every change of the log.
        reporting_appends: `reporting` for appends, made once.
        validation_metrics: counts of refused appends.
    """

    def __init__(
        self,
        local_log: LocalLog,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state: ProducerStateManager,
        log_start_offset: Offset,
        *,
        topic_id: str | None = None,
        validation_metrics: ValidationMetrics | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.log_folder = local_log.folder
        self.local_log = local_log
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state = producer_state
        self.validation_metrics = validation_metrics or ValidationMetrics()
        self.reporting_appends = self.reporting("cannot append to")
        self.watermarks = Watermarks(local_log, producer_state, log_start_offset, self.lock)
        first = local_log.segments.first
        self.watermarks.move_log_start(
            max(log_start_offset, 0 if first is None else first.base_offset)
        )
        self.watermarks.refresh_first_unstable()
        self.topic_identity = TopicIdentity(self.log_folder, topic_id)
        self._is_closed = False

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.folder}, {self.log_start_offset}..{self.log_end_offset},"
            f" high watermark {self.high_watermark}, last stable offset {self.last_stable_offset})"
        )

    @property
    def folder(self) -> str:
        """Path of the folder."""
        return self.log_folder.path

    @property
    def parent_dir(self) -> str:
        """Log dir with the folder."""
        return self.log_folder.log_dir

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.log_folder.name

    @property
    def is_future(self) -> bool:
        """Whether the log will replace the partition's log in another log dir."""
        return self.log_folder.is_future

    @property
    def topic_partition(self) -> TopicPartition:
        """Partition of the log."""
        return self.log_folder.topic_partition

    @property
    def topic_id(self) -> str | None:
        """Topic id in base64, None if unknown."""
        return self.topic_identity.topic_id

    @property
    def config(self) -> LogConfig:
        """Configuration of the log."""
        return self.log_folder.config

    @property
    def recovery_point(self) -> Offset:
        """First offset that may not be on the device yet."""
        return self.local_log.recovery_point

    @property
    def log_start_offset(self) -> Offset:
        """First offset that readers may ask for."""
        return self.watermarks.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """Offset of the next record."""
        return self.local_log.log_end_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """Offset of the next record, and its position."""
        return self.local_log.log_end_offset_metadata

    @property
    def high_watermark(self) -> Offset:
        """First offset that may not be on all in-sync replicas."""
        return self.watermarks.high_watermark

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Start of the first transaction that is open, or has its marker at or above the high watermark."""
        return self.watermarks.first_unstable_offset

    @property
    def last_stable_offset(self) -> Offset:
        """Offset below which every transaction has ended and every batch is replicated."""
        return self.watermarks.last_stable_offset

    @property
    def latest_epoch(self) -> int | None:
        """Latest leader epoch, None without one."""
        return self.leader_epoch_cache.latest_epoch

    @property
    def segments(self) -> list[WritableSegment]:
        """All segments, the oldest first."""
        with self.lock:
            return list(self.local_log.segments)

    @property
    def active_segment(self) -> WritableSegment:
        """Segment that takes appends."""
        return self.local_log.segments.active_segment

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.local_log.segments.size

    @property
    def is_empty(self) -> bool:
        """Whether there is no record for readers."""
        return self.log_start_offset == self.log_end_offset

    def ensure_open(self) -> None:
        """Raise StateError if the log was closed."""
        if self._is_closed:
            raise StateError(f"the log of {self.topic_partition} is closed")
        self.local_log.ensure_open()

    def reporting(self, what: str) -> AbstractContextManager[None]:
        """Return a context manager in which an OSError takes the log dir offline; see `WritableLogFolder.reporting`."""
        return self.log_folder.reporting(what)
