"""The chunks of a decoded stream: the source of each piece of the text, 88 bytes per piece."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from typing import Any, NamedTuple

from engine.units import Offset, Position

ANY_OFFSET = -1
"""Any offset may follow: for a scan that starts in the middle of a file."""


class TextChunk(NamedTuple):
    """A piece of the text, [text_start, text_end), and its source.

    Attributes:
        part: index of the stream's part.
        start, end: positions in the part's file, between batches.
        next_offset, scan_end: arguments of the measuring scan, so that a second scan describes damage identically.
        first_record, skip: for a piece of one large batch: the index of its first record, and the bytes of that
            record's line before the piece; both 0 for whole batches.
        is_piece: 1 for a piece of one large batch, else 0.
        rows: number of good batches.
        fates: one byte per batch, or None if none is transactional.
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
    def text_size(self) -> int:
        """Bytes of text."""
        return self.text_end - self.text_start


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
            number = bisect_right(self._starts, position) - 1
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
