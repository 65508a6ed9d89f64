"""Cache of the decoded streams of a tree: their byte ranges, and whether they are still up to date.

A stream is kept after its file was closed, because its marks and its exact size cost a pass over the log. While a
file is open its stream only grows: the kernel has one size and one set of pages for a file. If the stream becomes
outdated (transactions that were open, a log start that moved), it is replaced when no file uses it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from engine import kernel
from engine.budgets import Budgets, MiB
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, ScanItem
from engine.log.view.log_view import LogView
from engine.log.view.transactions import OngoingTxn
from engine.units import MAX_INT64, Offset
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.damaged_record import refuse_lost
from kafkafs.decode.line_chunks import ANY_OFFSET, STRETCH_TEXT
from kafkafs.decode.line_rendering import Rendering
from kafkafs.decode.line_stream import Growth, LineStream, StreamPart
from kafkafs.tree.lookups import end_offset, next_base, segment_with_base

MOST_STREAMS = 16_384
SMALL = 2 * MiB
"""Bytes on disk whose text one thread makes: to hand over the work would cost more than it saves."""

_Scanned: TypeAlias = "tuple[LogSegment, ScanItem]"


class LineSource(NamedTuple):
    """The records of a partition that a file of lines shows.

    Attributes:
        partition: the partition's name in the tree.
        base_offset: the base offset of the only segment shown, or None for a range of offsets.
        start, end: the range of offsets; an `end` of 2^63-1 follows the log.
        committed: show the records that a read_committed consumer gets.
    """

    partition: str
    base_offset: Offset | None
    start: Offset = 0
    end: Offset = MAX_INT64
    committed: bool = False


class Streams:
    """Streams by their source; the least recently used are dropped. Thread-safe."""

    def __init__(self, chunks: ChunkCache, budgets: Budgets, most: int = MOST_STREAMS) -> None:
        self.chunks = chunks
        self._budgets = budgets
        self._most = most
        self._streams: OrderedDict[LineSource, _Held] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._streams)

    def peek(self, source: LineSource, view: LogView) -> LineStream | None:
        """Return the stream of a source, grown to the view, if it exists and is up to date."""
        held = self._streams.get(source)
        if held is None:
            return None
        return held.stream if held.follow(source, view) else None

    def obtain(self, source: LineSource, view: LogView, options: kernel.LineOptions) -> LineStream:
        """Return the stream of a source, pinned for the caller. Creates or replaces it if necessary."""
        with self._lock:
            held = self._streams.get(source)
            if held is not None:
                self._streams.move_to_end(source)
        if held is None or not held.follow(source, view):
            held = self._make(source, view, options)
            with self._lock:
                self._streams[source] = held
                self._streams.move_to_end(source)
                self._drop_old()
        held.stream.pin()
        return held.stream

    def _make(self, source: LineSource, view: LogView, options: kernel.LineOptions) -> _Held:
        rendering = _rendering(source, view, options, self._budgets)
        stream = LineStream(view, rendering, parts_of(source, view), self.chunks)
        return _Held(stream, view)

    def _drop_old(self) -> None:
        while len(self._streams) > self._most:
            self._streams.popitem(last=False)


class _Held:
    """A stream, the view that it was last grown to, and whether it is outdated."""

    __slots__ = ("_is_stale", "_open", "_view", "stream")

    def __init__(self, stream: LineStream, view: LogView) -> None:
        self.stream = stream
        self._view = view
        self._open: tuple[OngoingTxn, ...] | None = None
        self._is_stale = False

    def follow(self, source: LineSource, view: LogView) -> bool:
        """Grow the stream to a view. Return False if it has to be replaced."""
        stream = self.stream
        is_new = view is not self._view
        if is_new and not self._is_stale:
            self._is_stale = self._is_out_of_date(source, view)
        if self._is_stale and not stream.is_pinned:
            return False
        if not is_new:
            return True
        growth = stream.grow(view, parts_of(source, view))
        if growth is Growth.DONE:
            self._view = view
        return growth is not Growth.IMPOSSIBLE

    def _is_out_of_date(self, source: LineSource, view: LogView) -> bool:
        options = self.stream.rendering.options
        if line_options(source, view, options) != options:
            return True
        if self.stream.findings.has_open and self._open is None:
            self._open = self._view.open_transactions
        return self._open is not None and self._open != view.open_transactions


def text_of(
    source: LineSource,
    view: LogView,
    options: kernel.LineOptions,
    budgets: Budgets,
    jobs: int = 1,
) -> Iterator[bytes]:
    """Yield a stream's text from start to end, without measuring its size.

    Args:
        jobs: number of threads that make it; a small text is made by the calling thread.
    """
    rendering = _rendering(source, view, options, budgets)
    parts = parts_of(source, view)
    if jobs < 2 or sum(part.end - part.start for part in parts) <= SMALL:
        for segment, item in _scanned(view, rendering, parts):
            yield from rendering.text(view, segment, item)
            del item  # free it before the next one is read: a batch may be as large as the budget
        return
    # Imported here because a small text needs no threads.
    from engine.verdict.log_runs import is_large
    from engine.workers import Workers

    def text(scanned: _Scanned) -> Iterator[bytes]:
        return rendering.text(view, *scanned, STRETCH_TEXT)

    with Workers(jobs, "lines") as workers:
        yield from workers.flat_map(text, _scanned(view, rendering, parts), is_large)


def _rendering(
    source: LineSource, view: LogView, options: kernel.LineOptions, budgets: Budgets
) -> Rendering:
    within = offsets_of(source, view)
    if source.base_offset is None and within[1] >= view.log_end_offset:
        within = within[0], MAX_INT64

    def place(damage: Damage) -> Damage:
        # Imported here because most streams have no damage.
        from engine.verdict.log_losses import losses_of

        return losses_of(view).with_places(damage)

    return Rendering(line_options(source, view, options), budgets, within, place)


def _scanned(view: LogView, rendering: Rendering, parts: list[StreamPart]) -> Iterator[_Scanned]:
    """Yield runs of good batches and damage, in order; note the damage."""
    # Imported here because a look-up of one record reads no stream.
    from engine.verdict.log_losses import losses_of

    losses = losses_of(view)
    behind = ANY_OFFSET  # a segment may reach beyond the next base offset
    for segment, start, end in parts:
        expected = max(behind, ANY_OFFSET if start else segment.base_offset)
        scanned = rendering.scan(segment.file, start, end, expected, segment.bounds)
        for item in losses.read(segment, scanned, start, end, expected, rendering.within):
            if not isinstance(item, BatchRun) and not item.is_quiet:
                view.log.problems.add_damage(segment.path, item)
            behind = item.next_offset if isinstance(item, BatchRun) else behind
            yield segment, item
            del item  # free it before the next one is read: a batch may be as large as the budget


def line_options(
    source: LineSource, view: LogView, options: kernel.LineOptions
) -> kernel.LineOptions:
    """Return the line options of a source; they differ only if the text does."""
    low, high = offsets_of(source, view)
    return replace(
        options,
        committed=source.committed,
        log_start_offset=min(max(view.log_start_offset, low), high),
        from_offset=max(source.start, view.log_start_offset) if source.committed else source.start,
        to_offset=source.end,
    )


def offsets_of(source: LineSource, view: LogView) -> tuple[Offset, Offset]:
    """Return the offset range of a source."""
    if source.base_offset is None:
        return source.start, source.end
    following = next_base(view, source.base_offset)
    return source.base_offset, MAX_INT64 if following is None else following


def parts_of(source: LineSource, view: LogView) -> list[StreamPart]:
    """Return the byte ranges of a stream's text, as of a view. Needs index look-ups only."""
    start, end = source.start, min(source.end, view.end(committed=source.committed))
    if source.committed:
        start = max(start, view.log_start_offset)
    parts = []
    for segment in _segments(source, view, start, end):
        first = start if source.base_offset is None else max(start, view.begin_of(segment))
        low, high = _positions(view, segment, first, end)
        if low < high or (source.base_offset is not None and not segment.size):
            parts.append(StreamPart(segment, low, high))
    return parts


