"""Read a records file in checked chunks of batches, with their records as columns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.columns.batch_table import BATCH_ROW, holds_control, holds_transactional
from engine.columns.columns import Columns
from engine.errors import CorruptRecordError, InvalidRecordError
from engine.record.batch_frame import CURRENT_MAGIC
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch, make_batch
from engine.units import MAX_INT32, Position

Table: TypeAlias = npt.NDArray[Any]

_ROWS = 1024
_ENOUGH = 4 << 20
"""Bytes of decoded batches after which a run ends."""


class PlainRun(NamedTuple):
    """Plain batches from a row on, with all their records.

    Attributes:
        buffer, position: bytes of a file, and the position of the first one.
        table: one row of BATCH_ROW per batch.
        first: first row of the run.
        columns: the records; `next_row` is one past the run's last row.
    """

    buffer: memoryview
    position: Position
    table: Table
    first: int
    columns: Columns

    @property
    def last(self) -> int:
        """One past the last row."""
        return self.columns.next_row

    @property
    def rows(self) -> Table:
        """Rows of the run."""
        rows: Table = self.table[self.first : self.last]
        return rows


class CleanedChunk:
    """Consecutive whole batches.

    Args:
        buffer: bytes of a file.
        position: position of its first byte in the file.
        table: one row of BATCH_ROW per batch.
        path: path of the file, for errors.
        budgets: limits of a decoded batch.

    Attributes:
        size: bytes of the batches.
    """

    __slots__ = ("_budgets", "_buffer", "_path", "_position", "_table", "size")

    def __init__(
        self, buffer: memoryview, position: Position, table: Table, path: str, budgets: Budgets
    ) -> None:
        self._buffer = buffer
        self._position = position
        self._table = table
        self._path = path
        self._budgets = budgets
        self.size = len(buffer)

    def parts(self) -> Iterator[PlainRun | tuple[int, RecordBatch]]:
        """Yield all batches in order: plain ones in runs with their records, each other one with its row.

        A plain batch has magic 2, a right checksum, no control record and no transaction, and it decodes.

        Raises:
            CorruptRecordError: a checksum is wrong. Iteration ends there, so that damaged bytes
                never get a valid checksum.
        """
        table = self._table
        plain = (table["magic"] == CURRENT_MAGIC) & (table["crc_ok"] != 0)
        plain &= ~holds_control(table) & ~holds_transactional(table)
        bounds = [0, *(np.flatnonzero(plain[1:] != plain[:-1]) + 1).tolist(), len(table)]
        for first, last in pairwise(bounds):
            row = first
            while plain[first] and row < last:
                run = self._plain_run(row, last)
                if run is None:
                    break  # of the rest one does not decode: its own look has the error
                row = run.last
                yield run
            for each in range(row, last):
                batch = self.batch(each)
                if not table["crc_ok"][each]:
                    batch.ensure_valid()
                yield each, batch

    def _plain_run(self, first: int, last: int) -> PlainRun | None:
        """Return plain rows from `first` on with their records, None if one of these batches does not decode."""
        columns = kernel.decode(
            self._buffer,
            self._table,
            first,
            last,
            start_position=self._position,
            budgets=self._budgets,
            enough=_ENOUGH,
        )
        if columns.problems:
            return None
        return PlainRun(self._buffer, self._position, self._table, first, columns)

    def batch(self, row: int) -> RecordBatch:
        """Return the batch of a row."""
        position, size = self._table["position"][row].item(), self._table["size"][row].item()
        start = position - self._position
        head = self._buffer[start : start + size]
        return make_batch(head, file_position=position, path=self._path)

    def columns(self, row: int, batch: RecordBatch) -> Columns:
        """Return the records of a batch.

        Raises:
            InvalidRecordError, DecompressionError, LimitExceededError, UnsupportedCodecError: the
                batch does not decode.
        """
        columns = kernel.decode(
            self._buffer,
            self._table,
            row,
            row + 1,
            start_position=self._position,
            budgets=self._budgets,
        )
        if columns.problems:
            for _ in batch.records(self._budgets):
                pass
            raise InvalidRecordError(
                columns.problems[0].detail, path=self._path, position=batch.file_position
            )
        return columns


def chunks_of(
    records: FileRecords,
    position: Position,
    size: int,
    *,
    budgets: Budgets = DEFAULT_BUDGETS,
) -> Iterator[CleanedChunk]:
    """Yield all batches from a position on. Chunks share memory: each is valid only until the next.

    Args:
        records: batches of a file that does not change during the iteration.
        position: position of a batch.
        size: bytes to read at a time; a larger batch is read whole.
        budgets: limits of a decoded batch.

    Raises:
        CorruptRecordError: the bytes at a position are not a whole batch.
    """
    table = np.zeros(_ROWS, BATCH_ROW.dtype)
    buffer = bytearray(size)
    while position < records.end:
        read = records.read_into(buffer, position)
        view = memoryview(buffer)[:read]
        rows, used, _ = kernel.walk(view, table, 0, position, True, largest=MAX_INT32)
        if rows:
            yield CleanedChunk(view[:used], position, table[:rows], records.path, budgets)
            position += used
            if len(buffer) > size:
                buffer = bytearray(size)
        else:
            buffer = bytearray(_size_needed(records, view, position))


def _size_needed(records: FileRecords, head: memoryview, position: Position) -> int:
    """Return the size of a batch of which the chunk has only the beginning."""
    size = MemoryRecords(head, file_position=position, path=records.path).next_batch_size()
    left = min(records.end, records.file.size()) - position
    if size is None and len(head) < left:
        return max(64, 2 * len(head))
    if size is None or size > left:
        raise CorruptRecordError(
            "a batch is longer than the rest of its file",
            path=records.path,
            position=position,
            expected="a header" if size is None else f"{size} bytes",
            found=f"{left} bytes",
        )
    return size
