"""A partition's log in a source, looked at when somebody asks and at most every so often.

Being asked again costs two system calls: has the folder changed, has the active segment's file. A partition
that nobody asks about costs its name.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic

from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.files.file_names import LOG_START_OFFSET_CHECKPOINT, FileKind, parse_file_name
from engine.files.source_files import SourceRoot
from engine.log.active_tail import ActiveTail
from engine.log.folder_listing import FolderListing, sort_entries
from engine.log.folder_watch import FolderWatch
from engine.log.log_context import LogContext
from engine.log.log_view import LogView
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.open_segments import OpenSegments, SegmentFiles
from engine.log.segment.problems import Problems
from engine.log.source_checkpoints import SourceCheckpoints
from engine.log.transactions import MarkerCache
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT32, Offset, TopicPartition

MAX_AGE = 0.2
"""Seconds for which a view is given out again without looking at the files."""
_ATTEMPTS = 3
_LIVE_MAX_AGE = 1.0
_NO_SEGMENTS: dict[Offset, LogSegment] = {}
_FILES_PER_SEGMENT = 2


class Shared:
    """What the partitions of a source have in common.

    Attributes:
        open_segments: which segments' files stay open.
        markers: the ends of transactions that were read.
        budgets: for what is read.
    """

    __slots__ = ("budgets", "markers", "open_segments")

    def __init__(self, budgets: Budgets = DEFAULT_BUDGETS) -> None:
        self.budgets = budgets
        self.open_segments = OpenSegments(budgets.open_files // 2)
        self.markers = MarkerCache()


class PartitionLog:
    """A partition; safe from several threads.

    Args:
        root: the source.
        folder: the partition's folder in it, "" for the source itself.
        name: what the partition is called: its folder's name, or one of our own.
        topic_partition: whose log it is.
        checkpoints: of its log dir.
        budgets: for what is read.
        frozen: look once, hold the files open, and never look again.
        only: the one records file to see.
        shared: what it has in common with others.
        is_live: whether a broker has the source open; by default its lock is asked.
    """

    __slots__ = (
        "_checked", "_context", "_is_live", "_listing", "_live", "_lock", "_rewrites", "_segments",
        "_shared", "_tail", "_view", "_watch", "budgets", "checkpoints", "folder", "frozen", "name",
        "only", "problems", "root", "topic_partition",
    )  # fmt: skip

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
        shared: Shared | None = None,
        is_live: Callable[[], bool] | None = None,
    ) -> None:
        self.root = root
        self.folder = folder
        self.name = name
        self.topic_partition = topic_partition
        self.checkpoints = checkpoints
        self.budgets = budgets
        self.frozen = frozen
        self.problems = Problems(name)
        self.only = only
        self._shared = shared or Shared(budgets)
        self._is_live = is_live
        self._live: tuple[float, bool] | None = None
        self._lock = Lock()
        self._view: LogView | None = None
        self._context: LogContext | None = None
        self._checked = 0.0
        self._watch: FolderWatch | None = None
        self._listing: FolderListing | None = None
        self._segments: dict[Offset, LogSegment] = _NO_SEGMENTS
        self._tail: ActiveTail | None = None
        self._rewrites = 0

    def __repr__(self) -> str:
        return f"PartitionLog({self.name!r})"

    @property
    def is_loaded(self) -> bool:
        """Whether anybody asked for a view yet."""
        return self._view is not None

    def is_live(self) -> bool:
        """Whether somebody writes to the log: a broker holds the source's lock, or the log was seen to grow."""
        if self._tail is not None and self._tail.has_grown:
            return True
        return self._has_broker()

    def _has_broker(self) -> bool:
        if self._is_live is not None:
            return self._is_live()
        now, known = monotonic(), self._live
        if known is None or now - known[0] > _LIVE_MAX_AGE:
            self._live = known = now, self.root.broker_pid() is not None
        return known[1]

    def view(self, max_age: float = MAX_AGE) -> LogView:
        """The log as it is now, or as it was up to `max_age` seconds ago.

        Raises FileNotFoundError when the folder is gone, other OSError, SourceRefusedError.
        """
        view = self._view
        if view is not None and (self.frozen or monotonic() - self._checked < max_age):
            return view
        with self._lock:
            view = self._view
            if view is not None and (self.frozen or monotonic() - self._checked < max_age):
                return view
            try:
                return self._look()
            except OSError as error:
                if not isinstance(error, FileNotFoundError) or not self._has_broker():
                    self.problems.add_error(DamageKind.UNREADABLE, self._failed(error), error)
                raise

    def view_or_none(self) -> LogView | None:
        """The log as it is now; None when it cannot be read, and `problems` says why.

        A folder that a broker deleted meanwhile is no problem.
        """
        try:
            return self.view()
        except OSError:
            return None

    @property
    def has_unread(self) -> bool:
        """Whether some of it could not be read so far."""
        return any("errno" in entry for entry in self.problems.entries())

    def display(self, file: str) -> str:
        """The path, as shown to people, of a file that `problems` names."""
        is_relative = file == self.folder or file.startswith(f"{self.folder}/")
        inside = file if is_relative or not self.folder else f"{self.folder}/{file}"
        return self.root.display(inside)

    def _failed(self, error: OSError) -> str:
        """The file or folder that an error is about, relative to the source."""
        shown = error.filename if isinstance(error.filename, str) else ""
        folder = self.root.display(self.folder)
        return self.folder + shown.removeprefix(folder) if shown.startswith(folder) else self.folder

    @property
    def context(self) -> LogContext:
        """What the views of this log have in common."""
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
                budgets=self.budgets,
                is_live=self.is_live,
                make_segment=self._make_segment,
            )
        return known

    def _make_segment(self, base_offset: Offset) -> LogSegment:
        """A segment that is complete."""
        return LogSegment(self._files_of(base_offset), budgets=self.budgets)

    def _files_of(self, base_offset: Offset) -> SegmentFiles:
        return SegmentFiles(
            self.root,
            self.folder,
            base_offset,
            open_segments=self._shared.open_segments,
            problems=self.problems,
            name=self.only,
            keep=self.frozen,
        )

    def _look(self) -> LogView:
        """Bring the view up to date; a name that vanishes meanwhile means: list the folder again."""
        for attempt in range(_ATTEMPTS):
            now = monotonic()
            try:
                view = self._look_once(now, again=attempt > 0)
            except FileNotFoundError:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            self._view = view
            self._checked = now
            return view
        raise AssertionError("unreachable")

    def _look_once(self, now: float, *, again: bool) -> LogView:
        old = self._view
        old_tail = None if self._tail is None else self._tail.segment
        state = None
        if old is not None and self._tail is not None:
            known = old.known_transaction_state()
            state = None if known is None else known.copy()
        listing, was_listed = self._list(now, again)
        is_same = old is not None and listing is old.listing
        # Compaction can put another file under each name, and the names alone would not tell.
        if is_same and was_listed and self._has_other_files():
            is_same = False
        if not is_same:
            self._sort_out(listing)
        base = listing.base_offsets[-1] if listing.base_offsets else None
        if base is None:
            self._tail = None
        elif self._tail is None or self._tail.segment.base_offset != base:
            self._tail = ActiveTail(self._files_of(base), self._has_broker, self.budgets)
            is_same = False
        elif not self._tail.follow(state):
            self._rewrites += 1
            self.root.forget(self.folder)
            self._tail = ActiveTail(self._files_of(base), self._has_broker, self.budgets)
            is_same = False
        log_start, log_end = self._bounds(listing)
        active = None if self._tail is None else self._tail.segment
        if (
            old is not None
            and is_same
            and active is old_tail
            and (log_start, log_end) == (old.log_start_offset, old.log_end_offset)
        ):
            return old
        return LogView(
            self.context,
            listing,
            self._segments,
            active,
            log_start_offset=log_start,
            log_end_offset=log_end,
            generation=0 if old is None else old.generation + 1,
            rewrites=self._rewrites,
            after=old,
            transactions=state if is_same else None,
        )

    def _list(self, now: float, again: bool) -> tuple[FolderListing, bool]:
        """The folder's listing, the known one while it is the same; and whether the folder was listed."""
        if self._watch is None:
            self._watch = FolderWatch(self.root, self.folder)
        must_list = self._watch.must_list(now)
        known = self._listing
        if known is not None and not must_list and not again:
            return known, False
        if self._watch.replaced:
            self._start_over()
        listing = sort_entries(*self.root.list_apart(self.folder), self.only)
        if self.only is not None and not listing.base_offsets:
            listing = listing._replace(base_offsets=(self._only_base(),))
        if known is None or listing != known:
            self._listing = known = listing
        return known, True

    def _has_other_files(self) -> bool:
        """Whether a complete segment that was open is not the file of that name any more."""
        return any(
            segment.files.opened is not None and not self._is_unchanged(segment)
            for segment in self._segments.copy().values()
        )

    def _only_base(self) -> Offset:
        """The base offset of the one file: in its name, or else in its first batch."""
        name = self.only or ""
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind is FileKind.LOG and parsed.base_offset is not None:
            return parsed.base_offset
        file = self.root.open(f"{self.folder}/{name}" if self.folder else name)
        return max(int.from_bytes(file.read_at(0, 8), "big", signed=True), 0)

    def _start_over(self) -> None:
        """The folder is another one: a topic of the same name was made anew."""
        self._segments = {}
        self._tail = None
        self._rewrites += 1
        self.root.forget(self.folder)

    def _sort_out(self, listing: FolderListing) -> None:
        """After the folder changed: keep of the segments those whose files are still the same."""
        if self._tail is None and not self._segments:
            self._segments = {}
            return
        self.root.forget(self.folder)
        bases = set(listing.base_offsets)
        kept = {}
        # A copy, as threads that hold an older view go on adding segments to the same dict.
        for base, segment in self._segments.copy().items():
            if base in bases and self._is_unchanged(segment):
                kept[base] = segment
            elif base in bases:
                self._rewrites += 1
        self._segments = kept
        if self._tail is not None and self._tail.segment.base_offset not in bases:
            self._tail = None
            self._rewrites += 1

    def _is_unchanged(self, segment: LogSegment) -> bool:
        """Whether a complete segment's file is the one that is open; what is not open can be anything."""
        opened = segment.files.opened
        if opened is None:
            return False
        try:
            status = self.root.stat(segment.path)
        except OSError:
            return False
        identity = status.st_dev, status.st_ino
        return identity == opened.file.identity and status.st_size == opened.size

    def _bounds(self, listing: FolderListing) -> tuple[Offset, Offset]:
        """Log start and log end."""
        partition = self.topic_partition
        first = listing.base_offsets[0] if listing.base_offsets else 0
        known = self.checkpoints.log_start_offset(partition) or 0
        end = max(known, 0) if self._tail is None else self._tail.next_offset
        if partition.topic == CLUSTER_METADATA:
            return self._kraft_bounds(listing, first, end)
        if known > end:
            if self.only is not None:
                return first, end
            self.problems.add(
                "checkpoint",
                LOG_START_OFFSET_CHECKPOINT,
                "the log start lies past the log end",
                expected=f"at most {end}",
                found=known,
            )
        return min(max(known, first), end), end

    def _kraft_bounds(
        self, listing: FolderListing, first: Offset, end: Offset
    ) -> tuple[Offset, Offset]:
        """The same of a KRaft log: where its newest snapshot is ahead of it, it begins anew there."""
        latest = listing.kraft_snapshots[-1].end_offset if listing.kraft_snapshots else 0
        if latest > end:
            return latest, latest
        if first > latest:
            self.problems.add(
                "kraft_snapshot",
                self.folder,
                "the log has lost its beginning, and no snapshot stands in for it",
                expected=f"a snapshot at offset {first} or later",
                found=latest,
            )
        return first, end

    def freeze(self, most_files: int = MAX_INT32) -> int:
        """Look now and open every file, for a partition that is frozen: deleting them changes nothing then.

        Returns how many descriptors that took; those that would take more than `most_files` stay closed,
        and the problems say so.
        """
        view = self.view()
        most = most_files // _FILES_PER_SEGMENT
        for place in range(min(len(view), most)):
            view.segment_at(place).files.ensure_open()
        if len(view) > most:
            self.problems.add(
                "not_held_open",
                self.folder,
                "there are too many files to hold them all open: deleting some would still be seen",
                expected=len(view),
                found=max(most, 0),
            )
        return min(len(view), most) * _FILES_PER_SEGMENT
