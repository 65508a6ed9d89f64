"""All logs of one or more log dirs, as in a broker: load, create, maintain, delete and close them.

Kafka's LogManager, with the parts of ReplicaManager for log dirs: the checkpoint of high
watermarks, and the removal of failed log dirs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from engine.broker.cleaning.log_cleaner import CleanerConfig, LogCleaner
from engine.broker.log.unified_log import UnifiedLog
from engine.broker.log_dirs.log_checkpoints import LogCheckpoints
from engine.broker.log_dirs.log_deletions import LogDeletions
from engine.broker.log_dirs.log_dir import LogDir
from engine.broker.log_dirs.log_dir_set import LogDirSet
from engine.broker.log_dirs.log_dir_settings import LogDirSettings
from engine.broker.log_dirs.log_loading import FolderToLoad, load_folders, report, run_for_each
from engine.broker.log_dirs.log_placement import LogPlacement
from engine.broker.log_dirs.log_registry import LogRegistry, folder_state
from engine.broker.log_dirs.log_removal import LogRemoval
from engine.broker.log_dirs.log_tasks import LogTasks
from engine.clock import SYSTEM_CLOCK, Clock
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import InconsistentTopicIdError, StateError
from engine.files.file_names import FolderState
from engine.units import Offset, TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.log_dir_failures import LogDirFailureChannel
from engine.writing.log_folder import log_stray_dir_name, parse_topic_partition_name
from engine.writing.scheduler import Scheduler

logger = logging.getLogger(__name__)


class LogManager:
    """Logs of log dirs that this process has locked. Safe from several threads; a context manager.

    A log dir with an I/O error goes offline with its logs, and the others go on.

    Args:
        log_dirs: paths, created if missing.
        scheduler: runs the periodic tasks after `startup`.
        config: configuration of topics without their own.
        topic_configs: configurations of single topics.
        settings: intervals of the periodic tasks.
        cleaner: configuration of the cleaner, which `startup` starts; None for no cleaner.
        clock: source of the time.
        channel: receives I/O errors.
        disk: disk to write with.

    Attributes:
        dirs: the log dirs.
        registry: their logs.
        checkpoints: writes the log dirs' checkpoints.
        cleaner: cleaner of compacted logs; None without one.
        deletions: logs that wait for the removal of their files.
        tasks: the periodic tasks.
        removal: truncates, deletes and replaces logs.
        placement: chooses the log dirs of new logs.

    Raises as LogDirSet does.
    """

    def __init__(
        self,
        log_dirs: Sequence[StrPath],
        scheduler: Scheduler,
        config: LogConfig | None = None,
        *,
        topic_configs: Mapping[str, LogConfig] | None = None,
        settings: LogDirSettings | None = None,
        cleaner: CleanerConfig | None = None,
        clock: Clock = SYSTEM_CLOCK,
        channel: LogDirFailureChannel | None = None,
        disk: Disk = DISK,
    ) -> None:
        self.scheduler = scheduler
        self.config = config or LogConfig()
        self.topic_configs = dict(topic_configs or {})
        self.settings = settings or LogDirSettings()
        self._clock = clock
        self._disk = disk
        self._is_shut_down = False
        self.dirs = LogDirSet(log_dirs, channel, disk)
        self.registry = LogRegistry()
        self.checkpoints = LogCheckpoints(self.dirs, self.registry)
        self.cleaner: LogCleaner | None = None
        if cleaner is not None:
            self.cleaner = LogCleaner(
                [*self.dirs.live], self.registry.current, cleaner, clock=clock, disk=disk
            )
        self.deletions = LogDeletions(clock)
        self.tasks = LogTasks(
            self.dirs, self.registry, self.checkpoints, self.cleaner, self.settings, clock
        )
        self.removal = LogRemoval(
            self.dirs, self.registry, self.checkpoints, self.cleaner, self.deletions
        )
        self.placement = LogPlacement(self.dirs, self.registry)

    def __repr__(self) -> str:
        return f"LogManager({self.dirs.paths}, {len(self.registry.all)} logs)"

    def __enter__(self) -> Self:
        try:
            self.startup()
        except BaseException:
            self.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    # Startup and shutdown

    def startup(self, is_stray: Callable[[UnifiedLog], bool] | None = None) -> None:
        """Load all logs, recover those that were not closed cleanly, and start the periodic tasks.

        Args:
            is_stray: returns whether a log does not belong here and is set aside.

        Raises:
            InvalidNameError: a folder in a log dir has a name that no broker gives.
            StateError: a partition has two logs.
        """
        load_folders(
            [*self.dirs.live.values()],
            lambda folder: self._load(folder, is_stray or _belongs_here),
            self.settings.threads_per_log_dir,
            self.dirs.channel,
        )
        self.tasks.handle_failures()
        self.tasks.schedule(self.scheduler)
        self._delete_logs_in(self.settings.initial_task_delay_ms)
        if self.cleaner is not None:
            self.cleaner.start()

    def _load(self, folder: FolderToLoad, is_stray: Callable[[UnifiedLog], bool]) -> None:
        partition = parse_topic_partition_name(folder.path)
        loaded = self._create(
            folder.path,
            partition,
            log_start_offset=folder.log_start_offsets.get(partition, 0),
            recovery_point=folder.recovery_points.get(partition, 0),
            last_shutdown_clean=folder.log_dir.had_clean_shutdown,
        )
        state = folder_state(loaded)
        if state is FolderState.DELETE:
            self.deletions.add(loaded)
        elif state is FolderState.STRAY:
            self.registry.stray[partition] = loaded
        elif is_stray(loaded):
            loaded.rename_folder(log_stray_dir_name(partition), should_reinitialize=False)
            self.registry.stray[partition] = loaded
            logger.warning("%s is stray, and is %s now", folder.path, loaded.folder)
        else:
            loaded.update_high_watermark(folder.high_watermarks.get(partition, 0))
            try:
                self.registry.add_loaded(loaded)
            except StateError:
                loaded.close_handlers()
                raise
            self._refresh_config(loaded)

    def _create(
        self,
        folder: str,
        partition: TopicPartition,
        *,
        log_start_offset: Offset = 0,
        recovery_point: Offset = 0,
        last_shutdown_clean: bool = True,
        topic_id: str | None = None,
    ) -> UnifiedLog:
        settings = self.settings
        return UnifiedLog.create(
            folder,
            self.config_of(partition.topic),
            self.scheduler,
            log_start_offset=log_start_offset,
            recovery_point=recovery_point,
            clock=self._clock,
            max_transaction_timeout_ms=settings.max_transaction_timeout_ms,
            producer_state_config=settings.producer_state,
            producer_id_expiration_check_interval_ms=settings.producer_id_expiration_check_ms,
            log_dir_failure_channel=self.dirs.channel,
            last_shutdown_clean=last_shutdown_clean,
            topic_id=topic_id,
            disk=self._disk,
        )

    def _delete_logs_in(self, delay_ms: int) -> None:
        self.scheduler.schedule("delete-logs", self._delete_logs, delay_ms)

    def _delete_logs(self) -> None:
        if not self._is_shut_down:
            self._delete_logs_in(self.deletions.delete_due(self.config.file_delete_delay_ms))

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flush and close all logs, write the checkpoints and the clean shutdown files, release the locks.

        A log dir gets the file only if all its logs were loaded and could be closed. May be called twice.
        """
        with self.registry.lock:
            if self._is_shut_down:
                return
            self._is_shut_down = True
        self.tasks.cancel()
        if self.cleaner is not None:
            self.cleaner.shutdown()
        logs = {each: self.registry.in_dir(each.path) for each in [*self.dirs.live.values()]}
        try:
            failures = run_for_each(logs, _flush_and_close, self.settings.threads_per_log_dir)
            for log_dir, errors in failures.items():
                for error in errors:
                    logger.error("a log of %s was not closed properly", log_dir, exc_info=error)
                if not errors:
                    self._mark_clean(log_dir, broker_epoch)
        finally:
            self.deletions.close()
            for each in [*self.registry.all, *self.registry.stray.values()]:
                each.close_handlers()
            self.dirs.unlock_all()

    def _mark_clean(self, log_dir: LogDir, broker_epoch: int) -> None:
        self.checkpoints.write_recovery_points(log_dir.path)
        self.checkpoints.write_log_start_offsets(log_dir.path)
        self.checkpoints.write_high_watermarks(log_dir.path)
        if log_dir.is_loaded and self.dirs.is_online(log_dir.path):
            try:
                log_dir.clean_shutdown.write(broker_epoch)
            except OSError as error:
                report(self.dirs.channel, log_dir.path, "cannot be marked as closed", error)

    # Logs

    def config_of(self, topic: str) -> LogConfig:
        """Return the configuration of a topic's logs."""
        return self.topic_configs.get(topic, self.config)

    def _refresh_config(self, log: UnifiedLog) -> None:
        """Give a log that has just been added the configuration that changed while it was made."""
        config = self.config_of(log.topic_partition.topic)
        if config is not log.config:
            log.update_config(config)

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """Change the configuration of a topic's logs."""
        self.topic_configs[topic] = config
        for each in self.registry.of_topic(topic):
            old = each.update_config(config)
            if self.cleaner is not None and old.compact and not config.compact:
                self.cleaner.state.abort_cleaning(each.topic_partition)

    def get_or_create_log(
        self,
        topic_partition: TopicPartition,
        *,
        is_new: bool = False,
        is_future: bool = False,
        topic_id: str | None = None,
        directory_id: str | None = None,
    ) -> UnifiedLog:
        """Return the log of a partition, created if missing.

        Args:
            topic_partition: partition of the log.
            is_new: whether the partition certainly has no log, not even in an offline log dir.
            is_future: create a future log, which will replace the current one, in the preferred log dir.
            topic_id: topic id, in base64.
            directory_id: id of the log dir for a new log; by default the log dir with the fewest logs.

        Raises:
            LogDirFailureError: the log may be in an offline log dir, or no log dir is usable.
            InconsistentTopicIdError: the log has another topic id.
            StateError: a future log has no preferred log dir, or it is that of the current log.
            ValueError: the preferred log dir is unknown.
        """
        with self.registry.lock:
            found = self.registry.get(topic_partition, is_future=is_future)
            if found is None:
                folder = self.placement.make_folder(
                    topic_partition, is_new=is_new, is_future=is_future, directory_id=directory_id
                )
                found = self._create(folder, topic_partition, topic_id=topic_id)
                self.registry.logs(is_future=is_future)[topic_partition] = found
                self._refresh_config(found)
                self.placement.preferred.pop(topic_partition, None)
                logger.info("created %s", folder)
        if topic_id is not None and found.topic_id is not None and topic_id != found.topic_id:
            raise InconsistentTopicIdError(
                f"the log of {topic_partition} is of topic {found.topic_id}, not of {topic_id}"
            )
        return found


def _belongs_here(_: UnifiedLog) -> bool:
    return False


def _flush_and_close(log: UnifiedLog) -> None:
    """Flush a log, so that its recovery point is the log end, and close it."""
    log.flush(force_active_segment=True)
    log.close()
