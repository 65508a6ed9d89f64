"""Compact logs in the background: threads that clean the dirtiest log repeatedly, or one step per call."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass
from typing import Self

from engine.broker.cleaning.cleaner import Cleaner
from engine.broker.cleaning.cleaner_state import CleanerState
from engine.broker.cleaning.cleaner_stats import CleanerStats, PreCleanStats
from engine.broker.cleaning.log_to_clean import LogCleaningError, LogToClean
from engine.broker.cleaning.throttler import Throttler
from engine.broker.log.unified_log import UnifiedLog
from engine.clock import SYSTEM_CLOCK, Clock
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import LogCleaningAbortedError, LogDirFailureError, ThreadShutdownError
from engine.index.offset_map import HashedOffsetMap
from engine.units import MAX_INT32, Offset, TopicPartition

logger = logging.getLogger(__name__)

_LOOK_AGAIN_MS = 10


@dataclass(frozen=True, slots=True)
class CleanerConfig:
    """Configuration of the log cleaner, with a broker's defaults.

    Attributes:
        threads: number of logs cleaned at once.
        dedupe_buffer_size: bytes of all offset maps.
        dedupe_buffer_load_factor: share of a map's slots that may be used.
        io_buffer_size: bytes of all buffers for reading and writing.
        max_io_bytes_per_second: most bytes read and written by all threads.
        backoff_ms: wait before the next look for dirty logs if there was none.
    """

    threads: int = 1
    dedupe_buffer_size: int = 128 * 1024 * 1024
    dedupe_buffer_load_factor: float = 0.9
    io_buffer_size: int = 512 * 1024
    max_io_bytes_per_second: float = math.inf
    backoff_ms: int = 15_000


class LogCleaner:
    """Cleaner of the logs with the policy compact; as a context manager it cleans in threads.

    Args:
        log_dirs: log dirs with the checkpoints.
        logs: all logs in the log dirs; may change at any time.
        config: configuration.
        clock: source of the time.
        disk: disk of the checkpoints.

    Attributes:
        config: the given configuration.
        logs: the given logs.
        state: state of the cleanings, to pause and resume logs.
        last_stats: statistics of the last cleaning.
        last_pre_clean_stats: statistics of the last choice.
    """

    def __init__(
        self,
        log_dirs: Iterable[StrPath],
        logs: MutableMapping[TopicPartition, UnifiedLog],
        config: CleanerConfig | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        disk: Disk = DISK,
    ) -> None:
        self.config = config or CleanerConfig()
        self.logs = logs
        self.state = CleanerState(log_dirs, logs, disk=disk)
        self.last_stats = CleanerStats()
        self.last_pre_clean_stats = PreCleanStats()
        self._clock = clock
        self._throttler = Throttler(self.config.max_io_bytes_per_second, clock)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._by_call: Cleaner | None = None
        self._by_call_lock = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def start(self) -> None:
        """Start the cleaning threads."""
        self._stop.clear()
        for number in range(self.config.threads):
            thread = threading.Thread(target=self._run, name=f"log-cleaner-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def shutdown(self) -> None:
        """Stop the threads; a cleaning under way is discarded unless it has replaced its segments."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self._stop.clear()

    def clean_once(self) -> bool:
        """Clean the dirtiest log, and delete old segments of all compacted logs.

        Returns:
            whether a log was cleaned. A log that fails unexpectedly is marked as uncleanable, and
                counts as none.
        """
        with self._by_call_lock:
            if self._by_call is None:
                self._by_call = self._make_cleaner()
            return self._try_to_clean(self._by_call)

    def await_cleaned(self, partition: TopicPartition, offset: Offset, timeout_ms: int) -> bool:
        """Wait until a log was cleaned up to an offset; return False on timeout."""
        waited = 0
        while self.state.checkpoints.all().get(partition, -1) < offset:
            if waited >= timeout_ms:
                return False
            threading.Event().wait(_LOOK_AGAIN_MS / 1000)
            waited += _LOOK_AGAIN_MS
        return True

    def _make_cleaner(self) -> Cleaner:
        threads = max(1, self.config.threads)
        return Cleaner(
            HashedOffsetMap(min(self.config.dedupe_buffer_size // threads, MAX_INT32)),
            self._clock,
            io_buffer_size=self.config.io_buffer_size // threads // 2,
            load_factor=self.config.dedupe_buffer_load_factor,
            throttler=self._throttler,
            check_done=self._check_done,
        )

    def _run(self) -> None:
        cleaner = self._make_cleaner()
        while not self._stop.is_set():
            try:
                if not self._try_to_clean(cleaner):
                    self._stop.wait(self.config.backoff_ms / 1000)
            except ThreadShutdownError:
                break

    def _check_done(self, partition: TopicPartition) -> None:
        if self._stop.is_set():
            raise ThreadShutdownError("the log cleaner shuts down")
        self.state.check_cleaning_aborted(partition)

    def _try_to_clean(self, cleaner: Cleaner) -> bool:
        try:
            return self._clean_filthiest_log(cleaner)
        except LogCleaningError as error:
            partition = error.log.topic_partition
            logger.exception("%s is not cleaned any more", partition)
            self.state.mark_uncleanable(error.log.parent_dir, partition)
            return False
        finally:
            self.state.maintain_uncleanable_partitions()

    def _clean_filthiest_log(self, cleaner: Cleaner) -> bool:
        stats = PreCleanStats()
        cleanable = self.state.grab_filthiest_compacted_log(self._clock.now_ms(), stats)
        if cleanable is not None:
            self.last_pre_clean_stats = stats
            try:
                self._clean_log(cleaner, cleanable)
            except ThreadShutdownError:
                raise
            except Exception as error:
                raise LogCleaningError(
                    cleanable.log, f"the cleaning of {cleanable.topic_partition} failed: {error}"
                ) from error
        self._delete_old_segments()
        return cleanable is not None

    def _clean_log(self, cleaner: Cleaner, cleanable: LogToClean) -> None:
        log = cleanable.log
        end = cleanable.first_dirty_offset
        try:
            with log.log_folder.reporting("cannot clean"):
                end, stats = cleaner.clean(cleanable)
            self.last_stats = stats
            logger.info("cleaned %s up to %d: %s", log.topic_partition, end, stats)
        except LogCleaningAbortedError:
            logger.info("the cleaning of %s was aborted", log.topic_partition)
        except LogDirFailureError:
            logger.warning("%s is not cleaned: its log dir is offline", log.topic_partition)
        finally:
            self.state.done_cleaning(log.topic_partition, log.parent_dir, end)

    def _delete_old_segments(self) -> None:
        deletable = self.state.deletable_logs()
        try:
            for log in deletable.values():
                try:
                    log.delete_old_segments()
                except Exception as error:
                    raise LogCleaningError(
                        log, f"old segments of {log.topic_partition} cannot be deleted: {error}"
                    ) from error
        finally:
            self.state.done_deleting(deletable)
