"""The offset checkpoints of a log dir for all its partitions, read at the first use and again when they changed.

A broker replaces them every few seconds, so they lag behind it. An unreadable one counts as missing, as it does
for a broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from time import monotonic

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.errors import DamagedFileError
from engine.files.change_watch import ChangeWatch
from engine.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from engine.files.source_files import SourceRoot
from engine.log.held_up import unless_held_up
from engine.log.segment.problems import Problems
from engine.units import Offset, TopicPartition

_MAX_AGE = 0.2


class _CheckpointFile:
    __slots__ = ("checked", "lock", "name", "offsets", "watch")

    def __init__(self, name: str) -> None:
        self.name = name
        self.offsets: dict[TopicPartition, Offset] = {}
        self.watch = ChangeWatch()
        self.checked: float | None = None
        self.lock = Lock()


class SourceCheckpoints:
    """Offsets of partitions in a log dir's checkpoints; safe from several threads.

    Args:
        root: the log dir; None for a source without one.
        problems: receives files that do not parse.
        frozen: read each file once.
        budgets: `checkpoint_bytes` is the largest file.
    """

    def __init__(
        self,
        root: SourceRoot | None,
        problems: Problems,
        *,
        frozen: bool = False,
        budgets: Budgets = DEFAULT_BUDGETS,
    ) -> None:
        self._root = root
        self._problems = problems
        self._frozen = frozen
        self._limit = budgets.checkpoint_bytes
        self._log_start = _CheckpointFile(LOG_START_OFFSET_CHECKPOINT)
        self._replication = _CheckpointFile(REPLICATION_OFFSET_CHECKPOINT)
        self._recovery = _CheckpointFile(RECOVERY_POINT_CHECKPOINT)
        self._cleaner = _CheckpointFile(CLEANER_OFFSET_CHECKPOINT)
        if frozen:
            self.read()

    def read(self) -> None:
        """Read all files that were not read or have changed."""
        for file in (self._log_start, self._replication, self._recovery, self._cleaner):
            self._offsets(file)

    def refresh(self, max_age: float) -> None:
        """Read log starts and high watermarks again if they may have changed since a look `max_age` seconds ago.

        Those that nobody asked for yet are left out.
        """
        for file in (self._log_start, self._replication):
            if file.checked is not None:
                self._offsets(file, max_age)

    def log_start_offset(self, partition: TopicPartition) -> Offset | None:
        """Return the log start, None where it is the first segment's base offset."""
        return self._offsets(self._log_start).get(partition)

    def high_watermark(self, partition: TopicPartition) -> Offset | None:
        """Return the high watermark, None if unknown."""
        return self._offsets(self._replication).get(partition)

    def recovery_point(self, partition: TopicPartition) -> Offset | None:
        """Return the recovery point, which the log is flushed up to; None if unknown."""
        return self._offsets(self._recovery).get(partition)

    def cleaner_offset(self, partition: TopicPartition) -> Offset | None:
        """Return the offset that the log is compacted up to; None if unknown."""
        return self._offsets(self._cleaner).get(partition)

    def stopped_cleanly(self) -> bool:
        """Return whether the log dir has the marker of a clean shutdown."""
        if self._root is None:
            return False
        try:
            self._root.stat(CLEAN_SHUTDOWN)
        except OSError:
            return False
        return True

    def all_high_watermarks(self) -> Mapping[TopicPartition, Offset]:
        """Return all high watermarks."""
        return self._offsets(self._replication)

    def all_recovery_points(self) -> Mapping[TopicPartition, Offset]:
        """Return all recovery points."""
        return self._offsets(self._recovery)

    def all_log_starts(self) -> Mapping[TopicPartition, Offset]:
        """Return all log starts."""
        return self._offsets(self._log_start)

    def _offsets(
        self, file: _CheckpointFile, max_age: float = _MAX_AGE
    ) -> dict[TopicPartition, Offset]:
        checked = file.checked
        if checked is not None and (self._frozen or monotonic() - checked < max_age):
            return file.offsets
        if self._root is None:
            return file.offsets
        with unless_held_up(file.lock, must_wait=checked is None) as is_mine:
            if is_mine:
                now = monotonic()
                self._read_again(self._root, file, now)
                file.checked = now
        return file.offsets

    def _read_again(self, root: SourceRoot, file: _CheckpointFile, now: float) -> None:
        """Read the file if it may have changed."""
        try:
            if not file.watch.has_changed(root.stat(file.name), now):
                return
            data = root.read(file.name, limit=self._limit)
            file.offsets = parse_offset_checkpoint(data, path=file.name)
        except FileNotFoundError:
            file.offsets, file.watch = {}, ChangeWatch()
        except (DamagedFileError, OSError) as error:
            self._problems.add_error("checkpoint", root.display(file.name), error)
            file.offsets = {}
