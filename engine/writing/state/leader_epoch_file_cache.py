"""The leader epochs of a log that is written to, kept in its leader-epoch-checkpoint.

See LeaderEpochFileCache in Kafka. The entries are a LeaderEpochCache, a value that never changes: who
asks takes no lock, who changes something puts another in its place.
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

log = logging.getLogger(__name__)


class EpochCheckpoint(Protocol):
    """Where the entries are kept: a LeaderEpochCheckpointFile."""

    def read(self) -> list[EpochEntry]:
        """Return the entries that are kept; none when there is no file yet."""

    def write(self, entries: Sequence[EpochEntry]) -> None:
        """Keep other entries, on the device when this returns."""

    def write_if_dir_exists(self, entries: Sequence[EpochEntry]) -> None:
        """The same, or nothing at all when the log's folder is gone or renamed."""


class LeaderEpochFileCache:
    """Epochs and their first offsets, both only growing.

    `assign` returns when the file has the new entry. A truncation leaves the file to the scheduler: an
    entry too many is harmless, since whoever loads the log truncates again.

    Args:
        topic_partition: whose epochs these are.
        checkpoint: read now, and written with each change.
        scheduler: writes the file after a truncation; without one it is written at once.
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
        """All entries, the oldest first."""
        return self._epochs.entries

    @property
    def latest_entry(self) -> EpochEntry | None:
        """Newest entry."""
        return self._epochs.latest

    @property
    def latest_epoch(self) -> int | None:
        """Newest epoch that has records."""
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
        """Where an epoch begins."""
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
        """Return the epoch that an offset was written in, None below the first entry."""
        return self._epochs.epoch_for(offset)

    def end_offset_for(self, epoch: int, log_end_offset: Offset) -> tuple[int, Offset] | None:
        """Return the largest known epoch up to `epoch`, and the offset where the next one begins.

        For the latest epoch that is the log end. For an epoch before all that are known: the epoch itself
        and the first known offset. None for a negative epoch or one past the latest, where Kafka says
        (-1, -1).
        """
        return self._epochs.end_offset_for(epoch, log_end_offset)

    def epoch_entries_in_range(self, start_offset: Offset, end_offset: Offset) -> list[EpochEntry]:
        """What would be left after truncating to [start, end); a negative offset truncates nothing."""
        return _until(_from(self._epochs.entries, start_offset), end_offset)

    def assign(self, epoch: int, start_offset: Offset) -> bool:
        """Begin an epoch; True when that changed anything, and then it is in the file.

        An epoch that is the latest already keeps its offset, unless the new one is lower. Entries that
        contradict the new one, by epoch or by offset, go.

        Raises:
            ValueError: a number is negative; nothing has changed.
        """
        if self._epochs.has_begun(epoch, start_offset):  # as most have: it is asked for each append
            return False
        with self._lock:
            changed = self._take(EpochEntry(epoch, start_offset))
            if changed:
                self._checkpoint.write(self.epoch_entries)
        return changed

    def assign_all(self, entries: Iterable[EpochEntry]) -> None:
        """Begin several epochs, and write the file once. Raises ValueError as `assign` does."""
        entries = list(entries)
        for entry in entries:
            LeaderEpochCache([entry])  # refuses negative numbers before anything has changed
        if entries:
            with self._lock:
                for entry in entries:
                    self._take(entry)
                self._checkpoint.write(self.epoch_entries)

    def truncate_from_end_async_flush(self, end_offset: Offset) -> None:
        """Forget the epochs that begin at or after an offset; a negative one changes nothing."""
        with self._lock:
            before = self.epoch_entries
            left = _until(before, end_offset)
            if len(left) < len(before):
                self._put(left)
                self._write_later()

    def truncate_from_start_async_flush(self, start_offset: Offset) -> None:
        """Let the log begin at an offset: its epoch begins there too, and those before are forgotten."""
        with self._lock:
            before = self.epoch_entries
            if before and before[0].start_offset <= start_offset:
                self._put(_from(before, start_offset))
                self._write_later()

    def clear(self) -> None:
        """Forget all, but leave the file."""
        with self._lock:
            self._put([])

    def clear_and_flush(self) -> None:
        """Forget all, in the file too."""
        with self._lock:
            self.clear()
            self._checkpoint.write([])

    def write_if_dir_exists(self) -> None:
        """Bring the file up to date, unless the log's folder is gone.

        The lock is held meanwhile: newer entries must not be written over with older ones.
        """
        with self._lock:
            self._checkpoint.write_if_dir_exists(self.epoch_entries)

    def with_checkpoint(self, checkpoint: EpochCheckpoint) -> Self:
        """Return the same entries above another file, which is neither read nor written now."""
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
        # An epoch without records goes without a word when the next begins at the same offset.
        if len(lost) > 1 or (lost and lost[0].start_offset != entry.start_offset):
            log.warning("%s: %s removed %s", self._topic_partition, entry, lost)
        return True

    def _write_later(self) -> None:
        if self._scheduler is None:
            self.write_if_dir_exists()
        else:
            self._scheduler.schedule(
                f"leader-epoch-cache-flush-{self._topic_partition}", self.write_if_dir_exists
            )


def _from(entries: list[EpochEntry], start_offset: Offset) -> list[EpochEntry]:
    """Return the entries of a log that begins at an offset, in which the first of them begins."""
    gone = list(takewhile(lambda entry: entry.start_offset <= start_offset, entries))
    if not gone:
        return entries
    return [EpochEntry(gone[-1].epoch, start_offset), *entries[len(gone) :]]


def _until(entries: list[EpochEntry], end_offset: Offset) -> list[EpochEntry]:
    if end_offset < 0:
        return entries
    reverse = dropwhile(lambda entry: entry.start_offset >= end_offset, reversed(entries))
    return list(reverse)[::-1]
