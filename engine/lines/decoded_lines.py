"""Record lines of records with a decoder, which the compiled kernel leaves to Python, written in bulk.

The kernel decodes many batches at once, Python decodes their records' keys and values. The lines
equal those of `LineWriter` byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from engine.arrays import np, npt
from engine.budgets import Budgets
from engine.coding.layout import Buffer
from engine.columns.batch_table import BatchProblem, Problem, as_table
from engine.columns.columns import RECORD_ROW, Columns, read_headers
from engine.columns.decoding import Row, Table
from engine.lines.json_text import time_json
from engine.lines.line_decoder import LineDecoder, decoded_json
from engine.lines.line_writer import MANY_CONTROL_RECORDS
from engine.lines.lines_result import LinesResult
from engine.lines.record_line import LineOptions, record_line, transaction_json
from engine.record.attributes import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    timestamp_type_of,
)
from engine.record.fate import Fate
from engine.record.record import Record
from engine.units import LAST_TIME

Fates: TypeAlias = "npt.NDArray[np.uint8] | bytearray | None"
Decode: TypeAlias = Callable[[int, int, int], Columns]
"""Function that decodes rows [first, last) to columns, up to some bytes at a time."""

_LEAST_AHEAD = 64 * 1024
_MOST_AHEAD = 1024 * 1024
"""Bytes of records that are decoded at once."""
_TEXT_RATIO = 4
"""Estimated bytes of a line per byte of its record."""


class _Batch(NamedTuple):
    """Fields of a batch's header that lines show."""

    base_offset: int
    last_offset: int
    producer_id: int
    leader_epoch: int
    attributes: int
    producer_epoch: int
    magic: int


class DecodedLines:
    """Writer for the lines of rows of a batch table, up to a size or a problem.

    Args:
        decode: decodes rows.
        table, options, fates, enough: as for `kernel.lines`; the options have a decoder.
    """

    def __init__(
        self,
        decode: Decode,
        table: Table,
        options: LineOptions,
        fates: Fates,
        enough: int,
        most: int = 0,
    ) -> None:
        assert options.decoder is not None
        self._decode = decode
        self._table = table
        self._options = options
        self._decoder: LineDecoder = options.decoder
        self._fates = fates
        self._enough = enough
        self._most = most
        self._is_large = False
        self._parts: list[bytes] = []
        self._size = 0
        self._problem: BatchProblem | None = None
        self._next_record = 0
        self._is_plain = False

    def lines(
        self, first_row: int, last_row: int, *, measure: bool, first_record: int
    ) -> LinesResult:
        """Return the lines of rows [first_row, last_row); arguments and result as of `kernel.lines`.

        Ends early after records that the decoder leaves as they are: the kernel is faster with those.
        """
        row, first_record, is_full = first_row, max(first_record, 0), False
        large = self._large_row(row, last_row)
        while row < last_row and not is_full and self._problem is None and not self._is_plain:
            if row == large:
                self._is_large = self._size < self._enough
                self._next_record = first_record
                break
            left = (self._enough - self._size) // _TEXT_RATIO
            most_ahead = _MOST_AHEAD if self._decoder.marks is None else _LEAST_AHEAD
            ahead = self._decode(row, large, min(max(left, _LEAST_AHEAD), most_ahead))
            row, is_full = self._write(ahead, row, first_record)
            first_record = 0
        text = b"".join(self._parts)
        return LinesResult(
            None if measure else text,
            len(text),
            row - first_row,
            self._problem,
            len(self._parts),
            self._next_record,
            self._is_large,
        )

    def _write(self, columns: Columns, first_row: int, first_record: int) -> tuple[int, bool]:
        """Append lines of decoded rows; return the next row, and whether the text is full."""
        problems = {problem.row: problem for problem in reversed(columns.problems)}
        self._is_plain = self._decoder.marks is not None
        records = columns.table.tolist()
        counts = np.bincount(columns.row - first_row, minlength=columns.next_row - first_row)
        ends = np.cumsum(counts).tolist()
        start = 0
        for place, batch in enumerate(_batches(self._table[first_row : columns.next_row])):
            row, end = first_row + place, ends[place]
            fate = 0 if self._fates is None else int(self._fates[row])
            if not self._is_left_out(batch, fate):
                if self._size >= self._enough:
                    self._next_record = first_record
                    return row, True
                if self._most and self._exceeds_limit(problems.get(row)):
                    self._is_large, self._next_record = True, first_record
                    return row, True
                full_at = self._write_batch(
                    batch, records[start:end], columns.arena, fate, first_record
                )
                if full_at is not None:
                    self._next_record = full_at
                    return row, True
                if row in problems:
                    self._problem = problems[row]
                    return row + 1, False
            start, first_record = end, 0
        return columns.next_row, False

    def _large_row(self, first_row: int, last_row: int) -> int:
        """Return the first row that is large by its header alone and has lines; `last_row` without one."""
        if not self._most:
            return last_row
        table = self._table[first_row:last_row]
        is_control = (table["magic"] == 2) & (table["attributes"] & CONTROL_MASK != 0)
        is_large = (table["size"] > self._most) | (
            is_control
            & (
                (table["attributes"] & COMPRESSION_MASK != 0)
                | (table["record_count"] > MANY_CONTROL_RECORDS)
            )
        )
        for place in np.flatnonzero(is_large).tolist():
            row = first_row + place
            fate = 0 if self._fates is None else int(self._fates[row])
            batch = next(_batches(self._table[row : row + 1]))
            if not self._is_left_out(batch, fate):
                return row
        return last_row

    @staticmethod
    def _exceeds_limit(problem: BatchProblem | None) -> bool:
        """Return whether a row has exceeded a limit, which may be lower than the budget."""
        return problem is not None and problem.code is Problem.LIMIT

    def _is_left_out(self, batch: _Batch, fate: int) -> bool:
        """Return whether no line of a row is wanted; equal to LineWriter's."""
        options = self._options
        if options.committed and (
            (batch.magic == 2 and batch.attributes & CONTROL_MASK)
            or fate in (Fate.ABORTED, Fate.OPEN)
        ):
            return True
        if batch.last_offset < batch.base_offset:
            return False
        beyond = batch.magic == 2 and batch.base_offset >= options.to_offset
        return beyond or batch.last_offset < options.from_offset

    def _write_batch(
        self, batch: _Batch, records: list[Row], arena: memoryview, fate: int, first_record: int
    ) -> int | None:
        """Append lines of a batch; return the record before which the text was full, if it was."""
        options, bits = self._options, batch.attributes if batch.magic == 2 else 0
        is_plain = not bits & CONTROL_MASK
        kind = (
            timestamp_type_of(batch.attributes) if batch.magic else TimestampType.NO_TIMESTAMP_TYPE
        )
        facts = _transaction(batch, fate) if bits & TRANSACTIONAL_MASK else b""
        label, epoch, has_producer = kind.label.encode(), batch.leader_epoch, batch.producer_id >= 0
        for index in range(first_record, len(records)):
            record = records[index]
            offset, timestamp, sequence = record[0], record[1], record[9]
            if not options.from_offset <= offset < options.to_offset:
                continue
            if self._size >= self._enough:
                return index
            if is_plain and not record[8]:
                key, value = (
                    _field(arena, record[2], record[5]),
                    _field(arena, record[3], record[6]),
                )
                if self._is_plain and self._decoder.may_decode(key, value, ()):
                    self._is_plain = False
                line = (
                    b'%s%d,"timestamp":%d,"time":%s,"timestampType":"%s",%s,"headers":[],"leaderEpoch":%d'
                    % (
                        options.prefix,
                        offset,
                        timestamp,
                        _time(timestamp),
                        label,
                        decoded_json(self._decoder, key, value, (), timestamp, options.mode),
                        epoch,
                    )
                )
                if has_producer and sequence >= 0:
                    line += b',"sequence":%d' % sequence
                below = b',"belowLogStart":true' if offset < options.log_start_offset else b""
                line += b"%s%s}\n" % (facts, below)
            else:
                line = self._line_of(batch, record, arena, kind, fate)
            self._parts.append(line)
            self._size += len(line)
        return None

    def _line_of(
        self, batch: _Batch, record: Row, arena: memoryview, kind: TimestampType, fate: int
    ) -> bytes:
        """Return the line of a control record, or of a record with headers."""
        bits = batch.attributes if batch.magic == 2 else 0
        whole = Record(
            offset=record[0],
            timestamp=record[1],
            timestamp_type=kind,
            key=_field(arena, record[2], record[5]),
            value=_field(arena, record[3], record[6]),
            headers=read_headers(arena, record[4], record[8]),
            sequence=record[9],
            leader_epoch=batch.leader_epoch,
        )
        if self._decoder.may_decode(whole.key, whole.value, whole.headers):
            self._is_plain = False
        return record_line(
            whole,
            self._options,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            is_transactional=bool(bits & TRANSACTIONAL_MASK),
            is_control=bool(bits & CONTROL_MASK),
            fate=fate,
        )


