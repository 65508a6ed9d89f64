"""Choose the log to clean next, and track running, paused and failed cleanings: Kafka's LogCleanerManager."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from engine.broker.cleaning.cleaner_checkpoints import CleanerCheckpoints
from engine.broker.cleaning.cleaner_stats import PreCleanStats
from engine.broker.cleaning.log_to_clean import (
    LogCleaningError,
    LogToClean,
    cleanable_offsets,
    compaction_delay,
)
from engine.broker.log.unified_log import UnifiedLog
from engine.disk.disk import DISK, Disk, StrPath
from engine.errors import LogCleaningAbortedError, StateError
from engine.units import Offset, Timestamp, TopicPartition

_LOOK_AGAIN_SECONDS = 0.1


class Cleaning(Enum):
    """Stage of a started cleaning."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Paused:
    """A log that may not be cleaned before `count` calls of `resume_cleaning`."""

    count: int


CleaningState = Cleaning | Paused


class CleanerState:
    """State of all cleanings: running, paused, uncleanable. Safe from several threads, by one lock.

    Args:
        log_dirs: log dirs, each with its checkpoint file.
        logs: logs of all log dirs; may change at any time.
        disk: disk of the checkpoints.

    Attributes:
        checkpoints: ends of the cleaned parts.
    """

    def __init__(
        self,
        log_dirs: Iterable[StrPath],
        logs: Mapping[TopicPartition, UnifiedLog],
        *,
        disk: Disk = DISK,
    ) -> None:
        self._logs = logs
        self._lock = threading.Condition(threading.RLock())
        self._states: dict[TopicPartition, CleaningState] = {}
        self._uncleanable: dict[str, set[TopicPartition]] = {}
        self.checkpoints = CleanerCheckpoints(log_dirs, logs, disk)

    # Choosing

    def grab_filthiest_compacted_log(
        self, now: Timestamp, stats: PreCleanStats | None = None
    ) -> LogToClean | None:
        """Return the dirtiest log worth cleaning, and mark its cleaning as in progress.

        Raises:
            LogCleaningError: the dirty part of a log cannot be determined.
        """
        stats = stats if stats is not None else PreCleanStats()
        with self._lock:
            checkpoints = self.checkpoints.all()
            dirty = [
                self._measure(log, checkpoints.get(partition), now, stats)
                for partition, log in self._idle_compacted_logs()
            ]
            worth_it = [candidate for candidate in dirty if candidate.is_worth_it]
            if not worth_it:
                return None
            stats.cleanable_partitions = len(worth_it)
            filthiest = max(worth_it, key=lambda candidate: candidate.cleanable_ratio)
            self._states[filthiest.topic_partition] = Cleaning.IN_PROGRESS
            return filthiest

    def _measure(
        self, log: UnifiedLog, checkpointed: Offset | None, now: Timestamp, stats: PreCleanStats
    ) -> LogToClean:
        try:
            offsets = cleanable_offsets(log, checkpointed, now)
            if offsets.force_update_checkpoint:
                update = log.topic_partition, offsets.first_dirty_offset
                self.checkpoints.update(log.parent_dir, update=update)
            delay = compaction_delay(log, offsets.first_dirty_offset, now)
            stats.note_compaction_delay(delay)
            return LogToClean.of(
                log, offsets.first_dirty_offset, offsets.first_uncleanable_dirty_offset, delay > 0
            )
        except Exception as error:
            raise LogCleaningError(
                log, f"cannot determine how dirty {log.topic_partition} is: {error}"
            ) from error

    def _idle_compacted_logs(self) -> list[tuple[TopicPartition, UnifiedLog]]:
        return [
            (partition, log)
            for partition, log in list(self._logs.items())
            if log.config.compact
            and partition not in self._states
            and not self.is_uncleanable(log.parent_dir, partition)
        ]

    def deletable_logs(self) -> dict[TopicPartition, UnifiedLog]:
        """Return all idle compacted logs, and mark their cleanings as in progress.

        Includes logs without the policy delete: segments may be below their log start.
        """
        with self._lock:
            found = dict(self._idle_compacted_logs())
            self._states.update(dict.fromkeys(found, Cleaning.IN_PROGRESS))
            return found

    def pause_cleaning_for_non_compacted_partitions(self) -> dict[TopicPartition, UnifiedLog]:
        """Return all idle logs without compaction, for retention, and pause each once.

        The pause keeps a cleaning from starting if the policy changes while retention deletes.
        """
        with self._lock:
            found = {
                partition: log
                for partition, log in list(self._logs.items())
                if not log.config.compact and partition not in self._states
            }
            self._states.update(dict.fromkeys(found, Paused(1)))
            return found

    # States

    def cleaning_state(self, partition: TopicPartition) -> CleaningState | None:
        """Return the state of a log's cleaning; None if idle."""
        with self._lock:
            return self._states.get(partition)

    def abort_cleaning(self, partition: TopicPartition) -> None:
        """Abort the cleaning of a log and wait for its end. Raises as `abort_and_pause_cleaning` does."""
        with self._lock:
            self.abort_and_pause_cleaning(partition)
            self.resume_cleaning([partition])

    def abort_and_pause_cleaning(self, partition: TopicPartition) -> None:
        """Abort the cleaning of a log, wait for its end, and pause the log until `resume_cleaning`.

        Pauses are counted.

        Raises:
            StateError: the cleaning is being aborted already.
        """
        with self._lock:
            state = self._states.get(partition)
            if state is Cleaning.ABORTED:
                raise StateError(f"the cleaning of {partition} is being aborted already")
            if isinstance(state, Paused):
                self._states[partition] = Paused(state.count + 1)
            elif state is None:
                self._states[partition] = Paused(1)
            else:
                self._states[partition] = Cleaning.ABORTED
            while not isinstance(self._states.get(partition), Paused):
                self._lock.wait(_LOOK_AGAIN_SECONDS)

    def resume_cleaning(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo one pause of each log.

        Raises:
            StateError: a log is not paused.
        """
        with self._lock:
            for partition in partitions:
                state = self._states.get(partition)
                if not isinstance(state, Paused):
                    raise StateError(
                        f"the cleaning of {partition} is not paused but {_name(state)}"
                    )
                if state.count > 1:
                    self._states[partition] = Paused(state.count - 1)
                else:
                    del self._states[partition]

    def check_cleaning_aborted(self, partition: TopicPartition) -> None:
        """Raise an error if a cleaning was aborted.

        Raises:
            LogCleaningAbortedError: the cleaning was aborted.
        """
        with self._lock:
            if self._states.get(partition) is Cleaning.ABORTED:
                raise LogCleaningAbortedError(f"the cleaning of {partition} was aborted")

    def done_cleaning(
        self, partition: TopicPartition, log_dir: StrPath, end_offset: Offset
    ) -> None:
        """End a cleaning: checkpoint `end_offset`, or pause the log if the cleaning was aborted.

        Raises:
            StateError: no cleaning was in progress.
        """
        with self._lock:
            if self._states.get(partition) is Cleaning.IN_PROGRESS:
                self.checkpoints.update(log_dir, update=(partition, end_offset))
            self._done(partition)

    def done_deleting(self, partitions: Iterable[TopicPartition]) -> None:
        """End the cleanings that `deletable_logs` started.

        Raises:
            StateError: no cleaning was in progress.
        """
        with self._lock:
            for partition in partitions:
                self._done(partition)

    def _done(self, partition: TopicPartition) -> None:
        state = self._states.get(partition)
        if state is Cleaning.IN_PROGRESS:
            del self._states[partition]
        elif state is Cleaning.ABORTED:
            self._states[partition] = Paused(1)
            self._lock.notify_all()
        else:
            raise StateError(f"the cleaning of {partition} is not in progress but {_name(state)}")

    # Uncleanable logs

    def alter_checkpoint_dir(
        self, partition: TopicPartition, source: StrPath, destination: StrPath
    ) -> None:
        """Move a log's checkpoint entry and its mark to another log dir."""
        with self._lock:
            self.checkpoints.move(partition, source, destination)
            if self.is_uncleanable(os.fspath(source), partition):
                self._uncleanable[os.fspath(source)].remove(partition)
                self.mark_uncleanable(os.fspath(destination), partition)

    def mark_uncleanable(self, log_dir: str, partition: TopicPartition) -> None:
        """Mark a log never to be cleaned again, after an unexpected failure."""
        with self._lock:
            self._uncleanable.setdefault(log_dir, set()).add(partition)

    def is_uncleanable(self, log_dir: str, partition: TopicPartition) -> bool:
        """Return whether a log is marked as uncleanable."""
        with self._lock:
            return partition in self._uncleanable.get(log_dir, ())

    def uncleanable_partitions(self, log_dir: str) -> set[TopicPartition]:
        """Return the uncleanable logs of a log dir."""
        with self._lock:
            return set(self._uncleanable.get(log_dir, ()))

    def maintain_uncleanable_partitions(self) -> None:
        """Remove the marks of deleted logs."""
        with self._lock:
            for folder, partitions in list(self._uncleanable.items()):
                partitions.intersection_update(self._logs)
                if not partitions:
                    del self._uncleanable[folder]


def _name(state: CleaningState | None) -> str:
    if state is None:
        return "idle"
    return "paused" if isinstance(state, Paused) else state.value
