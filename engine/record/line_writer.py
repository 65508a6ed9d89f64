"""Record lines of rows of a batch table, in Python.

The reference for the compiled kernel, and what it leaves to Python: control records, and the topics whose
records are decoded. The latter come from whichever kernel is in use, many batches at a time.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.budgets import Budgets
from engine.coding.layout import Buffer
from engine.record.attributes import (
    CONTROL_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    timestamp_type_of,
)
from engine.record.batch_table import BatchProblem
from engine.record.columns import Columns, read_headers
from engine.record.decoding import Decoder, Row, Table
from engine.record.lines_result import LinesResult
from engine.record.record import Record
from engine.record.record_line import Fate, LineOptions, record_line

Fates: TypeAlias = "npt.NDArray[np.uint8] | None"

_LEAST_AHEAD = 64 * 1024
_MOST_AHEAD = 1024 * 1024
"""Bytes of records that are decoded together."""
_TEXT_RATIO = 4
"""A line takes some times the bytes of its record."""


class Decode(Protocol):
    """A kernel's `decode`."""

    def __call__(
        self,
        buffer: Buffer,
        table: Table,
        first_row: int,
        last_row: int,
        *,
        start_position: int,
        budgets: Budgets,
        enough: int,
    ) -> Columns:
        """Rows of a batch table to columns."""
        ...


class KernelRows:
    """What Decoder is for LineWriter, with rows that a kernel has decoded ahead.

    Attributes:
        table: the batch table.
        records, problems: of the row that was decoded last.
    """

    def __init__(
        self, decode: Decode, buffer: Buffer, table: Table, last_row: int, start_position: int,
        budgets: Budgets, enough: int,
    ) -> None:  # fmt: skip
        self.table = table
        self.records: list[Row] = []
        self.problems: list[BatchProblem] = []
        self._decode = decode
        self._buffer = buffer
        self._last_row = last_row
        self._start_position = start_position
        self._budgets = budgets
        self._ahead = min(max(enough // _TEXT_RATIO, _LEAST_AHEAD), _MOST_AHEAD)
        self._columns: Columns | None = None
        self._rows: list[Row] = []
        self._ends: list[int] = []
        self._first = 0

    def decode(self, row: int) -> None:
        """Make `records` and `problems` those of a row."""
        columns = self._columns
        if columns is None or not self._first <= row < columns.next_row:
            columns = self._columns = self._decode(
                self._buffer, self.table, row, self._last_row,
                start_position=self._start_position, budgets=self._budgets, enough=self._ahead,
            )  # fmt: skip
            self._first = row
            self._rows = columns.table.tolist()
            counts = np.bincount(columns.row - row, minlength=columns.next_row - row)
            self._ends = [0, *np.cumsum(counts).tolist()]
        place = row - self._first
        self.records = self._rows[self._ends[place] : self._ends[place + 1]]
        self.problems = [problem for problem in columns.problems if problem.row == row]

    def arena_of(self, row: int) -> memoryview:
        """The bytes that the records of the row that was decoded last lie in."""
        assert self._columns is not None
        return self._columns.arena


class LineWriter:
    """Record lines of rows, one row after the other."""

    def __init__(self, decoder: Decoder | KernelRows, options: LineOptions, enough: int) -> None:
        self.decoder = decoder
        self.options = options
        self.enough = enough
        self.parts: list[bytes] = []
        self.size = 0
        self.next_record = 0

    def lines(
        self, first_row: int, last_row: int, fates: Fates, *, measure: bool, first_record: int
    ) -> LinesResult:
        """The lines of rows [first_row, last_row), up to the first row with a problem; see `kernel.lines`."""
        problem, row, first_record = None, first_row, max(first_record, 0)
        while row < last_row and problem is None:
            if not self.write(row, 0 if fates is None else int(fates[row]), first_record):
                break
            if self.decoder.problems:
                problem = self.decoder.problems[0]
            row, first_record = row + 1, 0
        text = b"".join(self.parts)
        return LinesResult(
            *(None if measure else text, len(text), row - first_row),
            *(problem, len(self.parts), self.next_record),
        )

    def write(self, row: int, fate: int, first_record: int) -> bool:
        """Append the lines of a row; False when the text was full before its end."""
        batch = self.decoder.table[row]
        if self._is_left_out(batch, fate):
            return True
        if self.size >= self.enough:
            self.next_record = first_record
            return False
        if isinstance(self.decoder, Decoder):
            self.decoder.records.clear()
            self.decoder.arena.clear()
        self.decoder.decode(row)
        arena = self.decoder.arena_of(row)
        for index in range(first_record, len(self.decoder.records)):
            record = _record_of(batch, self.decoder.records[index], arena, index)
            if not self.options.from_offset <= record.offset < self.options.to_offset:
                continue
            if self.size >= self.enough:
                self.next_record = index
                return False
            self._append(batch, record, fate)
        return True

    def _is_left_out(self, batch: np.void, fate: int) -> bool:
        """Whether no line of a row is wanted; headers that contradict themselves are looked at."""
        if self.options.committed and (_is_control(batch) or fate in (Fate.ABORTED, Fate.OPEN)):
            return True
        base, last = int(batch["base_offset"]), int(batch["last_offset"])
        if last < base:
            return False
        beyond = int(batch["magic"]) == 2 and base >= self.options.to_offset
        return beyond or last < self.options.from_offset

    def _append(self, batch: np.void, record: Record, fate: int) -> None:
        bits = int(batch["attributes"]) if int(batch["magic"]) == 2 else 0
        line = record_line(
            record,
            self.options,
            producer_id=int(batch["producer_id"]),
            producer_epoch=int(batch["producer_epoch"]),
            is_transactional=bool(bits & TRANSACTIONAL_MASK),
            is_control=bool(bits & CONTROL_MASK),
            fate=fate,
        )
        self.parts.append(line)
        self.size += len(line)


def _is_control(batch: np.void) -> bool:
    return int(batch["magic"]) == 2 and bool(int(batch["attributes"]) & CONTROL_MASK)


def _record_of(batch: np.void, fields: Row, arena: memoryview, index: int) -> Record:
    offset, timestamp, key_at, value_at, headers_at, key_size, value_size, _, count, sequence, _ = (
        fields
    )
    if int(batch["magic"]) == 0:
        kind = TimestampType.NO_TIMESTAMP_TYPE
    else:
        kind = timestamp_type_of(int(batch["attributes"]))
    return Record(
        offset=offset,
        timestamp=timestamp,
        timestamp_type=kind,
        key=None if key_size < 0 else bytes(arena[key_at : key_at + key_size]),
        value=None if value_size < 0 else bytes(arena[value_at : value_at + value_size]),
        headers=read_headers(arena, headers_at, count),
        sequence=sequence,
        leader_epoch=int(batch["leader_epoch"]),
        index=index,
    )
