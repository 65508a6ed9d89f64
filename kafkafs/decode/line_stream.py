"""Record lines of a segment or of an offset range as one long file: exact size, any position, bounded memory.

A first pass measures the text without keeping it and leaves a mark about every 512 KiB: at which batch a
chunk of text begins. From then on any byte is found by a search among the marks and by decoding one chunk
again. Chunks are in a cache that all streams share. The text is a function of the bytes on disk, of the
options and of what was known about transactions when a chunk was measured (kept with it), so a chunk comes
out the same each time, or the file has changed and the read fails.

A log that grows extends its stream at the end: nothing that was shown changes.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from engine.files.source_files import SourceFile
from engine.log.log_view import LogView
from engine.log.segment.log_segment import LogSegment
from engine.units import Offset, Position
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.failures import Cancelled, ChangedFileError
from kafkafs.decode.line_chunks import ANY_OFFSET, ChunkTable, TextChunk
from kafkafs.decode.line_measuring import Findings, PartMeasuring
from kafkafs.decode.line_rendering import Rendering
from kafkafs.decode.read_ahead import decode_soon

KEPT_TEXT = 1024 * 1024
"""A stream up to this size is rendered when it is opened."""
CHUNKS_AHEAD = 8
MOST_PINNED = 64
"""Files that an open stream holds; of more it opens the others when it comes to them."""

_serials = itertools.count(1)


class StreamPart(NamedTuple):
    """The bytes [start, end) of a segment: whole batches but for a damaged end."""

    segment: LogSegment
    start: Position
    end: Position


class Growth(Enum):
    """What came of bringing a stream up to date."""

    DONE = 1
    BUSY = 2
    """Another thread measures it; it stays as it is for now."""
    IMPOSSIBLE = 3
    """Something before its end has changed: make a new one."""


class LineStream:
    """The record lines of some parts of a log, in order; safe from several threads.

    Args:
        view: the log, asked for the fates of transactions.
        rendering: how the text is made.
        parts: consecutive byte ranges; the last one may grow, and more may be added, by `grow`.
        cache: where chunks are kept.

    Attributes:
        serial: no other stream of this process has the same.
        findings: what was found on the way: damage, open transactions.
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
        self._pinning = threading.Lock()
        self._frontier = (0, *self._beginning(0))
        self._files: dict[int, SourceFile] = {}
        self._identities: dict[int, tuple[int, int]] = {}
        self._pins = 0

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
        """Make `size` the exact size of the whole text; the size.

        A small text is also rendered and cached. What was measured stays when the caller gives up.

        Raises:
            Cancelled: `cancel` said so.
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
        """As `measure` if no other thread is at it and at most `most_bytes` of disk are to be read."""
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
        """Where a part begins, and the smallest offset that may come."""
        if part >= len(self.parts):
            return 0, ANY_OFFSET
        segment, start, _ = self.parts[part]
        return start, ANY_OFFSET if start else segment.base_offset

    def grow(self, view: LogView, parts: list[StreamPart]) -> Growth:
        """Go on with a newer view, whose parts must begin with ours. Does not wait."""
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
        """Whether the last batch that was measured is still there, after a log may have been cut."""
        position, head = self.findings.last_head
        try:
            return part.segment.file.read_at(position, len(head)) == head
        except OSError:
            return False

    # -- reading ----------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Text [offset, offset + size) as far as it is measured.

        Raises:
            ChangedFileError: the log was truncated or rewritten since it was measured.
            OSError: a file cannot be read.
        """
        end = min(offset + size, self.size)
        pieces = []
        while offset < end:
            chunk = self._chunks.at(offset)
            text = self._text_of(chunk)
            pieces.append(text[offset - chunk.text_start : end - chunk.text_start])
            offset = chunk.text_end
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_now(self, offset: int, size: int) -> bytes | None:
        """As `read` when all of it is in the cache, else None."""
        end = min(offset + size, self.size)
        pieces = []
        while offset < end:
            chunk = self._chunks.at(offset)
            text = self._cache.peek(self._key(chunk))
            if text is None:
                return None
            pieces.append(text[offset - chunk.text_start : end - chunk.text_start])
            offset = chunk.text_end
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def prepare(self, position: int, chunks: int) -> int:
        """Have the chunks after the one at a position decoded soon; where that one ends."""
        chunk = self._chunks.at(min(position, self.size - 1))
        until = chunk.text_end
        for _ in range(chunks):
            if chunk.text_end >= self.size:
                break
            chunk = self._chunks.at(chunk.text_end)
            if not chunk.is_whole:
                break  # each piece takes the memory of all of its batch
            if self._key(chunk) not in self._cache:
                decode_soon(lambda chunk=chunk: self._text_of(chunk))  # type: ignore[misc]
        return until

    def chunks(self) -> Iterator[TextChunk]:
        """All chunks, in order."""
        position = 0
        while position < self.size:
            chunk = self._chunks.at(position)
            yield chunk
            position = chunk.text_end

    def _text_of(self, chunk: TextChunk) -> bytes:
        return self._cache.get(self._key(chunk), lambda: self._render(chunk))

    def _render(self, chunk: TextChunk) -> bytes:
        return self.rendering.text_of(chunk, self._file(chunk.part))

    def _key(self, chunk: TextChunk) -> tuple[int, int, int]:
        return self.serial, chunk.text_start, chunk.text_end

    # -- files ------------------------------------------------------------------------------------

    def pin(self) -> None:
        """Keep the files open, so that the text stays readable when the log lets go of them."""
        with self._pinning:
            self._pins += 1
        for part in range(min(len(self.parts), MOST_PINNED)):
            self._file(part)

    def unpin(self) -> None:
        """The end of a `pin`."""
        with self._pinning:
            self._pins -= 1
            if self._pins == 0:
                self._files = {}

    @property
    def is_pinned(self) -> bool:
        """Whether somebody reads the text."""
        return self._pins > 0

    def _file(self, part: int) -> SourceFile:
        file = self._files.get(part)
        if file is not None:
            return file
        file = self.parts[part].segment.file
        identity = file.device, file.inode
        if self._identities.setdefault(part, identity) != identity:
            raise ChangedFileError("another file has taken the name of this one", path=file.path)
        with self._pinning:
            if self._pins and len(self._files) < MOST_PINNED:
                self._files[part] = file
        return file


def _is_same(mine: LogSegment, new: LogSegment) -> bool:
    if mine.files is new.files:
        return True
    try:
        return mine.identity == new.identity
    except OSError:
        return False


class LineReader:
    """One reader's way through a stream: a reader that goes straight on finds the next chunks ready."""

    __slots__ = ("_prepared_to", "_read_to", "stream")

    def __init__(self, stream: LineStream) -> None:
        self.stream = stream
        self._read_to = 0
        self._prepared_to = 0

    def read(self, offset: int, size: int) -> bytes:
        """As LineStream.read."""
        self._prepare(offset, size)
        return self.stream.read(offset, size)

    def read_now(self, offset: int, size: int) -> bytes | None:
        """As LineStream.read_now."""
        text = self.stream.read_now(offset, size)
        if text is not None:
            self._prepare(offset, size)
        return text

    def _prepare(self, offset: int, size: int) -> None:
        stream = self.stream
        end = min(offset + size, stream.size)
        if offset != self._read_to:
            self._prepared_to = 0
        elif offset < end and end > self._prepared_to:
            self._prepared_to = stream.prepare(end, CHUNKS_AHEAD)
        self._read_to = end
