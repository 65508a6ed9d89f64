"""Record lines of records with a decoder, written in bulk.

The kernel decodes many batches at once, the decoder gives the texts of their records' keys and values, and the kernel
writes the lines. They equal those of `LineWriter` byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from engine.arrays import np, npt
from engine.budgets import Budgets
from engine.coding.layout import Buffer
from engine.columns.batch_table import BatchProblem, Problem, as_table, holds_control
from engine.columns.columns import RECORD_ROW, Column, Columns
from engine.columns.decoding import Table
from engine.lines.line_decoder import LineDecoder
from engine.lines.line_writer import MANY_CONTROL_RECORDS, Fates
from engine.lines.lines_result import NO_BOUND, LinesResult
from engine.lines.record_line import LineOptions
from engine.record.attributes import COMPRESSION_MASK

Decode: TypeAlias = Callable[[int, int, int], Columns]
"""Function that decodes rows [first, last) to columns, up to some bytes at a time."""
ColumnLines: TypeAlias = Callable[..., LinesResult]
"""The kernel's `column_lines`."""

_LEAST_AHEAD = 64 * 1024
_MOST_AHEAD = 1024 * 1024
"""Bytes of records that are decoded at once."""
_LEAST_LINE = 64
"""Bytes that a line counts at least besides its key and value."""
_MOST_LOOKED_AT = 4096
"""Records whose offsets are looked at together."""
_TEXT_RATIO = 4
"""Estimated bytes of a line per byte of its record."""
_MOST_TEXT = 8 * 1024 * 1024
"""Bytes of the texts of a decoder that are held at once, but for the last one."""


class DecodedLines:
    """Writer for the lines of rows of a batch table, up to a size or a problem.

    Args:
        decode: decodes rows.
        column_lines: writes lines of decoded records.
        table, options, fates, enough, most, measure: as for `kernel.lines`; the options have a decoder.
    """

    def __init__(
        self,
        decode: Decode,
        column_lines: ColumnLines,
        table: Table,
        options: LineOptions,
        fates: Fates,
        enough: int,
        *,
        most: int = 0,
        measure: bool = False,
    ) -> None:
        assert options.decoder is not None
        self._decode = decode
        self._column_lines = column_lines
        self._table = table
        self._options = options
        self._decoder: LineDecoder = options.decoder
        self._fates = fates
        self._enough = enough
        self._most = most
        self._measure = measure
        self._is_large = False
        self._parts: list[bytes] = []
        self._size = 0
        self._records = 0
        self._problem: BatchProblem | None = None
        self._next_record = 0
        self._is_plain = False

    def lines(self, first_row: int, last_row: int, *, first_record: int) -> LinesResult:
        """Return the lines of rows [first_row, last_row); arguments and result as of `kernel.lines`.

        Ends early after records that the decoder leaves as they are: the kernel is faster with those.
        """
        row, first_record, is_full = first_row, max(first_record, 0), False
        large = self._large_row(row, last_row)
        most_ahead = _MOST_AHEAD if self._decoder.marks is None else _LEAST_AHEAD
        while row < last_row and not is_full and self._problem is None and not self._is_plain:
            if row == large:
                self._is_large = self._size < self._enough
                self._next_record = first_record
                break
            left = (self._enough - self._size) // _TEXT_RATIO
            ahead = self._decode(row, large, min(max(left, _LEAST_AHEAD), most_ahead))
            row, is_full = self._write(ahead, row, first_record)
            first_record, most_ahead = 0, min(2 * most_ahead, _MOST_AHEAD)
        return LinesResult(
            None if self._measure else b"".join(self._parts),
            self._size,
            row - first_row,
            self._problem,
            self._records,
            self._next_record,
            self._is_large,
        )

    def _write(self, columns: Columns, first_row: int, first_record: int) -> tuple[int, bool]:
        """Append lines of decoded rows; return the next row, and whether the text is full."""
        problems = {problem.row: problem for problem in reversed(columns.problems)}
        self._is_plain = self._decoder.marks is not None
        counts = np.bincount(columns.row - first_row, minlength=columns.next_row - first_row)
        # Where the records of each row begin, and the end of all.
        ends = [0, *np.cumsum(counts).tolist()]
        for rows in self._runs(first_row, columns.next_row, problems):
            row, problem = int(rows[0]), problems.get(int(rows[0]))
            skipped = first_record if row == first_row else 0
            is_large = bool(self._most) and self._exceeds_limit(problem)
            if self._size >= self._enough or is_large:
                self._is_large = self._size < self._enough
                self._next_record = skipped
                return row, True
            start = min(ends[row - first_row] + skipped, ends[row + 1 - first_row])
            full_at = self._write_run(columns, rows, start, ends[int(rows[-1]) + 1 - first_row])
            if full_at is not None:
                row, index = full_at
                self._next_record = max(index - ends[row - first_row], 0)
                return row, True
            if problem is not None:
                self._problem = problem
                return row + 1, False
        return columns.next_row, False

    def _runs(
        self, first_row: int, next_row: int, problems: dict[int, BatchProblem]
    ) -> Iterator[npt.NDArray[np.intp]]:
        """Yield rows that have lines, those that follow each other together; a row with a problem is alone."""
        kept = first_row + np.flatnonzero(~self._left_out(first_row, next_row))
        breaks = set((np.flatnonzero(np.diff(kept) != 1) + 1).tolist())
        for row in problems:
            place = int(np.count_nonzero(kept < row))
            breaks |= {place, place + 1}
        for rows in np.split(kept, sorted(breaks)):
            if len(rows):
                yield rows

    def _write_run(
        self, columns: Columns, rows: npt.NDArray[np.intp], start: int, end: int
    ) -> tuple[int, int] | None:
        """Append lines of the records [start, end), which are those of some rows that follow each other.

        Returns:
            the row and record before which the text was full, if it was; 0 for the first record of the row.
        """
        some = Columns(columns.table[start:end], columns.arena, [], 0)
        made = decoded_column_lines(
            self._column_lines, self._table, some, options=self._options, fates=self._fates,
            measure=self._measure, enough=self._enough - self._size,
        )  # fmt: skip
        self._is_plain = self._is_plain and made.is_plain
        if made.text is not None:
            self._parts.append(made.text)
        self._size += made.size
        self._records += made.records
        if self._size < self._enough:
            return None
        last_row = int(some.row[_in_range(some.table, self._options)[made.records - 1]])
        if not made.rows_done and some.row[made.next_record] == last_row:
            return last_row, start + made.next_record
        following = rows[rows > last_row]
        return (int(following[0]), 0) if len(following) else None

    def _large_row(self, first_row: int, last_row: int) -> int:
        """Return the first row that is large by its header alone and has lines; `last_row` without one."""
        if not self._most:
            return last_row
        table = self._table[first_row:last_row]
        is_large = (table["size"] > self._most) | (
            holds_control(table)
            & (
                (table["attributes"] & COMPRESSION_MASK != 0)
                | (table["record_count"] > MANY_CONTROL_RECORDS)
            )
        )
        large = np.flatnonzero(is_large & ~self._left_out(first_row, last_row))
        return first_row + int(large[0]) if len(large) else last_row

    @staticmethod
    def _exceeds_limit(problem: BatchProblem | None) -> bool:
        """Return whether a row has exceeded a limit, which may be lower than the budget."""
        return problem is not None and problem.code is Problem.LIMIT

    def _left_out(self, first_row: int, last_row: int) -> npt.NDArray[np.bool_]:
        """Return for each row whether no line of it is wanted."""
        fates = None
        if self._fates is not None:
            fates = np.frombuffer(self._fates, np.uint8)[first_row:last_row]
        return self._options.leaves_out(self._table[first_row:last_row], fates)


