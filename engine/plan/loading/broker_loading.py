"""Load one log as a broker does: Kafka's UnifiedLog.create up to the loaded offsets."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from engine.clock import SYSTEM_CLOCK, Clock
from engine.disk.disk import Disk
from engine.files.file_names import FolderState
from engine.files.source_files import SourceRoot
from engine.log.log_segments import LogSegments
from engine.plan.loading.broker_epochs import BrokerEpochCheckpoint
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import LogOffsetMetadata, Offset, TopicPartition
from engine.writing.log.log_loader import LoadedLogOffsets, LoadingRules, LogLoader
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.scheduler import DeferredScheduler
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)

_MAX_TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000
"""A broker's default of transaction.max.timeout.ms."""


@dataclass(frozen=True, slots=True)
class LogToLoad:
    """A log's folder, and what its log dir states about it.

    Attributes:
        root, relative: source, and path of the folder in it.
        path: path of the folder on the disk that the log is loaded on.
        partition: topic and partition.
        state: state of the folder by its name.
        clean: whether to assume a clean stop.
        recovery_point, log_start: offsets in the checkpoints, else 0.
        is_dir_offline: whether the log dir has failed before.
    """

    root: SourceRoot
    relative: str
    path: str
    partition: TopicPartition
    state: FolderState
    clean: bool
    recovery_point: Offset = 0
    log_start: Offset = 0
    is_dir_offline: bool = False

    @property
    def is_metadata(self) -> bool:
        """Whether it is the metadata log, without which a node does not start."""
        return self.partition.topic == CLUSTER_METADATA


class BrokerLoading:
    """One loading of a log by a broker's rules.

    Args:
        log: log to load.
        rules: rules of the broker's version.
        disk: disk with the log's folder.
        config: configuration of the topic.
        producer_config: configuration of the producers' state.
        clock: the broker's clock.

    Attributes:
        segments: segments opened so far; `close` them.
        epochs: leader epochs; None until they are read.
        offsets: log start and log end; None until the log is loaded.
        recovered: base offsets of the segments that were recovered.
        first_unstable: start of the first open transaction; None without one.
        tasks: deletions that a broker does later.
    """

    def __init__(
        self,
        log: LogToLoad,
        rules: LoadingRules,
        disk: Disk,
        *,
        config: LogConfig | None = None,
        producer_config: ProducerStateManagerConfig | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._log = log
        self._rules = rules
        self._disk = disk
        self._config = config or LogConfig()
        self._producer_config = producer_config or ProducerStateManagerConfig()
        self._clock = clock
        self.segments: LogSegments[WritableSegment] = LogSegments()
        self.epochs: LeaderEpochFileCache | None = None
        self.offsets: LoadedLogOffsets | None = None
        self.recovered: Container[Offset] = ()
        self.first_unstable: LogOffsetMetadata | None = None
        self.tasks = DeferredScheduler()

    def load(self) -> LoadedLogOffsets:
        """Load the log, in the order of Kafka's UnifiedLog.create. Raises one of `EXPECTED`."""
        log, disk = self._log, self._disk
        checkpoint = BrokerEpochCheckpoint(log.path, disk)
        self.epochs = LeaderEpochFileCache(log.partition, checkpoint, self.tasks)
        producers = ProducerStateManager(
            log.partition,
            log.path,
            _MAX_TRANSACTION_TIMEOUT_MS,
            self._producer_config,
            self._clock,
            disk,
            rules=self._rules.producers,
        )
        loader = LogLoader(
            WritableLogFolder(
                log.path, log.partition, self._config, self.tasks, self._clock, disk=disk
            ),
            log.clean,
            self.segments,
            log.log_start,
            log.recovery_point,
            self.epochs,
            producers,
            self._rules,
        )
        self.recovered = loader.recovered
        try:
            self.offsets = loader.load()
        finally:
            # A loading that fails here may go on in a broker, which then looks the transaction up.
            self.first_unstable = producers.first_unstable_offset
        return self.offsets

    def close(self) -> None:
        """Close the files of all segments."""
        for segment in self.segments:
            segment.close_handlers()