def decoded_lines(
    decode: Callable[..., Columns],
    buffer: Buffer,
    table: Table | Buffer,
    first_row: int,
    last_row: int,
    *,
    start_position: int,
    options: LineOptions,
    fates: Fates,
    measure: bool,
    budgets: Budgets,
    enough: int,
    first_record: int,
    most: int = 0,
) -> LinesResult:
    """Return the lines that `kernel.lines` returns for options with a decoder.

    Args:
        decode: the kernel's function of that name.
        table: the headers, as a table or as the bytes of its rows.
        The other arguments are those of `kernel.lines`.
    """

    if most:
        budgets = replace(
            budgets,
            inflated_bytes=min(budgets.inflated_bytes, most),
            records_per_batch=min(budgets.records_per_batch, most // RECORD_ROW.size),
        )

    def rows(first: int, last: int, ahead: int) -> Columns:
        return decode(
            buffer, table, first, last, start_position=start_position, budgets=budgets, enough=ahead
        )

    writing = DecodedLines(rows, as_table(table), options, fates, enough, most)
    return writing.lines(first_row, last_row, measure=measure, first_record=first_record)


def _batches(table: Table) -> Iterator[_Batch]:
    return map(_Batch, *(table[name].tolist() for name in _Batch._fields))


def _field(arena: memoryview, start: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(arena[start : start + size])


def _transaction(batch: _Batch, fate: int) -> bytes:
    return transaction_json(batch.producer_id, batch.producer_epoch, fate)


def _time(timestamp: int) -> bytes:
    """Return `time_json`, with the second cached: most records share it with others."""
    if not 0 <= timestamp <= LAST_TIME:
        return b"null"
    return b'%s%03dZ"' % (_second(timestamp // 1000), timestamp % 1000)


@lru_cache(maxsize=1024)
def _second(second: int) -> bytes:
    return time_json(second * 1000)[: -len('000Z"')]
