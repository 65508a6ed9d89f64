"""Write record lines of rows of a batch table in Python: the reference for the compiled kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, TypedDict

from engine.arrays import np, npt
from engine.columns.batch_table import Problem, holds_control
from engine.columns.columns import Columns, read_headers
from engine.columns.decoding import Decoder, Row, Table
from engine.lines.line_decoder import FieldTexts
from engine.lines.lines_result import NO_BOUND, LinesResult
from engine.lines.record_line import LineOptions, record_line
from engine.record.attributes import (
    COMPRESSION_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    timestamp_type_of,
)
from engine.record.record import Record

Fates: TypeAlias = "npt.NDArray[np.uint8] | bytearray | None"
MANY_CONTROL_RECORDS = 1000
"""A control batch with more records, or a compressed one, counts as large: the kernel does not write its lines."""


class LineWriter:
    """Writer of the record lines of rows, one row after the other."""

    def __init__(self, decoder: Decoder, options: LineOptions, enough: int, most: int = 0) -> None:
        self.decoder = decoder
        self.options = options
        self.enough = enough
        self.parts: list[bytes] = []
        self.size = 0
        self.next_record = 0
        self.most = most
        self.is_large = False

    def lines(
        self, first_row: int, last_row: int, fates: Fates, *, measure: bool, first_record: int
    ) -> LinesResult:
        """Return the lines of rows [first_row, last_row), up to the first row with a problem; see `kernel.lines`."""
        problem, row, first_record = None, first_row, max(first_record, 0)
        while row < last_row and problem is None:
            if not self.write(row, 0 if fates is None else int(fates[row]), first_record):
                break
            if self.decoder.problems:
                problem = self.decoder.problems[0]
            row, first_record = row + 1, 0
        text = b"".join(self.parts)
        return LinesResult(
            None if measure else text,
            len(text),
            row - first_row,
            problem,
            len(self.parts),
            self.next_record,
            self.is_large,
        )

    def write(self, row: int, fate: int, first_record: int) -> bool:
        """Append the lines of a row; return False if the text was full before its end."""
        batch = self.decoder.table[row]
        if self.options.leaves_out(batch, fate):
            return True
        if self.size >= self.enough:
            self.next_record = first_record
            return False
        if self.most and _states_much(batch, self.most):
            return self._leave(first_record)
        self.decoder.records.clear()
        self.decoder.arena.clear()
        self.decoder.decode(row)
        if self.most and self._takes_much():
            self.decoder.problems.clear()
            return self._leave(first_record)
        arena = self.decoder.arena_of(row)
        for index in range(first_record, len(self.decoder.records)):
            record = _record_of(batch, self.decoder.records[index], arena, index)
            if not self.options.from_offset <= record.offset < self.options.to_offset:
                continue
            if self.size >= self.enough:
                self.next_record = index
                return False
            if self.most and fields_size(self.decoder.records[index]) > self.most:
                return self._leave(index)
            self._append(batch, record, fate)
        return True

    def _leave(self, record: int) -> bool:
        """End before a record because it or its row is large."""
        self.is_large, self.next_record = True, record
        return False

    def _takes_much(self) -> bool:
        """Return whether the decoded row has exceeded `most`, which may be lower than the budget."""
        return any(problem.code is Problem.LIMIT for problem in self.decoder.problems)

    def _append(self, batch: np.void, record: Record, fate: int) -> None:
        line = record_line(record, self.options, fate=fate, **batch_facts(batch))
        self.parts.append(line)
        self.size += len(line)


def column_lines(
    table: Table,
    columns: Columns,
    *,
    options: LineOptions,
    fates: Fates = None,
    fate: int = 0,
    first_record: int = 0,
    measure: bool = False,
    enough: int = NO_BOUND,
    most: int = 0,
    texts: FieldTexts | None = None,
) -> LinesResult:
    """Return the record lines of decoded records, from `first_record` on.

    Args:
        table: the table with the rows of the records.
        columns: some records of one or more batches.
        options, fates, measure, enough: as for `kernel.lines`.
        fate: fate of all batches' transactions, without `fates`.
        first_record: index of the first record to show.
        most: end before a record with more bytes of key, value and headers; 0 for no limit.
        texts: keys and values of the records; without them the decoder of the options gives them.
    """
    size, row = 0, -1
    parts: list[bytes] = []
    first = max(first_record, 0)
    for index in range(first, len(columns)):
        fields: Row = columns.table[index].item()
        if not options.from_offset <= fields[0] < options.to_offset:
            continue
        is_large = bool(most) and fields_size(fields) > most
        if size >= enough or is_large:
            is_large = is_large and size < enough
            return LinesResult(
                None if measure else b"".join(parts), size, 0, None, len(parts), index, is_large
            )
        if fields[10] != row:
            row = fields[10]
            batch, facts = table[row], batch_facts(table[row])
            fate = fate if fates is None else int(fates[row])
        record = _record_of(batch, fields, columns.arena, index)
        given = None if texts is None else texts.of(index)
        parts.append(record_line(record, options, fate=fate, texts=given, **facts))
        size += len(parts[-1])
    return LinesResult(None if measure else b"".join(parts), size, 1, None, len(parts))


def fields_size(fields: Row) -> int:
    """Return the bytes of a record's key, value and headers."""
    return max(fields[5], 0) + max(fields[6], 0) + fields[7]


def _states_much(batch: np.void, most: int) -> bool:
    """Return whether a row is large by its header alone."""
    if int(batch["size"]) > most:
        return True
    is_compressed = bool(int(batch["attributes"]) & COMPRESSION_MASK)
    return holds_control(batch) and (
        is_compressed or int(batch["record_count"]) > MANY_CONTROL_RECORDS
    )


class BatchFacts(TypedDict):
    """Facts of a batch that its records' lines show."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool


def batch_facts(batch: np.void) -> BatchFacts:
    """Return the facts of a row that `record_line` takes."""
    bits = int(batch["attributes"]) if int(batch["magic"]) == 2 else 0
    return {
        "producer_id": int(batch["producer_id"]),
        "producer_epoch": int(batch["producer_epoch"]),
        "is_transactional": bool(bits & TRANSACTIONAL_MASK),
        "is_control": holds_control(batch),
    }


def _record_of(batch: np.void, fields: Row, arena: memoryview, index: int) -> Record:
    _, _, key_at, value_at, headers_at, key_size, value_size, _, count, _, _ = fields
    return replace(
        bare_record(batch, fields),
        key=None if key_size < 0 else bytes(arena[key_at : key_at + key_size]),
        value=None if value_size < 0 else bytes(arena[value_at : value_at + value_size]),
        headers=read_headers(arena, headers_at, count),
        index=index,
    )


def bare_record(batch: np.void, fields: Row) -> Record:
    """Return a record of a row without its key, value and headers."""
    if int(batch["magic"]) == 0:
        kind = TimestampType.NO_TIMESTAMP_TYPE
    else:
        kind = timestamp_type_of(int(batch["attributes"]))
    return Record(
        offset=fields[0],
        timestamp=fields[1],
        timestamp_type=kind,
        key=None,
        value=None,
        sequence=fields[9],
        leader_epoch=int(batch["leader_epoch"]),
    )
