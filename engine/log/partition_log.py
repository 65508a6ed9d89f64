"""The log of a partition in a source, refreshed on request and at most every 0.2 seconds.

To refresh an unchanged log costs two system calls: a stat of the folder and one of the active segment's file. A
partition without a view costs its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import NamedTuple, Protocol

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.files.source_files import EXHAUSTED, SourceRoot
from engine.log.held_up import unless_held_up
from engine.log.segment.damage import DamageKind
from engine.log.segment.open_segments import OpenSegments
from engine.log.segment.problems import Problems
from engine.log.source_checkpoints import SourceCheckpoints
from engine.log.view.log_contents import LogContext
from engine.log.view.log_follower import LogFollower
from engine.log.view.log_view import LogView
from engine.log.view.transactions import MarkerCache
from engine.units import MAX_INT32, Offset, Timestamp, TopicPartition

MAX_AGE = 0.2
"""Seconds for which a view is returned again without a look at the files."""
_FILES_PER_SEGMENT = 2


def most_open(budgets: Budgets) -> int:
    """Return how many segments may stay open: half of the budget, and a quarter of the process's descriptors."""
    # Not by the module `resource`: in Spark's workers a package of PySpark has that name.
    limit = os.sysconf("SC_OPEN_MAX")
    return max(min(budgets.open_files // 2, limit // 4 if limit > 0 else budgets.open_files), 1)


class LogCut(Protocol):
    """Where the logs of a source end that is shown as it was at some moment.

    Attributes:
        time: the moment in milliseconds.
    """

    time: Timestamp

    def view(self, log: PartitionLog, whole: LogView) -> LogView:
        """Return a log up to its end at that moment. Raises OSError, UnsupportedCodecError."""

    def placed(self, root: SourceRoot, found: Placed) -> Placed | None:
        """Return the folder of a partition as it was, perhaps under another name; None if it was not there."""

    def close(self) -> None:
        """Close what the ends are read from."""


class Placed(NamedTuple):
    """A partition's folder in a source.

    Attributes:
        folder, name: path of the folder in the source, and name of the partition.
        topic_partition: topic and partition.
        only: the one records file to show; None for the whole folder.
        is_log: whether it is the partition's log, not a deleted, future or stray one.
        is_named: whether the folder names the partition; else `given_names` does.
    """

    folder: str
    name: str
    topic_partition: TopicPartition
    only: str | None = None
    is_log: bool = True
    is_named: bool = True

    def as_log(self) -> Placed:
        """Return the folder as the log of its partition, also one that a broker has set aside."""
        if self.is_log:
            return self
        return self._replace(name=str(self.topic_partition), is_log=True)


class Shared:
    """State that the partitions of a source share.

    Attributes:
        open_segments: decides which segments' files stay open.
        markers: cache of end markers.
        budgets: limits for reads.
        cut: where each log ends; None for its end.
        source: the LogSource.
    """

    __slots__ = ("budgets", "cut", "markers", "open_segments", "source")

    def __init__(
        self,
        budgets: Budgets = DEFAULT_BUDGETS,
        cut: LogCut | None = None,
        source: object = None,
    ) -> None:
        self.budgets = budgets
        self.cut = cut
        self.open_segments = OpenSegments(most_open(budgets))
        self.markers = MarkerCache()
        self.source = source


class ViewLag(NamedTuple):
    """How far a view is behind its log.

    Attributes:
        log_end_offset: that of the view.
        unread_bytes: bytes of the active segment behind those in the view.
        seconds: time since the view was up to date.
    """

    log_end_offset: Offset
    unread_bytes: int
    seconds: float


class PartitionLog:
    """The log of a partition; safe from several threads.

    Args:
        root: the source.
        folder: the partition's folder in it, "" for the source itself.
        name: name of the partition: that of its folder, or one with a number for a second copy.
        topic_partition: topic and partition of the log.
        checkpoints: checkpoints of its log dir.
        budgets: limits for reads.
        frozen: look once, keep the files open, and never look again.
        only: the one records file to show.
        shared: state shared with the other partitions of the source.
        is_live: returns whether a broker has the source open.

    Attributes:
        is_named: whether the folder names topic and number; else they are taken from another name.
    """

    __slots__ = (
        "_checked",
        "_context",
        "_follower",
        "_has_broker",
        "_lock",
        "_shared",
        "_view",
        "_whole",
        "budgets",
        "checkpoints",
        "folder",
        "frozen",
        "is_named",
        "name",
        "only",
        "problems",
        "root",
        "topic_partition",
    )

    def __init__(
        self,
        root: SourceRoot,
        folder: str,
        *,
        name: str,
        topic_partition: TopicPartition,
        checkpoints: SourceCheckpoints,
        budgets: Budgets = DEFAULT_BUDGETS,
        frozen: bool = False,
        only: str | None = None,
        shared: Shared,
        is_live: Callable[[], bool],
    ) -> None:
        self.root = root
        self.folder = folder
        self.name = name
        self.topic_partition = topic_partition
        self.is_named = True
        self.checkpoints = checkpoints
        self.budgets = budgets
        self.frozen = frozen
        self.problems = Problems(name)
        self.only = only
        self._whole: LogView | None = None
        self._shared = shared
        self._has_broker = is_live
        self._lock = Lock()
        self._context: LogContext | None = None
        self._follower: LogFollower | None = None
        self._view: LogView | None = None
        self._checked = 0.0

    def __repr__(self) -> str:
        return f"PartitionLog({self.name!r})"

    @property
    def is_cut(self) -> bool:
        """Whether the log is shown as it was at some moment."""
        return self._shared.cut is not None

    @property
    def is_loaded(self) -> bool:
        """Whether a view was asked for before."""
        return self._view is not None

    def is_live(self) -> bool:
        """Return whether a broker holds the source's lock, or the log was seen to grow."""
        if self._follower is not None and self._follower.has_grown:
            return True
        return self._has_broker()

    @property
    def looked_at(self) -> float:
        """Time of the last look, on the monotonic clock; 0.0 before the first one."""
        return self._checked

    def lag(self) -> ViewLag | None:
        """Return how far the last view is behind the file; None for a log that nobody looked at or writes to."""
        view = self._view
        if view is None or self.frozen or not self.is_live():
            return None
        segment, checked = view.active_segment, self._checked
        try:
            size = 0 if segment is None else self.root.stat(segment.path).st_size
        except OSError:
            return None
        known = 0 if segment is None else segment.tail_end
        return ViewLag(view.log_end_offset, max(size - known, 0), monotonic() - checked)

    def view(self, max_age: float = MAX_AGE) -> LogView:
        """Return the log as it is now, or as it was up to `max_age` seconds ago, with the log start and high watermark of
        that moment.

        Raises FileNotFoundError when the folder is gone, other OSError, SourceRefusedError.
        """
        view = self._view
        if view is not None and (self.frozen or monotonic() - self._checked < max_age):
            return view
        with unless_held_up(self._lock, must_wait=view is None) as is_mine:
            if not is_mine and view is not None:
                return view  # a reader waits for the disk: go on with what is known
            view = self._view
            if view is not None and (self.frozen or monotonic() - self._checked < max_age):
                return view
            if max_age < MAX_AGE:
                self.checkpoints.refresh(max_age)
            try:
                return self._look()
            except OSError as error:
                is_deleted = isinstance(error, FileNotFoundError) and self._has_broker()
                if not is_deleted and error.errno not in EXHAUSTED:
                    self.problems.add_error(DamageKind.UNREADABLE, self._failed(error), error)
                raise

    def _look(self) -> LogView:
        follower = self._follower
        if follower is None:
            follower = self._follower = LogFollower(self.context, self._has_broker)
        now = monotonic()
        whole = follower.look()
        view = self._view
        if view is None or whole is not self._whole:
            cut = self._shared.cut
            view = whole if cut is None else cut.view(self, whole)
        self._whole, self._view = whole, view
        self._checked = now
        return view

    def view_or_none(self) -> LogView | None:
        """Return the log as it is now; None when it cannot be read, with the reason in `problems`.

        A folder that a broker deleted is no problem.
        """
        try:
            return self.view()
        except OSError:
            return None

    def alone(self, records_file: str) -> PartitionLog:
        """Return a log that shows one of the records files, as if it was named as the source."""
        log = PartitionLog(
            self.root,
            self.folder,
            name=self.name,
            topic_partition=self.topic_partition,
            checkpoints=self.checkpoints,
            budgets=self.budgets,
            only=records_file,
            shared=self._shared,
            is_live=self._has_broker,
        )
        log.is_named, log.problems = self.is_named, self.problems
        return log

    def file_apart(self, name: str) -> PartitionLog:
        """Return a log of one records file of the folder that is not part of this log."""
        log = PartitionLog(
            self.root,
            self.folder,
            name=f"{self.name}/{name}",
            topic_partition=self.topic_partition,
            checkpoints=SourceCheckpoints(None, Problems()),
            budgets=self.budgets,
            frozen=self.frozen,
            only=name,
            shared=self._shared,
            is_live=self._has_broker,
        )
        log.is_named = self.is_named
        return log

    def forget(self) -> None:
        """Drop what was read of the log, for a caller that asks one partition after another; a frozen one keeps it.

        The problems stay. The next view reads the folder again.
        """
        if self.frozen:
            return
        with self._lock:
            self._context = self._follower = self._view = self._whole = None

    @property
    def context(self) -> LogContext:
        """The partition, for its views."""
        known = self._context
        if known is None:
            known = self._context = LogContext(
                root=self.root,
                folder=self.folder,
                name=self.name,
                topic_partition=self.topic_partition,
                only=self.only,
                checkpoints=self.checkpoints,
                problems=self.problems,
                markers=self._shared.markers,
                open_segments=self._shared.open_segments,
                keep_open=self.frozen,
                budgets=self.budgets,
                is_live=self.is_live,
                source=self._shared.source,
            )
        return known

    @property
    def has_unread(self) -> bool:
        """Whether a read of the log's files or folder failed so far."""
        return any("errno" in entry for entry in self.problems.entries())

    def display(self, file: str) -> str:
        """Return the path, as shown to people, of a file in `problems`."""
        folders = (self.folder, self.root.real(self.folder))
        is_relative = file in folders or file.startswith(tuple(f"{each}/" for each in folders))
        inside = file if is_relative or not self.folder else f"{self.folder}/{file}"
        return self.root.display(inside)

    def _failed(self, error: OSError) -> str:
        """Return the path in the source of the file or folder that an error is about."""
        shown = error.filename if isinstance(error.filename, str) else ""
        folder = self.root.display(self.folder)
        return self.folder + shown.removeprefix(folder) if shown.startswith(folder) else self.folder

    def freeze(self, most_files: int = MAX_INT32) -> int:
        """Look now and open every file of a frozen partition, so that it stays readable when files are deleted.

        Returns the number of descriptors used. Files above `most_files` stay closed, and are a problem.
        """
        view = self.view()
        most = most_files // _FILES_PER_SEGMENT
        for place in range(min(len(view), most)):
            view.segment_at(place).files.ensure_open()
        if len(view) > most:
            self.problems.add(
                "not_held_open",
                self.folder,
                "there are too many files to keep all open: deletions of the others will be seen",
                expected=len(view),
                found=max(most, 0),
            )
        return min(len(view), most) * _FILES_PER_SEGMENT
