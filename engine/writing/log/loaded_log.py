"""Load the log of a folder as a broker does, by our own rules."""

from __future__ import annotations

from typing import NamedTuple

from engine.clock import SYSTEM_CLOCK, Clock
from engine.disk.disk import DISK, Disk, StrPath
from engine.log.log_segments import LogSegments
from engine.units import Offset
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LogEpochCheckpoint
from engine.writing.log.loading_steps import OUR_LOADING_RULES
from engine.writing.log.log_loader import LoadedLogOffsets, LogLoader
from engine.writing.log_config import MINUTE_MS, LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.log_folder import WritableLogFolder, parse_topic_partition_name
from engine.writing.scheduler import Scheduler
from engine.writing.segment.writable_segment import WritableSegment
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache
from engine.writing.state.producer_state_manager import (
    ProducerStateManager,
    ProducerStateManagerConfig,
)


class LoadedLog(NamedTuple):
    """A log as its loading left it; its files are open.

    Attributes:
        folder: folder, configuration, scheduler, clock and disk of the log.
        segments: at least one.
        leader_epochs: leader epochs.
        producers: state of the producers.
        offsets: log start, recovery point, log end.
    """

    folder: WritableLogFolder
    segments: LogSegments[WritableSegment]
    leader_epochs: LeaderEpochFileCache
    producers: ProducerStateManager
    offsets: LoadedLogOffsets


def load_log(
    folder: StrPath,
    config: LogConfig,
    scheduler: Scheduler,
    *,
    log_start_offset: Offset = 0,
    recovery_point: Offset = 0,
    clock: Clock = SYSTEM_CLOCK,
    max_transaction_timeout_ms: int = 15 * MINUTE_MS,
    producer_state_config: ProducerStateManagerConfig | None = None,
    log_dir_failure_channel: LogDirFailureChannel | None = None,
    last_shutdown_clean: bool = True,
    disk: Disk = DISK,
) -> LoadedLog:
    """Load the log of a folder, or create one; a log that was not closed cleanly is recovered.

    Args:
        folder: folder with the name of the partition, created if missing.
        config: configuration of the log.
        scheduler: runs delayed flushes and deletions.
        log_start_offset: log start in the checkpoint of the log dir.
        recovery_point: recovery point in the checkpoint of the log dir.
        clock: source of the time.
        max_transaction_timeout_ms: milliseconds after which a transaction is late.
        producer_state_config: expiration of producers.
        log_dir_failure_channel: receives I/O errors of the log dir.
        last_shutdown_clean: whether the last broker stopped cleanly.
        disk: disk to read and write with.

    Raises:
        InvalidNameError: the name of the folder is not that of a partition's log.
        ValueError: the log cannot be loaded; see `LogLoader.load`.
        LogDirFailureError: the disk fails.
    """
    partition = parse_topic_partition_name(folder)
    log_folder = WritableLogFolder(
        folder, partition, config, scheduler, clock, log_dir_failure_channel, disk
    )
    with log_folder.reporting("cannot load the log of"):
        disk.make_folder(folder)
        epochs = LeaderEpochFileCache(partition, LogEpochCheckpoint(log_folder), scheduler)
        producers = ProducerStateManager(
            partition, folder, max_transaction_timeout_ms, producer_state_config, clock, disk
        )
        segments: LogSegments[WritableSegment] = LogSegments()
        offsets = LogLoader(
            log_folder,
            last_shutdown_clean,
            segments,
            log_start_offset,
            recovery_point,
            epochs,
            producers,
            OUR_LOADING_RULES,
        ).load()
    return LoadedLog(log_folder, segments, epochs, producers, offsets)
