"""The decoded streams of a tree: which there are, what their text comes from, whether they are still true.

A stream is kept after its file was closed, because its marks and its exact size cost a pass over the log.
While somebody has it open it only ever grows, whatever else is learned: the kernel has one size and one set
of pages for a file. What then is out of date (transactions that were open, a log start that moved) is put
right by the next stream, made once nobody reads the old one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from engine import kernel
from engine.budgets import Budgets
from engine.log.log_view import LogView
from engine.log.segment.log_segment import LogSegment
from engine.log.transactions import OngoingTxn
from engine.units import MAX_INT64, Offset
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.line_chunks import ANY_OFFSET
from kafkafs.decode.line_rendering import Rendering
from kafkafs.decode.line_stream import Growth, LineStream, StreamPart
from kafkafs.tree.segments import end_offset, next_base, segment_with_base

MOST_STREAMS = 16_384


class LineSource(NamedTuple):
    """Which records of a partition a file of lines shows.

    Attributes:
        partition: the partition's name in the tree.
        base_offset: of the one segment that is shown, or None for a range of offsets.
        start, end: the range of offsets; an `end` of 2^63-1 follows the log.
        committed: as a read_committed consumer sees it.
    """

    partition: str
    base_offset: Offset | None
    start: Offset = 0
    end: Offset = MAX_INT64
    committed: bool = False


class Streams:
    """The streams by what they show; the least recently used are forgotten. Safe from several threads."""

    def __init__(self, chunks: ChunkCache, budgets: Budgets, most: int = MOST_STREAMS) -> None:
        self.chunks = chunks
        self._budgets = budgets
        self._most = most
        self._streams: OrderedDict[LineSource, _Held] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._streams)

    def peek(self, source: LineSource, view: LogView) -> LineStream | None:
        """The stream that shows it, grown to the view, if there is one that still holds."""
        held = self._streams.get(source)
        if held is None:
            return None
        return held.stream if held.follow(source, view) else None

    def obtain(self, source: LineSource, view: LogView, options: kernel.LineOptions) -> LineStream:
        """The stream that shows it, made anew where needed; pinned for the caller."""
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
        rendering = Rendering(line_options(source, view, options), self._budgets)
        stream = LineStream(view, rendering, parts_of(source, view), self.chunks)
        return _Held(stream, view)

    def _drop_old(self) -> None:
        while len(self._streams) > self._most:
            self._streams.popitem(last=False)


class _Held:
    """A stream, the view it was last brought up to, and whether it has fallen behind what is known."""

    __slots__ = ("_is_stale", "_open", "_view", "stream")

    def __init__(self, stream: LineStream, view: LogView) -> None:
        self.stream = stream
        self._view = view
        self._open: tuple[OngoingTxn, ...] | None = None
        self._is_stale = False

    def follow(self, source: LineSource, view: LogView) -> bool:
        """Bring the stream up to a view; False when it cannot show that."""
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
    source: LineSource, view: LogView, options: kernel.LineOptions, budgets: Budgets
) -> Iterator[bytes]:
    """A stream's text from front to end, without its size."""
    rendering = Rendering(line_options(source, view, options), budgets)
    for segment, start, end in parts_of(source, view):
        expected = ANY_OFFSET if start else segment.base_offset
        yield from rendering.text(view, segment, start, end, expected)


def line_options(
    source: LineSource, view: LogView, options: kernel.LineOptions
) -> kernel.LineOptions:
    """The options of a stream's lines; they change only when its text does."""
    low, high = offsets_of(source, view)
    return replace(
        options,
        committed=source.committed,
        log_start_offset=min(max(view.log_start_offset, low), high),
        from_offset=max(source.start, view.log_start_offset) if source.committed else source.start,
        to_offset=source.end,
    )


def offsets_of(source: LineSource, view: LogView) -> tuple[Offset, Offset]:
    """The offsets that a source is about."""
    if source.base_offset is None:
        return source.start, source.end
    following = next_base(view, source.base_offset)
    return source.base_offset, MAX_INT64 if following is None else following


def parts_of(source: LineSource, view: LogView) -> list[StreamPart]:
    """The byte ranges that a stream's text comes from, as of a view; index look-ups only."""
    start, end = source.start, min(source.end, view.log_end_offset)
    if source.committed:
        start = max(start, view.log_start_offset)
        end = min(end, view.last_stable_offset)
    parts = []
    for segment in _segments(source, view, start, end):
        low, high = _positions(view, segment, start, end)
        if low < high:
            parts.append(StreamPart(segment, low, high))
    return parts


def bytes_on_disk(source: LineSource, view: LogView) -> int:
    """How many bytes a stream's text comes from, more where it would take a pass over the log to know.

    That pass is what the last stable offset can cost; it is not made for a guess.
    """
    if source.committed and view.known_transaction_state() is None:
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
    """Where a segment's records end: of a log that is being written at its last whole batch."""
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
