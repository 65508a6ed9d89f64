"""What a log that is written to consists of, and what can be asked of it at any time."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager

from engine.clock import Clock
from engine.errors import StateError
from engine.units import LogOffsetMetadata, Offset, TopicPartition
from engine.writing.append.validation_result import ValidationMetrics
from engine.writing.disk import DISK, Disk
from engine.writing.log.local_log import LocalLog
from engine.writing.log.topic_identity import TopicIdentity
from engine.writing.log.watermarks import Watermarks
from engine.writing.log_config import LogConfig
from engine.writing.scheduler import Scheduler
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import ProducerStateManager


class LogFacts:
    """The parts of a log.

    Attributes:
        local_log: the segments.
        producer_state: what is known of those who write.
        leader_epoch_cache: which leader wrote what.
        watermarks: what readers see.
        topic_identity: whose log it is.
        lock: held by whatever changes the log.
        reporting_appends: `reporting` for appends, which are many.
        validation_metrics: what was wrong with refused appends, counted.
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
        disk: Disk = DISK,
    ) -> None:
        self.lock = threading.RLock()
        self.local_log = local_log
        self.leader_epoch_cache = leader_epoch_cache
        self.producer_state = producer_state
        self.validation_metrics = validation_metrics or ValidationMetrics()
        self._disk = disk
        self._channel = local_log.log_dir_failure_channel
        self._log_dir = local_log.parent_dir
        self._where = f" {local_log.topic_partition} in {self._log_dir}"
        self.reporting_appends = self.reporting("cannot append to")
        self.watermarks = Watermarks(local_log, producer_state, log_start_offset, self.lock)
        first = local_log.segments.first
        self.watermarks.move_log_start(
            max(log_start_offset, 0 if first is None else first.base_offset)
        )
        self.watermarks.refresh_first_unstable()
        self.topic_identity = TopicIdentity(
            local_log.folder, self.topic_partition, topic_id, self.scheduler, self.reporting, disk
        )
        self._is_closed = False

    def __repr__(self) -> str:
        return (
            f"UnifiedLog({self.folder}, {self.log_start_offset}..{self.log_end_offset},"
            f" high watermark {self.high_watermark}, last stable offset {self.last_stable_offset})"
        )

    @property
    def folder(self) -> str:
        """Where the log is."""
        return self.local_log.folder

    @property
    def parent_dir(self) -> str:
        """The log dir that holds the folder."""
        return self.local_log.parent_dir

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.local_log.name

    @property
    def is_future(self) -> bool:
        """Whether it is to take the place of another log of its partition."""
        return self.local_log.is_future

    @property
    def topic_partition(self) -> TopicPartition:
        """Whose log it is."""
        return self.local_log.topic_partition

    @property
    def topic_id(self) -> str | None:
        """The topic's id in base64, if it is known."""
        return self.topic_identity.topic_id

    @property
    def config(self) -> LogConfig:
        """How the log is kept."""
        return self.local_log.config

    @property
    def clock(self) -> Clock:
        """Tells the time."""
        return self.local_log.clock

    @property
    def scheduler(self) -> Scheduler:
        """Does what can wait."""
        return self.local_log.scheduler

    @property
    def recovery_point(self) -> Offset:
        """The first offset that may not be on the disk yet."""
        return self.local_log.recovery_point

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that readers may ask for."""
        return self.watermarks.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """The offset of the next record."""
        return self.local_log.log_end_offset

    @property
    def log_end_offset_metadata(self) -> LogOffsetMetadata:
        """The offset of the next record, and its place."""
        return self.local_log.log_end_offset_metadata

    @property
    def high_watermark(self) -> Offset:
        """The first offset that is not known to be on all replicas in sync."""
        return self.watermarks.high_watermark

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Where the first transaction begins whose fate is not known everywhere."""
        return self.watermarks.first_unstable_offset

    @property
    def last_stable_offset(self) -> Offset:
        """Below it every transaction is decided, and everything replicated."""
        return self.watermarks.last_stable_offset

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch that is known."""
        return self.leader_epoch_cache.latest_epoch

    @property
    def segments(self) -> list[WritableSegment]:
        """All segments, the oldest first."""
        with self.lock:
            return list(self.local_log.segments)

    @property
    def active_segment(self) -> WritableSegment:
        """The one that takes appends."""
        return self.local_log.segments.active_segment

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.local_log.segments.size

    @property
    def is_empty(self) -> bool:
        """Whether readers find nothing."""
        return self.log_start_offset == self.log_end_offset

    def ensure_open(self) -> None:
        """Refuse changes of a log that was closed.

        Raises:
            StateError: it was.
        """
        if self._is_closed:
            raise StateError(f"the log of {self.topic_partition} is closed")
        self.local_log.check_if_memory_mapped_buffer_closed()

    def reporting(self, what: str) -> AbstractContextManager[None]:
        """For what touches the disk: an OSError inside takes the log dir offline."""
        return self._channel.reporting(self._log_dir, what + self._where)