def refuse_lost_range(source: LineSource, view: LogView) -> None:
    """Raise DamagedRecordError if a range of offsets has no batch because its records are lost."""
    if source.base_offset is None and source.start < source.end and not parts_of(source, view):
        refuse_lost(view, max(source.start, view.log_start_offset))


def bytes_on_disk(source: LineSource, view: LogView) -> int:
    """Return the number of bytes on disk that a stream's text comes from. May be too large: an estimate.

    The exact number may need the last stable offset, which can cost a pass over the log.
    """
    if source.committed and view.known_transactions is None:
        start = max(source.start, view.log_start_offset)
        source = source._replace(start=start, committed=False)
    return sum(part.end - part.start for part in parts_of(source, view))


def _segments(
    source: LineSource, view: LogView, start: Offset, end: Offset
) -> Iterator[LogSegment]:
    if source.base_offset is not None:
        segment = segment_with_base(view, source.base_offset)
        if segment is not None:
            yield segment
    elif start <= end:
        lost = view.lost_segment if end == view.log_end_offset else None
        for segment in view.segments_from(start):
            if (start == end or segment.base_offset >= end) and segment is not lost:
                return
            yield segment


def text_end(view: LogView, segment: LogSegment) -> int:
    """Return the end of a segment's records; of the active segment, the end of its last whole batch."""
    return segment.tail_end if segment is view.active_segment else segment.size


def _positions(view: LogView, segment: LogSegment, start: Offset, end: Offset) -> tuple[int, int]:
    begins_before = start <= segment.base_offset
    ends_after = end >= end_offset(view, segment.base_offset)
    whole = text_end(view, segment)
    if begins_before and ends_after:
        return 0, whole
    if end <= segment.base_offset:
        return 0, 0
    low, high = view.positions(segment, start, end)
    return low, (whole if ends_after else high)
