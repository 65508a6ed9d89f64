"""Which logs are being cleaned, and up to where each was: Kafka's LogCleanerManager."""

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
    """What a cleaning that was begun is at."""

    IN_PROGRESS = "in progress"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Paused:
    """No cleaning is begun; `count` is how many times it has to be resumed."""

    count: int


CleaningState = Cleaning | Paused


class CleanerState:
    """What is cleaned, paused or not to be cleaned. Threads share it; one lock guards all of it.

    Args:
        log_dirs: each has its checkpoint file.
        logs: the logs of all of them; may change at any time.
        disk: where the checkpoints lie.
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
        """Up to where each log was cleaned; those of a checkpoint that cannot be read are left out."""
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
        """Write the checkpoint of a log dir, without logs that are gone.

        A failure is logged only: what was cleaned may be cleaned again.

        Args:
            log_dir: one that failed before is passed over.
            update: up to where a log was cleaned.
            remove: a log that is not to be in it any more.
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
        """Follow a log that moved to another log dir."""
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
        """Leave a log dir alone from now on."""
        with self._lock:
            self._checkpoints.pop(os.fspath(log_dir), None)

    # Choosing

    def grab_filthiest_compacted_log(
        self, now: Timestamp, stats: PreCleanStats | None = None
    ) -> LogToClean | None:
        """Return the dirtiest log that is worth it; its cleaning is in progress then.

        Raises:
            LogCleaningError: how dirty a log is cannot be found out.
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
                of, f"how dirty {of.topic_partition} is cannot be found out: {error}"
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
        """Return all compacted logs that nothing is done with; a cleaning of each is in progress then.

        Also those without the policy delete: segments may lie below their log start.
        """
        with self._lock:
            found = dict(self._idle_compacted_logs())
            self._states.update(dict.fromkeys(found, Cleaning.IN_PROGRESS))
            return found

    def pause_cleaning_for_non_compacted_partitions(self) -> dict[TopicPartition, UnifiedLog]:
        """Return all logs without compaction that nothing is done with, for retention; each is paused once then.

        So a cleaning does not begin, should the policy change while retention deletes.
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
        """What is done with a log; None for nothing."""
        with self._lock:
            return self._states.get(partition)

    def abort_cleaning(self, partition: TopicPartition) -> None:
        """Wait until a log is not being cleaned. Raises as `abort_and_pause_cleaning`."""
        with self._lock:
            self.abort_and_pause_cleaning(partition)
            self.resume_cleaning([partition])

    def abort_and_pause_cleaning(self, partition: TopicPartition) -> None:
        """Wait until a log is not being cleaned; it is not cleaned then until `resume_cleaning`.

        Each call counts.

        Raises:
            StateError: it is being aborted already.
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
            StateError: one is not paused.
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
        """Stop a cleaning that was aborted.

        Raises:
            LogCleaningAbortedError: it was.
        """
        with self._lock:
            if self._states.get(partition) is Cleaning.ABORTED:
                raise LogCleaningAbortedError(f"the cleaning of {partition} was aborted")

    def done_cleaning(
        self, partition: TopicPartition, log_dir: StrPath, end_offset: Offset
    ) -> None:
        """End a cleaning: up to `end_offset`, which is checkpointed, or paused if it was aborted.

        Raises:
            StateError: none was in progress.
        """
        with self._lock:
            if self._states.get(partition) is Cleaning.IN_PROGRESS:
                self.update_checkpoints(log_dir, update=(partition, end_offset))
            self._done(partition)

    def done_deleting(self, partitions: Iterable[TopicPartition]) -> None:
        """End what `deletable_logs` began.

        Raises:
            StateError: nothing was in progress.
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
        """Do not clean a log again: it failed in a way that was not expected."""
        with self._lock:
            self._uncleanable.setdefault(log_dir, set()).add(partition)

    def is_uncleanable(self, log_dir: str, partition: TopicPartition) -> bool:
        """Return whether it was marked so."""
        with self._lock:
            return partition in self._uncleanable.get(log_dir, ())

    def uncleanable_partitions(self, log_dir: str) -> set[TopicPartition]:
        """Those of a log dir that were marked so."""
        with self._lock:
            return set(self._uncleanable.get(log_dir, ()))

    def maintain_uncleanable_partitions(self) -> None:
        """Forget those that are gone."""
        with self._lock:
            for folder, partitions in list(self._uncleanable.items()):
                partitions.intersection_update(self._logs)
                if not partitions:
                    del self._uncleanable[folder]


def _name(state: CleaningState | None) -> str:
    if state is None:
        return "idle"
    return "paused" if isinstance(state, Paused) else state.value