def decoded_lines(
    decode: Callable[..., Columns],
    column_lines: ColumnLines,
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
        decode, column_lines: the kernel's functions of these names.
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

    writing = DecodedLines(
        rows, column_lines, as_table(table), options, fates, enough, most=most, measure=measure
    )
    return writing.lines(first_row, last_row, first_record=first_record)


def decoded_column_lines(
    column_lines: ColumnLines,
    table: Table,
    columns: Columns,
    *,
    options: LineOptions,
    first_record: int = 0,
    measure: bool = False,
    enough: int = NO_BOUND,
    most: int = 0,
    **fate: object,
) -> LinesResult:
    """Return the lines that `kernel.column_lines` returns for options with a decoder, made in bulk.

    Args:
        column_lines: the kernel's function of this name.
        fate: fates or fate, as for `kernel.column_lines`, whose the other arguments are, too.
    """
    decoder = options.decoder
    assert decoder is not None
    parts: list[bytes] = []
    size = records = 0
    at, is_large, is_plain = max(first_record, 0), False, True
    while at < len(columns) and size < enough:
        wanted = max(min(enough - size, _MOST_TEXT) // 2, _LEAST_AHEAD)
        ahead = min(wanted, _MOST_AHEAD)
        window = columns.table[at : at + ahead // _LEAST_LINE + 1]
        shown = _in_range(window, options)
        if not len(shown):
            at += len(window)
            continue
        first, stop = int(shown[0]), int(shown[-1]) + 1
        sizes = np.maximum(window["key_size"], 0) + np.maximum(window["value_size"], 0)
        if most:
            large = shown[(sizes + window["headers_size"])[shown] > most]
            stop = min([stop, *large[:1].tolist()])
            is_large = stop == first
            if is_large:
                at += first
                break
        ends = np.cumsum(sizes[first:stop] + _LEAST_LINE)
        stop = min(stop, first + int(np.searchsorted(ends, ahead)) + 1)
        part = Columns(window[first:stop], columns.arena, [], 0)
        texts = decoder.texts(part, options.mode, wanted)
        is_plain = is_plain and texts.is_plain
        part = Columns(part.table[: len(texts.places)], part.arena, [], 0)
        made = column_lines(
            table, part, options=options, measure=measure, enough=enough - size, texts=texts, **fate
        )
        if made.text is not None:
            parts.append(made.text)
        size += made.size
        records += made.records
        at += first + (len(part) if made.rows_done else made.next_record)
    following = _next_in_range(columns.table, at, options)
    text = None if measure else b"".join(parts)
    is_done = following is None
    return LinesResult(
        text, size, int(is_done), None, records, following or 0, is_large, is_plain=is_plain
    )


def _in_range(table: Column, options: LineOptions) -> npt.NDArray[np.intp]:
    """Return the places of the records that have an offset of the options' range."""
    offsets = table["offset"]
    return np.flatnonzero((offsets >= options.from_offset) & (offsets < options.to_offset))


def _next_in_range(table: Column, at: int, options: LineOptions) -> int | None:
    """Return the place of the first record from `at` on that has an offset of the options' range; None without one."""
    for start in range(at, len(table), _MOST_LOOKED_AT):
        found = _in_range(table[start : start + _MOST_LOOKED_AT], options)
        if len(found):
            return start + int(found[0])
    return None
