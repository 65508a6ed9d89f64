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
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from engine.files.source_files import SourceFile
from engine.log.log_view import LogView
from engine.log.segment.log_segment import LogSegment
from engine.units import Offset, Position
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.failures import Cancelled
from kafkafs.decode.line_chunks import ANY_OFFSET, ChunkTable, TextChunk
from kafkafs.decode.line_measuring import Findings, PartMeasuring
from kafkafs.decode.line_rendering import Rendering
from kafkafs.decode.part_files import MOST_PINNED, PartFiles

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

KEPT_TEXT = 1024 * 1024
"""A stream up to this size is rendered when it is opened."""
CHUNKS_AHEAD = 8

_serials = itertools.count(1)
_ahead_lock = threading.Lock()
_ahead: ThreadPoolExecutor | None = None
"""Threads that decode ahead; started at first use."""


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
        self._frontier = (0, *self._beginning(0))
        self._files = PartFiles()

    # -- size and growth --------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of text measured so far."""
        return self._chunks.size

    @property
    def unmeasured_bytes(self) -> int:
        """Bytes on disk that are not measured yet."""
        part, position, _ = self._frontier
        parts = self.parts
        if part >= len(parts):
            return 0
        return parts[part].end - position + sum(p.end - p.start for p in parts[part + 1 :])

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
            segment, _, end = self.parts[part]
            if position < end:
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
            position, expected = self._beginning(part)
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
        pieces = [
            _piece(self._text_of(chunk), chunk, position, position + size)
            for chunk in self._chunks_of(position, size)
        ]
        return b"".join(pieces)

    def read_now(self, position: int, size: int) -> bytes | None:
        """Like `read` if all chunks are cached, else None."""
        pieces = []
        for chunk in self._chunks_of(position, size):
            text = self._cache.peek(self._key(chunk))
            if text is None:
                return None
            pieces.append(_piece(text, chunk, position, position + size))
        return b"".join(pieces)

    def _chunks_of(self, position: int, size: int) -> Iterator[TextChunk]:
        """Yield the chunks that reach into [position, position + size)."""
        end = min(position + size, self.size)
        while position < end:
            chunk = self._chunks.at(position)
            yield chunk
            position = chunk.text_end

    def prepare(self, position: int, chunks: int) -> int:
        """Decode the chunks after the one at `position` in the background. Return the end of that one."""
        chunk = self._chunks.at(min(position, self.size - 1))
        until = chunk.text_end
        for _ in range(chunks):
            if chunk.text_end >= self.size:
                break
            chunk = self._chunks.at(chunk.text_end)
            if not chunk.is_whole:
                break  # each piece takes the memory of the whole batch
            if self._key(chunk) not in self._cache:
                _decode_soon(lambda chunk=chunk: self._text_of(chunk))  # type: ignore[misc]
        return until

    def chunks(self) -> Iterator[TextChunk]:
        """Yield all chunks, in order."""
        return self._chunks_of(0, self.size)

    def _text_of(self, chunk: TextChunk) -> bytes:
        return self._cache.get(self._key(chunk), lambda: self._render(chunk))

    def _render(self, chunk: TextChunk) -> bytes:
        return self.rendering.text_of(chunk, self._file(chunk.part))

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


def _is_same(mine: LogSegment, new: LogSegment) -> bool:
    if mine.files is new.files:
        return True
    try:
        return mine.identity == new.identity
    except OSError:
        return False


def _piece(text: bytes, chunk: TextChunk, start: int, end: int) -> bytes | memoryview:
    """Return the part of a chunk's text that lies in [start, end) of the stream; a view, so that it is copied once."""
    if start <= chunk.text_start and end >= chunk.text_end:
        return text
    return memoryview(text)[max(start - chunk.text_start, 0) : end - chunk.text_start]


class LineReader:
    """A reader of a stream. Decodes the next chunks ahead for sequential reads."""

    __slots__ = ("_prepared_to", "_read_to", "stream")

    def __init__(self, stream: LineStream) -> None:
        self.stream = stream
        self._read_to = 0
        self._prepared_to = 0

    def read(self, position: int, size: int) -> bytes:
        """Like LineStream.read."""
        self._prepare(position, size)
        return self.stream.read(position, size)

    def read_now(self, position: int, size: int) -> bytes | None:
        """Like LineStream.read_now."""
        text = self.stream.read_now(position, size)
        if text is not None:
            self._prepare(position, size)
        return text

    def _prepare(self, position: int, size: int) -> None:
        stream = self.stream
        end = min(position + size, stream.size)
        if position != self._read_to:
            self._prepared_to = 0
        elif position < end and end > self._prepared_to:
            self._prepared_to = stream.prepare(end, CHUNKS_AHEAD)
        self._read_to = end


def _decode_soon(work: Callable[[], object]) -> None:
    """Run `work` in the background. Its exception is dropped: the reader of the result gets it again."""
    global _ahead
    with _ahead_lock:
        if _ahead is None:
            from concurrent.futures import ThreadPoolExecutor  # only a long stream needs threads

            _ahead = ThreadPoolExecutor(2, thread_name_prefix="kafkafs-ahead")
        pool = _ahead
    pool.submit(work)
