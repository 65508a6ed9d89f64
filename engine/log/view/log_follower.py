"""Follow the files of a log: list its folder again when it changed, and read the active segment on as it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from engine.files.change_watch import FolderWatch
from engine.files.file_names import (
    LOG_START_OFFSET_CHECKPOINT,
    FileKind,
    log_file_name,
    parse_file_name,
)
from engine.files.folder_entries import SourceEntry
from engine.log.folder_listing import (
    FolderListing,
    sort_entries,
    swapped_bases,
    without_replaced,
    without_swapped,
)
from engine.log.segment.active_tail import ActiveTail
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.resync import Resync
from engine.log.segment.scan import BatchRun, scan
from engine.log.view.log_contents import LogContext
from engine.log.view.log_view import LogView
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import Offset

_ATTEMPTS = 3
_LISTED_AT_ONCE = 400
"""Names of a log's files that fit into the 32 KiB of one system call."""
_MOST_LISTS = 10


def finish_swap(log: LogContext, listing: FolderListing) -> FolderListing:
    """Return a listing with ``.swap`` files, without the files that these replace.

    Raises FileNotFoundError when a file is gone in the meantime, other OSError.
    """
    bases = swapped_bases(listing)
    if not bases:
        return without_replaced(listing, 0, 0)
    segments = [LogSegment(log.files_of(base, listing), budgets=log.budgets) for base in bases]
    for segment in segments:
        is_bad = segment.size > 0 and segment.next_offset == segment.base_offset
        if is_bad and listing.has_file(log_file_name(bases[0])):
            return without_swapped(listing, f"no segment: {segment.name} has no good batch")
    return without_replaced(listing, bases[0], max(segment.next_offset for segment in segments))


