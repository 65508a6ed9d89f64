"""Cursor over a records file: finds batches by last offset in one pass, reading each header once."""

from __future__ import annotations

import numpy as np

from engine import kernel
from engine.budgets import Budgets
from engine.coding.fixed_width import read_int32
from engine.columns.batch_table import BATCH_ROW, Stop
from engine.errors import CorruptRecordError
from engine.files.source_files import SourceFile
from engine.record.batch_frame import LENGTH_POSITION, LOG_OVERHEAD, UP_TO_MAGIC
from engine.units import MAX_INT64, NO_TIMESTAMP, Offset, Position

_CHUNK = 64 * 1024
_ROWS = 1024
_NOT_FOUND = -1


class BatchCursor:
    """Forward cursor over the batches of a records file; checksums are not verified.

    Attributes:
        end: size of the file in bytes when the cursor was made.
        path: path of the file.
    """

    def __init__(self, log: SourceFile, budgets: Budgets) -> None:
        self.path = log.path
        self.end = log.size()
        self._log = log
        self._budgets = budgets
        self._buffer = b""
        self._start: Position = 0  # position of the buffer in the file
        self._next: Position = 0  # end of the walked batches
        self._stopped = True
        self._table = np.zeros(_ROWS, BATCH_ROW.dtype)
        self._count = 0
        self._row = 0
        self._from: Position = 0  # no batch after this position was skipped
        self._reached: Offset = MAX_INT64

    def find(self, offset: Offset, hint: Position) -> Offset:
        """Return the last offset of the first batch at or after `hint` that reaches an offset; -1 for none."""
        if not (self._from <= hint <= self._position() and offset >= self._reached):
            self._from = hint
            self._read(hint)
        self._reached = offset
        while True:
            last = self._table["last_offset"][self._row : self._count]
            found = np.flatnonzero(last >= offset)
            if len(found):
                self._row += int(found[0])
                return int(last[found[0]])
            self._row = self._count
            if self._stopped:
                return _NOT_FOUND
            self._read(self._next)

    def _position(self) -> Position:
        if self._row < self._count:
            return int(self._table["position"][self._row])
        return self._next

    def _read(self, position: Position) -> None:
        """Walk the headers of a chunk that starts at a position."""
        size = min(_CHUNK, self.end - position)
        while True:
            self._buffer = self._log.read_at(position, size)
            self._start, self._row = position, 0
            self._count, used, stop = kernel.walk(
                self._buffer, self._table, 0, position, False, largest=self._budgets.batch_bytes
            )
            self._next = position + used
            left = self.end - self._next
            self._stopped = stop not in (Stop.TABLE_FULL, Stop.NEED_MORE) or left <= UP_TO_MAGIC
            if self._stopped or self._count:
                return
            stated = read_int32(self._buffer, LENGTH_POSITION) + LOG_OVERHEAD
            if not size < stated <= min(left, self._budgets.batch_bytes):
                self._stopped = True
                return
            size = stated

    def largest_timestamp(self) -> int:
        """Return the largest record timestamp of the found batch; -1 for a batch without records.

        Raises:
            CorruptRecordError: the records of the batch do not decode.
        """
        row = self._table[self._row : self._row + 1].copy()
        position, size = int(row["position"][0]), int(row["size"][0])
        start = position - self._start
        data = self._buffer[start : start + size]
        columns = kernel.decode(data, row, 0, 1, start_position=position, budgets=self._budgets)
        if columns.problems:
            raise CorruptRecordError(columns.problems[0].detail, path=self.path, position=position)
        return int(columns.timestamp.max()) if len(columns) else NO_TIMESTAMP
