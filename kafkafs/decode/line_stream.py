"""Record lines of a segment or an offset range as one long file: exact size, any position, bounded memory.

A first pass measures the text without keeping it, and leaves a mark about every 512 KiB: the batch at which a chunk of
text begins. Then any byte is found by a search in the marks and by decoding one chunk again. Chunks are in a cache
shared by all streams. The text depends only on the bytes on disk, the options, and the fates of transactions when a
chunk was measured (kept with the chunk). So a chunk always has the same text; otherwise the file has changed, and the
read fails.

When the log grows, its stream grows at the end: text that was already read never changes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

from engine.files.source_files import SourceFile
from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_view import LogView
from engine.units import Offset, Position
from kafkafs.decode.chunk_cache import ChunkCache, Text
from kafkafs.decode.failures import Cancelled, ChangedFileError
from kafkafs.decode.line_chunks import ANY_OFFSET, STRETCH_TEXT, ChunkTable, TextChunk
from kafkafs.decode.line_measuring import Findings, PartMeasuring
from kafkafs.decode.line_rendering import Rendering
from kafkafs.decode.part_files import MOST_PINNED, PartFiles

KEPT_TEXT = 1024 * 1024
"""A stream up to this size is rendered when it is opened."""
STRETCHES_AHEAD = 2

_serials = itertools.count(1)


class StreamPart(NamedTuple):
    """Bytes [start, end) of a segment: whole batches, except for a damaged end."""

    segment: LogSegment
    start: Position
    end: Position


class Growth(Enum):
    """Result of growing a stream."""

    DONE = 1
    BUSY = 2
    """Another thread is measuring the stream; it stays unchanged for now."""
    IMPOSSIBLE = 3
    """Bytes before its end have changed: a new stream is needed."""


class LineStream:
    """Record lines of some parts of a log, in order. Thread-safe.

    Args:
        view: the log, for the fates of transactions.
        rendering: options for the text.
        parts: consecutive byte ranges. `grow` may extend the last one, and add more.
        cache: for chunks.

    Attributes:
        serial: number that is unique in this process.
        findings: damage and open transactions found while measuring.
    """

    def __init__(
        self, view: LogView, rendering: Rendering, parts: list[StreamPart], cache: ChunkCache
    ) -> None:
        self.serial = next(_serials)
        self.rendering = rendering
        self.parts = parts
        self.findings = Findings()
        self._view = view
        self._cache = cache
        self._chunks = ChunkTable()
        self._measuring = threading.Lock()
        self._empty_parts = _empty(parts)
        self._frontier = (0, *self._beginning(0))
        self._files = PartFiles()

    # -- size and growth --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of text measured so far."""
        return self._chunks.size

    @property
    def unmeasured_bytes(self) -> int:
        """Bytes on disk that are not measured yet; a part without bytes, whose records may be lost, counts as one."""
        part, position, _ = self._frontier
        parts = self.parts
        if part >= len(parts):
            return 0
        left = parts[part].end - position + sum(p.end - p.start for p in parts[part + 1 :])
        return left + self._empty_parts

    def measure(self, cancel: Callable[[], bool] | None = None) -> int:
        """Measure the rest of the text, and return the exact size.

        A small text is also rendered and cached. If cancelled, the part that was measured stays.

        Raises:
            Cancelled: `cancel` returned True.
            OSError, ChangedFileError: a file cannot be read.
        """
        if self.unmeasured_bytes:
            while not self._measuring.acquire(timeout=-1 if cancel is None else 0.05):
                if cancel is not None and cancel():
                    raise Cancelled
            try:
                self._measure(cancel)
            finally:
                self._measuring.release()
            if self.size <= KEPT_TEXT:
                self.read(0, self.size)
        return self.size

    def measure_now(self, most_bytes: int) -> bool:
        """Measure if no other thread does and at most `most_bytes` have to be read. Return whether the size is exact."""
        unmeasured = self.unmeasured_bytes
        if not unmeasured:
            return True
        if unmeasured > most_bytes or not self._measuring.acquire(blocking=False):
            return False
        try:
            self._measure(None)
        finally:
            self._measuring.release()
        return True

    def _measure(self, cancel: Callable[[], bool] | None) -> None:
        part, position, expected = self._frontier
        while part < len(self.parts):
            segment, start, end = self.parts[part]
            if position < end or (start == end and self._empty_parts):
                self._empty_parts -= start == end
                measuring = PartMeasuring(
                    self.rendering, self._chunks, self.findings, part, position, end, expected
                )
                try:
                    measuring.run(self._view, segment, self._file(part), cancel)
                finally:
                    self._frontier = (part, measuring.position, measuring.next_offset)
            if part == len(self.parts) - 1:
                return
            part += 1
            behind = self._frontier[2]
            position, expected = self._beginning(part)
            expected = max(expected, behind)  # a segment may reach beyond the next base offset
            self._frontier = (part, position, expected)

    def _beginning(self, part: int) -> tuple[Position, Offset]:
        """Return a part's first position, and the smallest offset that may follow."""
        if part >= len(self.parts):
            return 0, ANY_OFFSET
        segment, start, _ = self.parts[part]
        return start, ANY_OFFSET if start else segment.base_offset

    def grow(self, view: LogView, parts: list[StreamPart]) -> Growth:
        """Switch to a newer view with parts that begin with the current ones. Does not wait."""
        if not self._measuring.acquire(blocking=False):
            return Growth.BUSY
        try:
            if parts != self.parts and not self._is_continued_by(view, parts):
                return Growth.IMPOSSIBLE
            is_empty = not self.parts
            self.parts = parts
            self._view = view
            if is_empty:
                self._empty_parts = _empty(parts)
                self._frontier = (0, *self._beginning(0))
            return Growth.DONE
        finally:
            self._measuring.release()

    def _is_continued_by(self, view: LogView, parts: list[StreamPart]) -> bool:
        own = self.parts
        if len(parts) < len(own):
            return False
        for place, (mine, new) in enumerate(zip(own, parts, strict=False)):
            may_grow = place == len(own) - 1
            if mine.start != new.start or not _is_same(mine.segment, new.segment):
                return False
            if new.end != mine.end and (new.end < mine.end or not may_grow):
                return False
        if not own:
            return True
        if view.rewrites != self._view.rewrites and not self._still_ends_as_measured(
            parts[len(own) - 1]
        ):
            return False
        return self.findings.is_clean_end

    def _still_ends_as_measured(self, part: StreamPart) -> bool:
        """Return whether the last measured batch is still there; the log may have been truncated."""
        position, head = self.findings.last_head
        try:
            return part.segment.file.read_at(position, len(head)) == head
        except OSError:
            return False

    # -- reading ----------------------------------------------------------------------------------

    def read(self, position: int, size: int) -> bytes:
        """Return the text [position, position + size), as far as it is measured.

        Raises:
            ChangedFileError: the log was truncated or rewritten since it was measured.
            OSError: a file cannot be read.
        """
        end = min(position + size, self.size)
        return b"".join(
            [
                _piece(self.text_of(chunk), chunk, position, end)
                for chunk in self.chunks(position, end)
            ]
        )

    def chunk_at(self, position: int, *, joined: bool) -> TextChunk:
        """Return the chunk that holds a byte of the text; `joined` as by ChunkTable.stretch_at."""
        return self._chunks.stretch_at(position) if joined else self._chunks.at(position)

    def text_of(self, chunk: TextChunk) -> Text:
        """Return the text of a chunk, from the cache or decoded now. Raises as `read` does."""
        return self._cache.get(self._key(chunk), lambda: self._render(chunk))

    def cached_text_of(self, chunk: TextChunk) -> Text | None:
        """Return the text of a chunk if it is cached."""
        return self._cache.peek(self._key(chunk))

    def is_cached(self, chunk: TextChunk) -> bool:
        """Return whether the text of a chunk is cached or being decoded."""
        return self._key(chunk) in self._cache

    def notify(self, chunk: TextChunk, callback: Callable[[], object]) -> bool:
        """Call `callback` from another thread when a chunk is decoded. Return False if no thread is decoding it."""
        return self._cache.notify(self._key(chunk), callback)

    def drop(self, chunk: TextChunk) -> None:
        """Remove the text of a chunk from the cache."""
        self._cache.drop(self._key(chunk))

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[TextChunk]:
        """Yield the chunks of the text [start, end), by default of all that is measured, in order."""
        end = self.size if end is None else end
        while start < end:
            chunk = self._chunks.at(start)
            yield chunk
            start = chunk.text_end

    def _render(self, chunk: TextChunk) -> Text:
        bounds = self.parts[chunk.part].segment.bounds
        return self.rendering.text_of(chunk, self._file(chunk.part), bounds)

    def _key(self, chunk: TextChunk) -> tuple[int, int, int]:
        return self.serial, chunk.text_start, chunk.text_end

    # -- files ------------------------------------------------------------------------------------

    def pin(self) -> None:
        """Keep the files open, so that the text stays readable when the log deletes them."""
        self._files.pin()
        for part in range(min(len(self.parts), MOST_PINNED)):
            self._file(part)

    def unpin(self) -> None:
        """Release a `pin`."""
        self._files.unpin()

    @property
    def is_pinned(self) -> bool:
        """Whether the stream is in use."""
        return self._files.is_pinned

    def _file(self, part: int) -> SourceFile:
        return self._files.file(part, self.parts[part].segment)


