"""Leader epochs of a writable log, kept in its leader-epoch-checkpoint.

See LeaderEpochFileCache in Kafka. The entries are an immutable LeaderEpochCache: readers take no
lock, a change replaces it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from itertools import dropwhile, takewhile
from typing import Protocol, Self

from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import EpochEntry, Offset, TopicPartition
from engine.writing.scheduler import Scheduler

logger = logging.getLogger(__name__)


class EpochCheckpoint(Protocol):
    """Protocol of the file that keeps the entries, a LeaderEpochCheckpointFile."""

    def read(self) -> list[EpochEntry]:
        """Return the kept entries; none without a file."""

    def write(self, entries: Sequence[EpochEntry]) -> None:
        """Replace the entries; on the device on return."""

    def write_if_dir_exists(self, entries: Sequence[EpochEntry]) -> None:
        """Replace the entries; do nothing if the log's folder is gone or renamed."""


class LeaderEpochFileCache:
    """Epochs and their start offsets, both only growing.

    `assign` returns once the file has the new entry. A truncation lets the scheduler write the
    file: an excess entry is harmless, since loading the log truncates again.

    Args:
        topic_partition: partition of the log.
        checkpoint: file that is read now and written with each change.
        scheduler: writes the file after a truncation; without a scheduler it is written at once.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        checkpoint: EpochCheckpoint,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._topic_partition = topic_partition
        self._checkpoint = checkpoint
        self._scheduler = scheduler
        self._lock = threading.RLock()
        self._epochs = LeaderEpochCache(checkpoint.read())

    def __repr__(self) -> str:
        return f"LeaderEpochFileCache({self._topic_partition}, {self.epoch_entries})"

    @property
    def is_empty(self) -> bool:
        """Whether no epoch is known."""
        return not len(self._epochs)

    @property
    def epoch_entries(self) -> list[EpochEntry]:
        """All entries, oldest first."""
        return self._epochs.entries

    @property
    def latest_entry(self) -> EpochEntry | None:
        """Newest entry."""
        return self._epochs.latest

    @property
    def latest_epoch(self) -> int | None:
        """Newest epoch."""
        latest = self._epochs.latest
        return latest.epoch if latest else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """Oldest entry."""
        return self._epochs.earliest

    def epoch_entry(self, epoch: int) -> EpochEntry | None:
        """Return the entry of exactly this epoch."""
        start = self._epochs.start_offset_of(epoch)
        return None if start is None else EpochEntry(epoch, start)

    def start_offset_of(self, epoch: int) -> Offset | None:
        """Return the start offset of an epoch, None for an unknown epoch."""
        return self._epochs.start_offset_of(epoch)

    def previous_entry(self, epoch: int) -> EpochEntry | None:
        """Return the newest entry of a smaller epoch."""
        return self._epochs.previous(epoch)

    def previous_epoch(self, epoch: int | None = None) -> int | None:
        """Return the newest epoch before this one, or before the latest."""
        epochs = self._epochs
        if epoch is None:
            if epochs.latest is None:
                return None
            epoch = epochs.latest.epoch
        previous = epochs.previous(epoch)
        return previous.epoch if previous else None

    def next_epoch(self, epoch: int) -> int | None:
        """Return the oldest epoch after this one."""
        following = self._epochs.next(epoch)
        return following.epoch if following else None

    def epoch_for_offset(self, offset: Offset) -> int | None:
        """Return the epoch of the record at an offset, None below the first entry."""
        return self._epochs.epoch_for(offset)

    def end_offset_for(self, epoch: int, log_end_offset: Offset) -> tuple[int, Offset] | None:
        """Return the largest known epoch up to `epoch`, and the start offset of the next one.

        For the latest epoch the offset is the log end. For an epoch below all known ones: the epoch
        itself and the first start offset. None for a negative epoch or one above the latest, where
        Kafka returns (-1, -1).
        """
        return self._epochs.end_offset_for(epoch, log_end_offset)

    def assign(self, epoch: int, start_offset: Offset) -> bool:
        """Start an epoch; return True if that changed the entries, then also in the file.

        The latest epoch keeps its start offset, unless the new offset is lower. Entries that
        contradict the new one, by epoch or by offset, are removed.

        Raises:
            ValueError: a number is negative; nothing has changed.
        """
        if self._epochs.has_begun(epoch, start_offset):  # the usual case: called with each append
            return False
        with self._lock:
            changed = self._take(EpochEntry(epoch, start_offset))
            if changed:
                self._checkpoint.write(self.epoch_entries)
        return changed

    def assign_all(self, entries: Iterable[EpochEntry]) -> None:
        """Start several epochs, and write the file once. Raises ValueError as `assign` does."""
        entries = list(entries)
        for entry in entries:
            LeaderEpochCache([entry])  # refuses negative numbers before any change
        if entries:
            with self._lock:
                for entry in entries:
                    self._take(entry)
                self._checkpoint.write(self.epoch_entries)

    def truncate_from_end_async_flush(self, end_offset: Offset) -> None:
        """Remove the epochs that start at or after an offset; a negative offset changes nothing."""
        with self._lock:
            before = self.epoch_entries
            left = _until(before, end_offset)
            if len(left) < len(before):
                self._put(left)
                self._write_later()

    def truncate_from_start_async_flush(self, start_offset: Offset) -> None:
        """Set the log start: its epoch starts there, and earlier epochs are removed."""
        with self._lock:
            before = self.epoch_entries
            if before and before[0].start_offset <= start_offset:
                self._put(_from(before, start_offset))
                self._write_later()

    def clear(self) -> None:
        """Remove all entries, but not from the file."""
        with self._lock:
            self._put([])

    def clear_and_flush(self) -> None:
        """Remove all entries, also from the file."""
        with self._lock:
            self.clear()
            self._checkpoint.write([])

    def write_if_dir_exists(self) -> None:
        """Write the entries to the file, unless the log's folder is gone.

        Holds the lock meanwhile, so that older entries never overwrite newer ones.
        """
        with self._lock:
            self._checkpoint.write_if_dir_exists(self.epoch_entries)

    def with_checkpoint(self, checkpoint: EpochCheckpoint) -> Self:
        """Return the same entries with another file, which is neither read nor written now."""
        made = type(self).__new__(type(self))
        made._topic_partition = self._topic_partition
        made._checkpoint = checkpoint
        made._scheduler = self._scheduler
        made._lock = threading.RLock()
        made._epochs = self._epochs
        return made

    def _put(self, entries: Iterable[EpochEntry]) -> None:
        self._epochs = LeaderEpochCache(entries)

    def _take(self, entry: EpochEntry) -> bool:
        if self._epochs.has_begun(*entry):
            return False
        before = self._epochs.entries
        self._put([*before, entry])
        lost = before[len(self._epochs) - 1 :]
        # No message for an epoch without records, replaced by the next epoch at the same offset.
        if len(lost) > 1 or (lost and lost[0].start_offset != entry.start_offset):
            logger.warning("%s: %s removed %s", self._topic_partition, entry, lost)
        return True

    def _write_later(self) -> None:
        if self._scheduler is None:
            self.write_if_dir_exists()
        else:
            self._scheduler.schedule(
                f"leader-epoch-cache-flush-{self._topic_partition}", self.write_if_dir_exists
            )


def _from(entries: list[EpochEntry], start_offset: Offset) -> list[EpochEntry]:
    """Return the entries of a log with this log start; the first entry starts there."""
    gone = list(takewhile(lambda entry: entry.start_offset <= start_offset, entries))
    if not gone:
        return entries
    return [EpochEntry(gone[-1].epoch, start_offset), *entries[len(gone) :]]


def _until(entries: list[EpochEntry], end_offset: Offset) -> list[EpochEntry]:
    if end_offset < 0:
        return entries
    reverse = dropwhile(lambda entry: entry.start_offset >= end_offset, reversed(entries))
    return list(reverse)[::-1]