class LogFollower:
    """The state from which the next view of a log is made; used by one thread at a time.

    Args:
        log: the partition.
        has_broker: returns whether a broker has the source open.
    """

    __slots__ = (
        "_has_broker",
        "_listing",
        "_log",
        "_rewrites",
        "_segments",
        "_tail",
        "_view",
        "_watch",
    )

    def __init__(self, log: LogContext, has_broker: Callable[[], bool]) -> None:
        self._log = log
        self._has_broker = has_broker
        self._watch = FolderWatch(log.root, log.folder)
        self._listing: FolderListing | None = None
        self._segments: dict[Offset, LogSegment] = {}
        self._tail: ActiveTail | None = None
        self._view: LogView | None = None
        self._rewrites = 0

    @property
    def has_grown(self) -> bool:
        """Whether the active segment grew since it was opened."""
        return self._tail is not None and self._tail.has_grown

    def look(self) -> LogView:
        """Return the view of the log as it is now, the last one if nothing changed.

        Raises FileNotFoundError when the folder is gone, other OSError, SourceRefusedError.
        """
        for attempt in range(_ATTEMPTS):
            try:
                self._view = self._look_once(monotonic(), again=attempt > 0)
                return self._view
            except FileNotFoundError:  # a file was renamed or deleted after the folder was listed
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _look_once(self, now: float, *, again: bool) -> LogView:
        old = self._view
        old_active = None if self._tail is None else self._tail.segment
        transactions = None
        if old is not None and old.known_transactions is not None and self._tail is not None:
            transactions = old.known_transactions.copy()
        listing, was_listed = self._list(now, again)
        is_same = old is not None and listing is old.listing
        # Compaction can put another file under each name; the names alone do not show that.
        if is_same and was_listed and self._has_other_files(listing):
            is_same = False
        if not is_same:
            self._keep_unchanged(listing)
        base = listing.base_offsets[-1] if listing.base_offsets else None
        if base is None:
            self._tail = None
        elif self._tail is None or self._tail.segment.base_offset != base:
            self._tail = self._new_tail(base, listing)
            is_same = False
        elif not self._tail.follow(None if transactions is None else transactions.apply):
            self._rewrites += 1
            self._log.root.forget(self._log.folder)
            self._tail = self._new_tail(base, listing)
            is_same = False
        start, end = self._bounds(listing)
        active = None if self._tail is None else self._tail.segment
        if (
            old is not None
            and is_same
            and active is old_active
            and (start, end) == (old.log_start_offset, old.log_end_offset)
        ):
            return old
        return LogView(
            self._log,
            listing,
            self._segments,
            active,
            log_start_offset=start,
            log_end_offset=end,
            generation=0 if old is None else old.generation + 1,
            rewrites=self._rewrites,
            after=old,
            known_transactions=transactions if is_same else None,
        )

    def _new_tail(self, base_offset: Offset, listing: FolderListing) -> ActiveTail:
        files = self._log.files_of(base_offset, listing)
        return ActiveTail(files, self._has_broker, self._log.budgets)

    # The folder

    def _list(self, now: float, again: bool) -> tuple[FolderListing, bool]:
        """Return the folder's listing, the known one while it is the same, and whether the folder was listed."""
        must_list = self._watch.must_list(now)
        known = self._listing
        if known is not None and not must_list and not again:
            return known, False
        if self._watch.replaced:
            self._start_over()
        log = self._log
        listing = sort_entries(*self._entries(), log.only)
        if listing.swapped:
            listing = finish_swap(log, listing)
        if log.only is not None and not listing.base_offsets:
            listing = listing._replace(base_offsets=(self._base_offset_of(log.only),))
        if known is None or listing != known:
            self._listing = known = listing
        return known, True

    def _entries(self) -> tuple[Sequence[str], Sequence[SourceEntry]]:
        """Return the files and the other entries of the folder, as they were at one moment.

        The system lists a small folder at once. A file of a large one that is renamed meanwhile may be missing under
        both names: so that is listed until it stays the same.
        """
        log = self._log
        found = log.root.list_apart(log.folder)
        if len(found[0]) < _LISTED_AT_ONCE:
            return found
        for _ in range(_MOST_LISTS):
            if self._watch.is_settled():
                break
            before, found = found, log.root.list_apart(log.folder)
            if set(before[0]) == set(found[0]):
                break
        return found

    def _base_offset_of(self, name: str) -> Offset:
        """Return the base offset of a records file, from its name or else from its first batch."""
        parsed = parse_file_name(name)
        if parsed is not None and parsed.kind is FileKind.LOG and parsed.base_offset is not None:
            return parsed.base_offset
        file = self._log.root.open(self._log.relative(name))
        size, budgets = file.size(), self._log.budgets
        if (
            not Resync(file, size, budgets).frame(0).size
        ):  # the file was carved, or cut at its start
            for item in scan(file, 0, size, budgets=budgets):
                if isinstance(item, BatchRun):
                    return max(item.base_offset, 0)
        return max(int.from_bytes(file.read_at(0, 8), "big", signed=True), 0)

    def _start_over(self) -> None:
        """Forget all segments: the folder is another one of the same name, of a topic that was created again."""
        self._segments = {}
        self._tail = None
        self._rewrites += 1
        self._log.root.forget(self._log.folder)

    # Segments

    def _has_other_files(self, listing: FolderListing) -> bool:
        """Return whether the name of a complete segment that was opened now leads to another file."""
        return any(
            segment.files.opened is not None and not self._is_unchanged(segment, listing)
            for segment in self._segments.copy().values()
        )

    def _keep_unchanged(self, listing: FolderListing) -> None:
        """Drop the segments with changed files, after the folder changed."""
        if self._tail is None and not self._segments:
            self._segments = {}
            return
        self._log.root.forget(self._log.folder)
        bases = set(listing.base_offsets)
        kept = {}
        # A copy, since threads with an older view go on adding segments to the same dict.
        for base, segment in self._segments.copy().items():
            if base in bases and self._is_unchanged(segment, listing):
                kept[base] = segment
            elif base in bases:
                self._rewrites += 1
        self._segments = kept
        tail = None if self._tail is None else self._tail.segment
        if tail is not None and (
            tail.base_offset not in bases or not tail.files.has_names_of(listing.swapped)
        ):
            self._tail = None
            self._rewrites += 1

    def _is_unchanged(self, segment: LogSegment, listing: FolderListing) -> bool:
        """Return whether a complete segment's name still leads to the file that is open; False for a closed one."""
        opened = segment.files.opened
        if opened is None or not segment.files.has_names_of(listing.swapped):
            return False
        try:
            status = segment.files.status()
        except OSError:
            return False
        identity = status.st_dev, status.st_ino
        return identity == opened.file.identity and status.st_size == opened.size

    # Offsets

    def _bounds(self, listing: FolderListing) -> tuple[Offset, Offset]:
        """Return log start and log end."""
        log = self._log
        first = listing.base_offsets[0] if listing.base_offsets else 0
        known = log.checkpoints.log_start_offset(log.topic_partition) or 0
        end = max(known, 0) if self._tail is None else self._tail.next_offset
        if log.topic_partition.topic == CLUSTER_METADATA:
            return self._kraft_bounds(listing, first, end)
        if known > end:
            if log.only is not None:
                return first, end
            log.problems.add(
                "checkpoint",
                LOG_START_OFFSET_CHECKPOINT,
                "the log start is after the log end",
                expected=f"at most {end}",
                found=known,
            )
        return min(max(known, first), end), end

    def _kraft_bounds(
        self, listing: FolderListing, first: Offset, end: Offset
    ) -> tuple[Offset, Offset]:
        """Return log start and log end of a KRaft log, which starts at its newest snapshot if that is ahead of it."""
        latest = listing.kraft_snapshots[-1].end_offset if listing.kraft_snapshots else 0
        if latest > end:
            return latest, latest
        if first > latest:
            self._log.problems.add(
                "kraft_snapshot",
                self._log.folder,
                "the start of the log is missing, and no snapshot covers it",
                expected=f"a snapshot at offset {first} or later",
                found=latest,
            )
        return first, end