def _empty(parts: list[StreamPart]) -> int:
    return sum(part.start == part.end for part in parts)


def _is_same(mine: LogSegment, new: LogSegment) -> bool:
    if mine.files is new.files:
        return True
    try:
        return mine.identity == new.identity
    except OSError:
        return False


def _piece(text: Text, chunk: TextChunk, start: int, end: int) -> Text:
    """Return the part of a chunk's text that lies in [start, end) of the stream; a view, so that it is copied once."""
    if start <= chunk.text_start and end >= chunk.text_end:
        return text
    return memoryview(text)[max(start - chunk.text_start, 0) : end - chunk.text_start]


def _join(pieces: list[Text]) -> Text:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class LineReader:
    """A reader of a stream. For sequential reads it decodes in stretches, and ahead of the reader."""

    __slots__ = ("_from", "_read_to", "_stretches", "stream")

    def __init__(self, stream: LineStream) -> None:
        self.stream = stream
        self._read_to = -STRETCH_TEXT
        self._from = 0
        self._stretches: tuple[TextChunk, ...] = ()

    def read_now(self, position: int, size: int) -> Text | None:
        """Like LineStream.read if all of the text is cached, else None."""
        self._note(position, size)
        pieces = []
        for chunk, start in self._chunks_of(position, size):
            text = self.stream.cached_text_of(chunk)
            if text is None:
                return None
            pieces.append(_piece(text, chunk, start, position + size))
        return _join(pieces)

    def notify(self, position: int, size: int, callback: Callable[[], object]) -> bool:
        """Call `callback` from another thread when more of the text that `read_now` misses is cached.

        Return False if no thread is decoding it.
        """
        for chunk, _ in self._chunks_of(position, size):
            if self.stream.cached_text_of(chunk) is None:
                return self.stream.notify(chunk, callback)
        callback()
        return True

    def read(self, position: int, size: int) -> bytes:
        """Like LineStream.read, from the stretches that are decoded for this reader."""
        try:
            pieces = [
                _piece(self.stream.text_of(chunk), chunk, start, position + size)
                for chunk, start in self._chunks_of(position, size)
            ]
        except (ChangedFileError, OSError):
            return self.stream.read(position, size)  # the other chunks of the stretch may be fine
        return b"".join(pieces)

    def close(self) -> None:
        """Drop the text that was decoded for this reader."""
        for stretch in self._stretches:
            self.stream.drop(stretch)
        self._stretches = ()

    def _chunks_of(self, position: int, size: int) -> list[tuple[TextChunk, int]]:
        """Return the chunks of a range, each with the position from which it is read.

        They are the stretches of this reader, and single chunks elsewhere. They may overlap: growth continues a small
        last chunk, and this reader keeps the chunk from before.
        """
        end = min(position + size, self.stream.size)
        chunks = []
        while position < end:
            for chunk in self._stretches:
                if chunk.text_start <= position < chunk.text_end:
                    break
            else:
                chunk = self.stream.chunk_at(position, joined=False)
            chunks.append((chunk, position))
            position = chunk.text_end
        return chunks

    def _note(self, position: int, size: int) -> None:
        """Decode ahead if a read continues those before it. Requests may come a little out of order."""
        end = position + size
        if abs(position - self._read_to) > STRETCH_TEXT or position == 0:
            self._read_to = end
            self.close()
            self._from = 0
        elif end > self._read_to:
            self._read_to = end
            if self._from <= position < self.stream.size:
                self._go_on(position)

    def _go_on(self, position: int) -> None:
        """Decode the stretches after the one at a position, and drop those before it but one."""
        stream = self.stream
        behind = [stretch for stretch in self._stretches if stretch.text_end <= position]
        for stretch in behind[:-1]:
            stream.drop(stretch)
        stretches = [stretch for stretch in self._stretches if stretch.text_end > position]
        if not stretches:
            stretches.append(stream.chunk_at(position, joined=True))
        self._from = stretches[0].text_end
        known = len(stretches)
        while len(stretches) <= STRETCHES_AHEAD and stretches[-1].text_end < stream.size:
            stretch = stream.chunk_at(stretches[-1].text_end, joined=True)
            if not stretch.is_whole:
                break  # each piece takes the memory of the whole batch
            stretches.append(stretch)
        self._stretches = (*behind[-1:], *stretches)
        for stretch in stretches[known:]:
            if not stream.is_cached(stretch):
                _ahead.soon(partial(self._decode, stretch))

    def _decode(self, stretch: TextChunk) -> None:
        """Decode a stretch, unless the reader has passed it or was closed."""
        if stretch in self._stretches:
            self.stream.text_of(stretch)


class _Ahead:
    """Threads that decode ahead, started at first use. They end with the process."""

    THREADS = 2

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()

    def soon(self, work: Callable[[], object]) -> None:
        """Do some work in the background. Its exception is dropped: the reader of the result gets it again."""
        self._work.put(work)
        if not self._threads:
            self._start()

    def _start(self) -> None:
        with self._starting:
            while len(self._threads) < self.THREADS:
                name = f"kafkafs-ahead-{len(self._threads)}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self) -> None:
        while True:
            with suppress(Exception):
                self._work.get()()


_ahead = _Ahead()
