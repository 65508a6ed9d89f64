"""The chunks of a decoded stream: the source of each piece of the text, 88 bytes per piece."""

from __future__ import annotations

import itertools
import threading
from array import array
from bisect import bisect_left, bisect_right
from typing import Any, NamedTuple

from engine.budgets import MiB
from engine.units import Offset, Position

ANY_OFFSET = -1
"""Any offset may follow: for a scan that starts in the middle of a file."""


ERROR_LINE = 2
"""`is_piece` of a chunk that keeps its text."""


class TextChunk(NamedTuple):
    """A piece of the text, [text_start, text_end), and its source.

    Attributes:
        part: index of the stream's part.
        start, end: positions in the part's file, between batches.
        next_offset, scan_end: arguments of the measuring scan, so that a second scan describes damage identically.
        first_record, skip: for a piece of one large batch: the index of its first record, and the bytes of that
            record's line before the piece; both 0 for whole batches.
        is_piece: 1 for a piece of one large batch, 2 for an error line that no scan of the file gives again, else 0.
        rows: number of good batches.
        fates: one byte per batch, or None if none is transactional; the text of such an error line.
    """

    text_start: int
    text_end: int
    part: int
    start: Position
    end: Position
    next_offset: Offset
    scan_end: Position
    first_record: int
    skip: int
    is_piece: int
    rows: int
    fates: bytes | None

    @property
    def is_whole(self) -> bool:
        """Whether the chunk has all records of its batches."""
        return not self.is_piece

    @property
    def is_error_line(self) -> bool:
        """Whether the chunk keeps its text, the error line of a loss, in `fates`."""
        return self.is_piece == ERROR_LINE

    @property
    def text_size(self) -> int:
        """Bytes of text."""
        return self.text_end - self.text_start

    def follows(self, other: TextChunk) -> bool:
        """Whether the same scan measured this chunk right after the other, so that one scan can decode both."""
        return (
            self.part == other.part
            and self.start == other.end
            and self.scan_end == other.scan_end
            and not self.is_piece
            and not other.is_piece
        )


def _joined(chunks: list[TextChunk]) -> TextChunk:
    """Return consecutive chunks as one."""
    last = chunks[-1]
    fates = None
    if any(chunk.fates is not None for chunk in chunks):
        fates = b"".join(chunk.fates or bytes(chunk.rows) for chunk in chunks)
    return chunks[0]._replace(
        text_end=last.text_end, end=last.end, rows=sum(chunk.rows for chunk in chunks), fates=fates
    )


STRETCH_TEXT = 2 * MiB
"""About the bytes of text that are decoded at once for a sequential reader."""
_FIELDS = len(TextChunk._fields) - 3
_FIRST, _END = 2, 2 + _FIELDS


class ChunkTable:
    """Chunks by position in the text. One thread appends, any thread may look up."""

    def __init__(self) -> None:
        self.size = 0
        self._starts = array(
            "q", [0]
        )  # text positions: the start of each chunk, and the end of the last one
        self._fields = array("q")
        self._fates: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._starts) - 1

    def at(self, position: int) -> TextChunk:
        """Return the chunk that holds a byte of the text."""
        with self._lock:
            return self._chunk(bisect_right(self._starts, position) - 1)

    def stretch_at(self, position: int) -> TextChunk:
        """Return the chunk that holds a byte of the text, joined with its neighbours up to about STRETCH_TEXT bytes.

        The same chunks are joined for each position in them. A chunk is returned alone if one scan cannot decode all
        of them, and near the end of the text, which may grow.
        """
        with self._lock:
            starts = self._starts
            number = bisect_right(starts, position) - 1
            window = starts[number] - starts[number] % STRETCH_TEXT
            if window + STRETCH_TEXT > self.size:
                return self._chunk(number)
            first, stop = (bisect_left(starts, edge) for edge in (window, window + STRETCH_TEXT))
            chunks = [self._chunk(other) for other in range(first, stop)]
        are_joined = all(chunk.follows(before) for before, chunk in itertools.pairwise(chunks))
        return _joined(chunks) if are_joined else chunks[number - first]

    def _chunk(self, number: int) -> TextChunk:
        first = number * _FIELDS
        fields: list[Any] = [self._starts[number], self._starts[number + 1]]
        fields += self._fields[first : first + _FIELDS]
        return TextChunk._make([*fields, self._fates.get(number)])

    def commit(self, chunk: TextChunk) -> None:
        """Append a chunk; replace the last one if the new chunk starts before its end."""
        with self._lock:
            if chunk.text_start < self._starts[-1]:
                self._starts.pop()
                del self._fields[-_FIELDS:]
                self._fates.pop(len(self._starts) - 1, None)
            if chunk.fates is not None:
                self._fates[len(self._starts) - 1] = chunk.fates
            fields: tuple[Any, ...] = chunk[_FIRST:_END]
            self._fields.extend(fields)
            self._starts.append(chunk.text_end)
            self.size = chunk.text_end
