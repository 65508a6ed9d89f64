"""Track which logs are being cleaned, and how far each was cleaned: Kafka's LogCleanerManager."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from engine.broker.cleaning.cleaner_stats import PreCleanStats
from engine.broker.cleaning.log_to_clean import (
    LogCleaningError,
    LogToClean,
    cleanable_offsets,
    compaction_delay,
)
from engine.errors import KafkaStorageError, LogCleaningAbortedError, StateError
from engine.units import Offset, Timestamp, TopicPartition
from engine.writing.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.writing.disk import DISK, Disk, StrPath
from engine.writing.log.unified_log import UnifiedLog

log = logging.getLogger(__name__)

OFFSET_CHECKPOINT_FILE = "cleaner-offset-checkpoint"
_LOOK_AGAIN_SECONDS = 0.1


class Cleaning(Enum):
    """Stage of a started cleaning."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Paused:
    """A log without a cleaning; `count` resumes are needed before the next."""

    count: int


CleaningState = Cleaning | Paused


class CleanerState:
    """State of all cleanings: running, paused, uncleanable. Safe from several threads, by one lock.

    Args:
        log_dirs: log dirs, each with its checkpoint file.
        logs: logs of all log dirs; may change at any time.
        disk: disk of the checkpoints.
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
        self._checkpoints = {
            os.fspath(folder): OffsetCheckpointFile(
                os.path.join(folder, OFFSET_CHECKPOINT_FILE), disk=disk
            )
            for folder in log_dirs
        }

    # Checkpoints

    def all_checkpoints(self) -> dict[TopicPartition, Offset]:
        """Return how far each log was cleaned; unreadable checkpoints are left out."""
        found: dict[TopicPartition, Offset] = {}
        with self._lock:
            for folder, checkpoint in self._checkpoints.items():
                try:
                    found.update(checkpoint.read())
                except (KafkaStorageError, OSError):
                    log.exception("the cleaner's checkpoint of %s cannot be read", folder)
        return found

    def update_checkpoints(
        self,
        log_dir: StrPath,
        *,
        update: tuple[TopicPartition, Offset] | None = None,
        remove: TopicPartition | None = None,
    ) -> None:
        """Write the checkpoint of a log dir, without deleted logs.

        A failure is only logged: cleaning a part again is harmless.

        Args:
            log_dir: log dir; nothing is written to a failed one.
            update: end of the cleaned part of a log.
            remove: log to remove from the checkpoint.
        """
        with self._lock:
            checkpoint = self._checkpoints.get(os.fspath(log_dir))
            if checkpoint is None:
                return
            try:
                offsets = {
                    partition: offset
                    for partition, offset in checkpoint.read().items()
                    if partition in self._logs and partition != remove
                }
                if update is not None:
                    offsets[update[0]] = update[1]
                checkpoint.write(offsets)
            except (KafkaStorageError, OSError):
                log.exception("the cleaner's checkpoint of %s cannot be written", log_dir)

    def alter_checkpoint_dir(
        self, partition: TopicPartition, source: StrPath, destination: StrPath
    ) -> None:
        """Move a log's checkpoint entry to another log dir."""
        with self._lock:
            checkpoint = self._checkpoints.get(os.fspath(source))
            try:
                offset = None if checkpoint is None else checkpoint.read().get(partition)
            except (KafkaStorageError, OSError):
                log.exception("the cleaner's checkpoint of %s cannot be read", source)
                offset = None
            if offset is not None:
                self.update_checkpoints(source, remove=partition)
                self.update_checkpoints(destination, update=(partition, offset))
            if self.is_uncleanable(os.fspath(source), partition):
                self._uncleanable[os.fspath(source)].remove(partition)
                self.mark_uncleanable(os.fspath(destination), partition)

    def maybe_truncate_checkpoint(
        self, log_dir: StrPath, partition: TopicPartition, offset: Offset
    ) -> None:
        """Lower the checkpoint of a compacted log that was truncated to an offset.

        Raises:
            CorruptCheckpointError: the checkpoint cannot be read.
            OSError: the disk fails.
        """
        with self._lock:
            checkpoint = self._checkpoints.get(os.fspath(log_dir))
            if checkpoint is None or not self._logs[partition].config.compact:
                return
            offsets = checkpoint.read()
            if offsets.get(partition, 0) > offset:
                checkpoint.write({**offsets, partition: offset})

    def handle_log_dir_failure(self, log_dir: StrPath) -> None:
        """Ignore a log dir from now on."""
        with self._lock:
            self._checkpoints.pop(os.fspath(log_dir), None)

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
            checkpoints = self.all_checkpoints()
            dirty = [
                self._measure(of, checkpoints.get(partition), now, stats)
                for partition, of in self._idle_compacted_logs()
            ]
            worth_it = [candidate for candidate in dirty if candidate.is_worth_it]
            if not worth_it:
                return None
            stats.cleanable_partitions = len(worth_it)
            filthiest = max(worth_it, key=lambda candidate: candidate.cleanable_ratio)
            self._states[filthiest.topic_partition] = Cleaning.IN_PROGRESS
            return filthiest

    def _measure(
        self, of: UnifiedLog, checkpointed: Offset | None, now: Timestamp, stats: PreCleanStats
    ) -> LogToClean:
        try:
            offsets = cleanable_offsets(of, checkpointed, now)
            if offsets.force_update_checkpoint:
                update = of.topic_partition, offsets.first_dirty_offset
                self.update_checkpoints(of.parent_dir, update=update)
            delay = compaction_delay(of, offsets.first_dirty_offset, now)
            stats.note_compaction_delay(delay)
            return LogToClean.of(
                of, offsets.first_dirty_offset, offsets.first_uncleanable_dirty_offset, delay > 0
            )
        except Exception as error:
            raise LogCleaningError(
                of, f"cannot determine how dirty {of.topic_partition} is: {error}"
            ) from error

    def _idle_compacted_logs(self) -> list[tuple[TopicPartition, UnifiedLog]]:
        return [
            (partition, of)
            for partition, of in list(self._logs.items())
            if of.config.compact
            and partition not in self._states
            and not self.is_uncleanable(of.parent_dir, partition)
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
                partition: of
                for partition, of in list(self._logs.items())
                if not of.config.compact and partition not in self._states
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
                self.update_checkpoints(log_dir, update=(partition, end_offset))
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
