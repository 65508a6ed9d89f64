"""What a log holds at one moment: its segments, between its start and its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from engine.files.file_names import kraft_checkpoint_name
from engine.files.folder_entries import SourceEntry
from engine.files.unreadable import Stretch
from engine.log.folder_listing import FolderListing, KRaftSnapshot, Leftover
from engine.log.log_context import LogContext
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.places import Extent
from engine.log.segment.problems import ProblemEntry
from engine.log.segment.scan import BatchRun, ScanItem
from engine.units import MAX_INT64, LogOffsetMetadata, Offset, Position, TopicPartition


class LogContents:
    """The segments of a log at one moment; never changes, so threads share it without locks.

    Attributes:
        log: where the log lies, and what its views share.
        listing: the partition's folder.
        base_offsets: of the segments, ascending.
        log_start_offset: the first offset that is served.
        log_end_offset: one past the last record: the offset of the next one.
    """

    __slots__ = (
        "_active", "_segments", "base_offsets", "listing", "log", "log_end_offset", "log_start_offset",
    )  # fmt: skip

    def __init__(
        self,
        log: LogContext,
        listing: FolderListing,
        segments: dict[Offset, LogSegment],
        active: LogSegment | None,
        *,
        log_start_offset: Offset,
        log_end_offset: Offset,
    ) -> None:
        self.log = log
        self.listing = listing
        self.base_offsets = listing.base_offsets
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self._segments = segments
        self._active = active

    def __repr__(self) -> str:
        return f"<{self.name}: offsets {self.log_start_offset} to {self.log_end_offset}>"

    @property
    def name(self) -> str:
        """The partition's name in its source."""
        return self.log.name

    @property
    def partition(self) -> TopicPartition:
        """Topic and partition; the number is -1 when the folder's name does not tell."""
        return self.log.topic_partition

    @property
    def live(self) -> bool:
        """Whether somebody writes to it, as far as can be told."""
        return self.log.is_live()

    @property
    def files(self) -> tuple[SourceEntry, ...]:
        """Everything in the partition's folder, sorted by name."""
        return self.listing.entries

    @property
    def leftovers(self) -> tuple[Leftover, ...]:
        """What lies in the folder and is not part of the log."""
        return self.listing.leftovers + tuple(
            Leftover(
                kraft_checkpoint_name(*snapshot), "a snapshot of what lies before the log start"
            )
            for snapshot in self.listing.kraft_snapshots
            if snapshot.end_offset < self.log_start_offset
        )

    @property
    def kraft_snapshots(self) -> tuple[KRaftSnapshot, ...]:
        """The complete snapshots of a KRaft log that are not older than it."""
        return tuple(
            snapshot
            for snapshot in self.listing.kraft_snapshots
            if snapshot.end_offset >= self.log_start_offset
        )

    @property
    def problems(self) -> list[ProblemEntry]:
        """What was found wrong so far; look-ups add to it."""
        return self.log.problems.entries()

    def read_side_file(self, name: str) -> bytes:
        """A checkpoint, snapshot or the like of the partition's folder, whole.

        Raises FileNotFoundError, other OSError, LimitExceededError.
        """
        return self.log.read_side_file(name)

    # Segments

    def __len__(self) -> int:
        return len(self.base_offsets)

    def segment_at(self, place: int) -> LogSegment:
        """The segment in a place, counted from the oldest, which is 0."""
        base = self.base_offsets[place]
        active = self._active
        if active is not None and base == active.base_offset:
            return active
        segment = self._segments.get(base)
        if segment is None:
            segment = self._segments.setdefault(base, self.log.make_segment(base))
        return segment

    @property
    def active_segment(self) -> LogSegment | None:
        """The newest segment; None when there is none."""
        return self._active

    @property
    def lost_segment(self) -> LogSegment | None:
        """The active segment if it holds bytes and no good batch: its damage begins where the log ends."""
        active = self._active
        return active if active is not None and not active.end and active.tail_end else None

    @property
    def unread_end(self) -> Stretch | None:
        """The first bytes behind the last good batch that cannot be read: more records may be there."""
        active = self._active
        if active is None:
            return None
        return active.file.unreadable_in(active.end, max(active.tail_end, active.end))

    @property
    def end_position(self) -> Position:
        """Where the last good batch ends in the active segment."""
        return 0 if self._active is None else self._active.end

    @property
    def end_metadata(self) -> LogOffsetMetadata:
        """The log end and its place: where the next batch will be."""
        active = self._active
        if active is None:
            return LogOffsetMetadata(self.log_end_offset)
        return LogOffsetMetadata(self.log_end_offset, active.base_offset, active.end)

    @property
    def high_watermark(self) -> Offset:
        """Up to where the log was known to be replicated, between log start and log end.

        The checkpoint lags behind a running broker by up to five seconds.
        """
        known = self.log.checkpoints.high_watermark(self.partition)
        if known is None:
            return self.log_start_offset
        return max(self.log_start_offset, min(known, self.log_end_offset))

    def segment_for(self, offset: Offset) -> LogSegment | None:
        """The segment that holds an offset, if any does; None below the first one."""
        place = bisect_right(self.base_offsets, offset) - 1
        return None if place < 0 else self.segment_at(place)

    def segments_from(self, offset: Offset) -> Iterator[LogSegment]:
        """The segment that may hold an offset, or else the first one, and those after it."""
        for place in range(max(bisect_right(self.base_offsets, offset) - 1, 0), len(self)):
            yield self.segment_at(place)

    def next_base(self, segment: LogSegment) -> Offset:
        """The base offset of the segment after one; behind the last, the log end."""
        place = bisect_right(self.base_offsets, segment.base_offset)
        return self.base_offsets[place] if place < len(self.base_offsets) else self.log_end_offset

    def positions(
        self, segment: LogSegment, start_offset: Offset, stop_offset: Offset
    ) -> tuple[Position, Position]:
        """The bytes of a segment's whole batches that hold offsets of [start_offset, stop_offset)."""
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
        """The good batches that hold offsets of [start, stop), and what is damaged there, in log order.

        The first and the last batch are whole: they may hold records outside the range. What is torn
        after the last good batch of a live log is not there yet.

        Args:
            start_offset: by default the log start; may lie below it, since records there can still be on disk.
            stop_offset: by default the log end.
        """
        expected: Offset | None = None
        for segment, part in self.extents(start_offset, stop_offset):
            smallest = max(part.next_offset, expected or 0)
            for item in segment.scan(part.start, part.stop, next_offset=smallest):
                if isinstance(item, BatchRun):
                    expected = item.next_offset
                yield segment, item
                del item  # before the next one is read: a batch may be as large as the budget

    def extents(
        self, start_offset: Offset | None = None, stop_offset: Offset | None = None
    ) -> Iterator[tuple[LogSegment, Extent]]:
        """The parts of the segments that `runs` reads for these offsets, in log order.

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
