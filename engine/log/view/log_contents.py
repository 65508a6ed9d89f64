"""The contents of a log at one moment: its segments, between its start and its end."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from errno import ENOENT
from typing import NamedTuple

from engine.budgets import Budgets
from engine.errors import InvalidNameError
from engine.files.file_names import FolderState, kraft_checkpoint_name, parse_folder_name
from engine.files.folder_entries import SourceEntry
from engine.files.source_files import SourceRoot
from engine.files.unreadable import Stretch
from engine.log.folder_listing import FolderListing, KRaftSnapshot, Leftover
from engine.log.segment.batch_search import Extent
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.open_segments import OpenSegments, SegmentFiles
from engine.log.segment.problems import ProblemEntry, Problems
from engine.log.segment.scan import BatchRun, ScanItem
from engine.log.source_checkpoints import SourceCheckpoints
from engine.log.view.transactions import MarkerCache
from engine.units import MAX_INT64, LogOffsetMetadata, Offset, Position, TopicPartition

_MOST_REPLACED = 8
"""Segments before one that are asked whether they reach beyond its base offset."""


class LogContext(NamedTuple):
    """The partition of a log, shared by all views of it.

    Attributes:
        root, folder: the source and the partition's folder in it, "" for the source itself.
        name: name of the partition in its source.
        topic_partition: topic and partition.
        only: the one records file to show; None for the whole folder.
        checkpoints: checkpoints of the log dir.
        problems: receives problems of the log.
        markers: cache of end markers.
        open_segments: decides which segments stay open.
        keep_open: never close the segments' files.
        budgets: limits for reads.
        is_live: returns whether a broker writes to the log, as far as known.
        source: the LogSource of the partition, for facts about more than its log.
    """

    root: SourceRoot
    folder: str
    name: str
    topic_partition: TopicPartition
    only: str | None
    checkpoints: SourceCheckpoints
    problems: Problems
    markers: MarkerCache
    open_segments: OpenSegments
    keep_open: bool
    budgets: Budgets
    is_live: Callable[[], bool]
    source: object

    def relative(self, name: str) -> str:
        """Return the path in the source of a file of the folder."""
        return f"{self.folder}/{name}" if self.folder else name

    def read_side_file(self, name: str, *, is_listed: bool = False) -> bytes:
        """Return a whole file of the partition's folder, such as a checkpoint or a snapshot.

        `is_listed` as for `SourceRoot.open_fresh`. Raises FileNotFoundError, other OSError, LimitExceededError.
        """
        limit = self.budgets.checkpoint_bytes
        return self.root.read(self.relative(name), limit=limit, is_listed=is_listed)

    def files_of(self, base_offset: Offset, listing: FolderListing) -> SegmentFiles:
        """Return the files of a segment in a listing of the folder; opens none."""
        return SegmentFiles(
            self.root,
            self.folder,
            base_offset,
            open_segments=self.open_segments,
            problems=self.problems,
            name=self.only,
            keep=self.keep_open,
            swapped=listing.swapped,
        )

    def is_current(self) -> bool:
        """Return whether the checkpoints are about this folder, and not about a newer one of the partition."""
        try:
            return parse_folder_name(self.name.partition("@")[0]).state is FolderState.LOG
        except InvalidNameError:
            return True

    def end_of_clean_stop(self) -> Offset | None:
        """Return the log end after a clean stop of the broker; None without a clean stop or a recovery point."""
        if not self.checkpoints.stopped_cleanly() or not self.is_current():
            return None
        return self.checkpoints.recovery_point(self.topic_partition)


@dataclass(slots=True, eq=False, repr=False)
class LogContents:
    """The segments of a log at one moment; immutable, so threads share it without locks.

    Attributes:
        log: the partition.
        listing: the partition's folder.
        base_offsets: base offsets of the segments, ascending.
        log_start_offset: the first offset that is served.
        log_end_offset: one past the last record.
    """

    log: LogContext
    listing: FolderListing
    _segments: dict[Offset, LogSegment]
    _known_active: LogSegment | None
    _: KW_ONLY
    log_start_offset: Offset
    log_end_offset: Offset
    base_offsets: tuple[Offset, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.base_offsets = self.listing.base_offsets

    def __repr__(self) -> str:
        return f"<{self.name}: offsets {self.log_start_offset} to {self.log_end_offset}>"

    @property
    def name(self) -> str:
        """Name of the partition in its source."""
        return self.log.name

    @property
    def partition(self) -> TopicPartition:
        """Topic and partition."""
        return self.log.topic_partition

    @property
    def copy_folders(self) -> tuple[str, ...]:
        """Paths of the folders of the copies that the log is joined of; empty for a log of one folder."""
        return ()

    @property
    def live(self) -> bool:
        """Whether a broker writes to the log, as far as known."""
        return self.log.is_live()

    @property
    def files(self) -> tuple[SourceEntry, ...]:
        """All entries of the partition's folder, sorted by name."""
        return self.listing.entries

    @property
    def leftovers(self) -> tuple[Leftover, ...]:
        """Entries of the folder that are not part of the log."""
        return self.listing.leftovers + tuple(
            Leftover(
                kraft_checkpoint_name(*snapshot), "a snapshot of the records before the log start"
            )
            for snapshot in self.listing.kraft_snapshots
            if snapshot.end_offset < self.log_start_offset
        )

    @property
    def kraft_snapshots(self) -> tuple[KRaftSnapshot, ...]:
        """Complete snapshots of a KRaft log that do not end before the log start."""
        return tuple(
            snapshot
            for snapshot in self.listing.kraft_snapshots
            if snapshot.end_offset >= self.log_start_offset
        )

    @property
    def problems(self) -> list[ProblemEntry]:
        """Problems found so far; look-ups add more."""
        return self.log.problems.entries()

    def read_side_file(self, name: str) -> bytes:
        """Return a whole file of the partition's folder, such as a checkpoint or a snapshot.

        Raises FileNotFoundError, other OSError, LimitExceededError.
        """
        log = self.log
        if log.only is not None:  # the listing lacks the files beside the segment
            return log.read_side_file(name)
        return log.read_side_file(name, is_listed=self.is_listed_file(name))

    def is_listed_file(self, name: str) -> bool:
        """Return whether the listing of the folder says that a name in the log is a regular file's.

        Raises FileNotFoundError if the listing lacks the name.
        """
        name = self.listing.real(name)
        is_file = self.listing.has_file(name)
        if not is_file and not self.listing.has(name):
            path = self.log.root.display(self.log.relative(name))
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), path)
        return is_file

    # Segments

    @property
    def _active(self) -> LogSegment | None:
        return self._known_active

    def files_of(self, base_offset: Offset) -> SegmentFiles:
        """Return the files of a segment; opens none."""
        return self.log.files_of(base_offset, self.listing)

    def __len__(self) -> int:
        return len(self.base_offsets)

    def segment_at(self, place: int) -> LogSegment:
        """Return a segment by its index in the log, 0 for the oldest."""
        bases = self.base_offsets
        base = bases[place]
        active = self._active if base == bases[-1] else None
        if active is not None and base == active.base_offset:
            return active
        following = bases[place + 1] if 0 <= place < len(bases) - 1 else MAX_INT64
        segment = self._segments.get(base)
        if segment is None or segment.next_base != following:
            files = self.files_of(base) if segment is None else segment.files
            segment = LogSegment(files, budgets=self.log.budgets, next_base=following)
            self._segments[base] = segment
        return segment

    @property
    def active_segment(self) -> LogSegment | None:
        """The newest segment; None without segments."""
        return self._active

    @property
    def lost_segment(self) -> LogSegment | None:
        """The active segment if it has bytes but no good batch: its damage starts at the log end."""
        active = self._active
        return active if active is not None and not active.end and active.tail_end else None

    @property
    def unread_end(self) -> Stretch | None:
        """The first unreadable bytes after the last good batch, which may hold more records."""
        active = self._active
        if active is None:
            return None
        return active.file.unreadable_in(active.end, max(active.tail_end, active.end))

    @property
    def end_position(self) -> Position:
        """Position after the last good batch of the active segment."""
        return 0 if self._active is None else self._active.end

    @property
    def end_metadata(self) -> LogOffsetMetadata:
        """The log end with the position of the next batch."""
        active = self._active
        if active is None:
            return LogOffsetMetadata(self.log_end_offset)
        return LogOffsetMetadata(self.log_end_offset, active.base_offset, active.end)

    @property
    def high_watermark(self) -> Offset:
        """The checkpointed high watermark, between log start and log end.

        The checkpoint lags behind a running broker by up to five seconds.
        """
        known = self.log.checkpoints.high_watermark(self.partition)
        if known is None:
            return self.log_start_offset
        return max(self.log_start_offset, min(known, self.log_end_offset))

    def segment_for(self, offset: Offset) -> LogSegment | None:
        """Return the segment that may hold an offset; None below the first segment."""
        place = bisect_right(self.base_offsets, offset) - 1
        return None if place < 0 else self.segment_at(place)

    @property
    def size(self) -> int:
        """Size of all records files in bytes."""
        return sum(self.segment_at(place).size for place in range(len(self)))

    def segments_from(self, offset: Offset) -> Iterator[LogSegment]:
        """Return the segment that may hold an offset, or else the first one, and those after it."""
        bases = self.base_offsets
        return map(self.segment_at, range(max(bisect_right(bases, offset) - 1, 0), len(bases)))

    def next_base(self, segment: LogSegment) -> Offset:
        """Return the base offset of the next segment; the log end for the last one."""
        place = bisect_right(self.base_offsets, segment.base_offset)
        return self.base_offsets[place] if place < len(self.base_offsets) else self.log_end_offset

    def reaching(self, segment: LogSegment) -> LogSegment | None:
        """Return the segment before this one that reaches beyond its base offset, as its indexes tell; None without one.

        A replacement of segments that a crash or a copy interrupted leaves such segments: their batches come first.
        """
        place = bisect_right(self.base_offsets, segment.base_offset) - 1
        for before in range(place - 1, max(place - _MOST_REPLACED, 0) - 1, -1):
            earlier = self.segment_at(before)
            if earlier.reaches_beyond and earlier.next_offset > segment.base_offset:
                return earlier
        return None

    def begin_of(self, segment: LogSegment) -> Offset:
        """Return the first offset that a segment can have behind those before it."""
        earlier = self.reaching(segment)
        return segment.base_offset if earlier is None else earlier.next_offset

    def positions(
        self, segment: LogSegment, start_offset: Offset, stop_offset: Offset
    ) -> tuple[Position, Position]:
        """Return start and stop of a segment's whole batches that hold offsets of [start_offset, stop_offset)."""
        found = self._extent(segment, start_offset, stop_offset)
        return found.start, found.stop

    def _extent(self, segment: LogSegment, start_offset: Offset, stop_offset: Offset) -> Extent:
        if stop_offset >= self.next_base(segment):
            if start_offset <= segment.base_offset:
                return Extent(0, segment.end, segment.base_offset)
            stop_offset = MAX_INT64
        return segment.extent(start_offset, stop_offset)

    def runs(
        self, start_offset: Offset | None = None, stop_offset: Offset | None = None
    ) -> Iterator[tuple[LogSegment, ScanItem]]:
        """Yield the good batches that hold offsets of [start, stop), and the damage there, in log order.

        The first and the last batch are whole and may hold records outside the range. A torn tail of a live
        log is left out.

        Args:
            start_offset: by default the log start; records below it may still be on disk.
            stop_offset: by default the log end.
        """
        expected: Offset = 0
        for segment, part in self.extents(start_offset, stop_offset):
            smallest = smallest_offset(segment, part, expected)
            for item in segment.scan(part.start, part.stop, next_offset=smallest):
                if isinstance(item, BatchRun):
                    expected = item.next_offset
                yield segment, item
                del item  # free it before the next read: a batch may be as large as the budget

    def extents(
        self, start_offset: Offset | None = None, stop_offset: Offset | None = None
    ) -> Iterator[tuple[LogSegment, Extent]]:
        """Yield the parts of the segments that `runs` reads for these offsets, in log order.

        Args:
            start_offset, stop_offset: as for `runs`.
        """
        start = self.log_start_offset if start_offset is None else start_offset
        stop = self.log_end_offset if stop_offset is None else stop_offset
        for segment in self.segments_from(start):
            is_lost = segment is self.lost_segment and start <= self.log_end_offset <= stop
            if (start >= stop or segment.base_offset >= stop) and not is_lost:
                return
            part = self._extent(segment, start, stop)
            if stop >= self.log_end_offset and segment is self._active:
                part = part._replace(stop=max(part.stop, segment.tail_end))
            yield segment, part


def smallest_offset(segment: LogSegment, part: Extent, expected: Offset) -> Offset:
    """Return the smallest offset that is in order at the start of a part of a segment.

    It is that behind the segments before, but for a first batch that holds this offset: a fetch gets it whole.

    Args:
        segment: the segment.
        part: what is read of it.
        expected: one past the last offset of the segments before, 0 for none.
    """
    if expected > part.next_offset and segment.extent(expected, MAX_INT64).start > part.start:
        return expected
    return part.next_offset
