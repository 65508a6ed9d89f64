"""The chunks of a decoded stream: where each piece of the text comes from, in 88 bytes a piece."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from typing import Any, NamedTuple

from engine.units import Offset, Position

ANY_OFFSET = -1
"""Stands for "any offset may come" where a scan starts in the middle of a file."""


class TextChunk(NamedTuple):
    """A piece of the text, [text_start, text_end), and where it comes from.

    Attributes:
        part: which of the stream's parts.
        start, end: positions in its file, between batches.
        next_offset, scan_end: what the scan that measured it knew, so that it words damage the same again.
        first_record, skip: of a batch with very much text, the record that this piece of it begins with, and
            the bytes of that record's line that come before; for whole batches both 0.
        is_piece: 1 for such a piece, else 0.
        rows: good batches in it.
        fates: a byte for each of them, if some are transactional.
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
        """Whether it has all records of its batches."""
        return not self.is_piece

    @property
    def text_size(self) -> int:
        """Bytes of text."""
        return self.text_end - self.text_start


_FIELDS = len(TextChunk._fields) - 3
_FIRST, _END = 2, 2 + _FIELDS


class ChunkTable:
    """Chunks by position in the text; one thread appends, any may look up."""

    def __init__(self) -> None:
        self.size = 0
        self._starts = array("q", [0])  # of each chunk's text, and the end of the last one's
        self._fields = array("q")
        self._fates: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._starts) - 1

    def at(self, position: int) -> TextChunk:
        """The chunk that holds a byte of the text."""
        with self._lock:
            number = bisect_right(self._starts, position) - 1
            first = number * _FIELDS
            fields: list[Any] = [self._starts[number], self._starts[number + 1]]
            fields += self._fields[first : first + _FIELDS]
            return TextChunk._make([*fields, self._fates.get(number)])

    def commit(self, chunk: TextChunk) -> None:
        """Append a chunk, or put it in the place of the last one, which it continues."""
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
