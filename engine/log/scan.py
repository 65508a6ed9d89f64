"""The bulk loop over a records file: runs of good batches, and what is damaged between them.

A batch is good when it is whole, its checksum is right and its offsets make sense. After damage the next
good batch is found by its frame, where the damaged one still has a frame that leads to it, or else by
searching byte by byte for a batch that proves itself. A good batch inside a damaged one's stated length
counts: a wrong length must not hide what follows it.

The search looks at stretches of up to 16 MiB at a time, so a batch larger than 8 MiB that follows damage
without a frame leading to it is not found.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets, MiB
from engine.record.batch_table import BATCH_DTYPE, Stop
from engine.units import MAX_INT32, Offset, Position

Table: TypeAlias = npt.NDArray[Any]

CHUNK = 1 * MiB
_ROWS = 4096
_HEADER = 61
_FRAME = struct.Struct(">qiib")  # base offset, length, leader epoch or CRC, magic
_OVERHEAD = 12
_SMALLEST_SEARCH = 256 * 1024
_LARGEST_SEARCH = 16 * MiB
_MOST_HOPS = 1000
_ZEROS = bytes(64 * 1024)


class ReadableFile(Protocol):
    """What a scan needs of a file."""

    @property
    def path(self) -> str:
        """The file's name for reports."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only where the file ends."""


class BatchRun(NamedTuple):
    """Good batches that follow one another.

    Attributes:
        buffer: bytes of the file; its first byte is at `start_position` in the file.
        start_position: absolute.
        table: one row of BATCH_DTYPE per batch, all with the right checksum; at least one.
    """

    buffer: bytes
    start_position: Position
    table: Table

    @property
    def base_offset(self) -> Offset:
        """The first batch's base offset as its header states it."""
        return int(self.table["base_offset"][0])

    @property
    def next_offset(self) -> Offset:
        """One past the last batch's last offset."""
        return int(self.table["last_offset"][-1]) + 1

    @property
    def end_position(self) -> Position:
        """Where the last batch ends."""
        return int(self.table["position"][-1]) + int(self.table["size"][-1])


class Damage(NamedTuple):
    """A stretch of a records file that is not as it should be.

    Attributes:
        path, position, length: where.
        kind: "crc_mismatch", "bad_length", "unknown_magic", "batch_too_large", "bad_offsets" (skipped);
            "torn_tail", "zero_tail" (nothing good follows up to the end); "offset_order" (not skipped: the
            batch at `position` is good but its offset is not above the one before it).
        reason: one sentence.
        expected, found: where a value is not the one it should be.
        first_offset, last_offset: which offsets can be lost, as far as that is known.
        skipped: whether the bytes are left out of the runs.
    """

    path: str
    position: Position
    length: int
    kind: str
    reason: str
    expected: int | None = None
    found: int | None = None
    first_offset: Offset | None = None
    last_offset: Offset | None = None
    skipped: bool = True


class _Frame(NamedTuple):
    """What the header at a position says; `size` is 0 when it leads nowhere."""

    size: int
    kind: str
    reason: str
    row: Any = None


def scan(
    file: ReadableFile,
    start: Position,
    end: Position,
    *,
    path: str | None = None,
    next_offset: Offset | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
    chunk: int = CHUNK,
    resync: bool = True,
) -> Iterator[BatchRun | Damage]:
    """Everything in [start, end) of a records file, in file order; see the module's text.

    A file that ends before `end` ends the scan there.

    Args:
        file: a SourceFile, or what reads like one.
        start: where a batch starts (or should).
        end: where to stop; what crosses it is a torn tail.
        path: for reports, the file's own by default.
        next_offset: the smallest offset that may come, None if any.
        budgets: `batch_bytes` bounds what is taken for a batch.
        chunk: bytes read at a time; a larger batch is read whole.
        resync: look for good batches after damage; else the first damage that is skipped ends the scan.
    """
    found = _Scan(file, end, path or file.path, next_offset, budgets, chunk)
    for item in found.items(start):
        yield item
        if not resync and isinstance(item, Damage) and item.skipped:
            return


class _Scan:
    """State of one pass; `expected` is the offset after the last good batch."""

    def __init__(
        self,
        file: ReadableFile,
        end: Position,
        path: str,
        expected: Offset | None,
        budgets: Budgets,
        chunk: int,
    ) -> None:
        self.file = file
        self.end = end
        self.path = path
        self.expected = expected
        self.largest = budgets.batch_bytes
        self.chunk = chunk
        self._scratch = np.empty(_ROWS, BATCH_DTYPE)
        self._barren = False  # nothing good follows up to the end

    def items(self, position: Position) -> Iterator[BatchRun | Damage]:
        """All of it from a position on."""
        wanted = self.chunk
        while position < self.end:
            wanted = min(wanted, self.end - position)
            buffer = self.file.read_at(position, wanted)
            if len(buffer) < wanted:
                self.end = position + len(buffer)
                if not buffer:
                    return
            consumed, stop = yield from self._runs_of(buffer, position)
            position += consumed
            wanted = self.chunk
            if stop is None:
                continue
            if stop == Stop.NEED_MORE:
                needed = self._needed(buffer, consumed)
                if position + needed <= self.end:
                    wanted = max(needed, self.chunk)
                    continue
            position = yield from self._pass_damage(position)

    def _needed(self, buffer: bytes, index: int) -> int:
        """How many bytes the batch at an index of the buffer asks for."""
        if len(buffer) - index < _FRAME.size:
            return _FRAME.size if index else _FRAME.size + 1
        length: int = _FRAME.unpack_from(buffer, index)[1]
        return max(length + _OVERHEAD, _HEADER)

    def _runs_of(
        self, buffer: bytes, position: Position
    ) -> Iterator[BatchRun | Damage | tuple[int, int | None]]:
        raise AssertionError  # replaced below
