"""A batch with the lines of some of its records, as it is cached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import kernel
from engine.arrays import np
from engine.budgets import Budgets, MiB
from engine.columns.batch_table import BatchProblem
from engine.log.segment.resync import only_row
from engine.log.segment.scan import BatchRun
from engine.memory_gate import DECODED, LARGE, batches_decoded, batches_read
from engine.record.fate import Fate
from engine.units import Offset
from kafkafs.decode.failures import ChangedFileError

if TYPE_CHECKING:
    from engine.log.segment.log_segment import LogSegment

MOST_TEXT = 2 * MiB
"""Bytes of text of a batch that are cached, besides the wanted record."""


class RenderedBatch:
    """A batch with the lines of some of its records.

    Args:
        segment, run, row: the batch.
        options: the content of lines, and their offset range.
        fate: fate of the batch's transaction.
        budgets: for decoding.
        enough: make no further line when the text has this many bytes.

    Attributes:
        segment, buffer, start_position, headers, row: the batch, as row `row` of `headers` over `buffer`.
        lines: record lines, each with its newline.
        large: offset of the record before which the lines end, because its own line is too long to cache.
        window: number of the window that it is cached for.
        problem: why the batch cannot be decoded completely.
    """

    __slots__ = (
        "_budgets",
        "_columns",
        "_numbers",
        "buffer",
        "cost",
        "first",
        "headers",
        "is_open",
        "large",
        "lines",
        "options",
        "problem",
        "row",
        "segment",
        "start_position",
        "window",
    )

    def __init__(
        self,
        segment: LogSegment,
        run: BatchRun,
        row: int,
        options: kernel.LineOptions,
        fate: int,
        *,
        budgets: Budgets,
        enough: int = MOST_TEXT,
    ) -> None:
        self.segment = segment
        self.buffer, self.start_position, self.headers = run
        self.row = row
        self.options = options
        self.is_open = fate == Fate.OPEN
        fates = None
        if fate:
            fates = bytearray(len(run.headers))
            fates[row] = fate
        result = kernel.lines(
            run.buffer,
            run.headers.data,
            row,
            row + 1,
            start_position=run.start_position,
            options=options,
            fates=fates,
            budgets=budgets,
            enough=enough,
            most=LARGE,
        )
        self._budgets = budgets
        self.problem: BatchProblem | None = result.problem
        self.large: Offset | None = None
        self.window = -1
        if result.is_large:
            result = self._lines_of_large(run, fate, enough)
        text = result.text or b""
        self.lines = [text] if result.records == 1 else text.splitlines(keepends=True)
        self._numbers: dict[int, int] | None = None
        self._columns: kernel.Columns | None = None
        self.first = self.offset_in(self.lines[0]) if text else -1
        if (
            len(self.lines) > 1
            and self.offset_in(self.lines[-1]) - self.first != len(self.lines) - 1
        ):
            self._number_lines()
        if run.is_large:
            self.buffer = b""  # read again on demand
        self.cost = len(text) + len(self.buffer) + 150 * len(self.lines) + 1000

    def _lines_of_large(self, run: BatchRun, fate: int, enough: int) -> kernel.LinesResult:
        """Make the lines of a batch that needs much memory, up to the first line that is too long."""
        with batches_decoded.room(DECODED):
            columns = run.decoded(self.row, self._budgets)
            result = kernel.column_lines(
                run.table,
                columns,
                options=self.options,
                fate=fate,
                enough=enough,
                most=LARGE,
            )
            if result.is_large:
                self.large = int(columns.offset[result.next_record])
            if columns.problems:
                self.problem = columns.problems[0]
        return result

    def _number_lines(self) -> None:
        numbers: dict[int, int] = {}
        for index, line in enumerate(self.lines):
            numbers.setdefault(self.offset_in(line), index)  # first record of each offset
        self._numbers = numbers

    def offset_in(self, line: bytes) -> Offset:
        """Return the offset in a line."""
        start = len(self.options.prefix)
        return int(line[start : line.index(b",", start)])

    @property
    def run(self) -> BatchRun:
        """The bytes and the header; empty bytes for a large batch."""
        return BatchRun(self.buffer, self.start_position, self.headers)

    def spans(self, offset: Offset) -> bool:
        """Return whether an offset lies between those of the batch's records; always False for a large batch."""
        if not self.buffer:
            return False
        header = self.headers[self.row]
        # The header of a compressed batch of magic 0 or 1 has only the last offset.
        return min(header.base_offset, self.first) <= offset <= header.last_offset

    def line(self, offset: Offset) -> bytes | None:
        """Return the line of the record at an offset."""
        if self._numbers is None:
            index = offset - self.first
            if not 0 <= index < len(self.lines):
                return None
            line = self.lines[index]
            prefix = self.options.prefix
            if line.startswith(b"%d," % offset, len(prefix)):
                return line
            self._number_lines()
        number = self._numbers.get(offset) if self._numbers is not None else None
        return None if number is None else self.lines[number]

    def timestamp(self, line: bytes) -> int:
        """Return the timestamp in a line, in ms."""
        start = line.index(b":", len(self.options.prefix)) + 1
        return int(line[start : line.index(b",", start)])

    def columns(self) -> kernel.Columns:
        """Return all records of the batch as columns, decoded at first use."""
        columns = self._columns
        if columns is None:
            size = self.header("size") if self.is_large else 0
            decoded = DECODED if self.is_large else 0
            with batches_read.room(size), batches_decoded.room(decoded):
                columns = kernel.decode(
                    self._bytes(),
                    self.headers.table,
                    self.row,
                    self.row + 1,
                    start_position=self.buffer_start,
                    budgets=self._budgets,
                )
            if len(columns.arena) <= MiB:
                self._columns = columns
        return columns

    @property
    def is_large(self) -> bool:
        """Whether its records or its bytes take too much memory to cache."""
        return self.large is not None or not self.buffer

    def _bytes(self) -> bytes:
        """Return the buffer with the batch; that of a large one is read again."""
        if self.buffer:
            return self.buffer
        position, size = self.header("position"), self.header("size")
        data = self.segment.file.read_at(position, size)
        again = only_row(data, position, max(size, 1))
        if again is None or not again.crc_ok or again.crc != self.headers[self.row].crc:
            path = self.segment.file.path
            raise ChangedFileError(
                "the file has changed since it was opened", path=path, position=position
            )
        return data

    @property
    def buffer_start(self) -> int:
        """File position of the buffer's start. Columns of uncompressed batches count from it."""
        return self.start_position if self.buffer else self.header("position")

    def number_of(self, columns: kernel.Columns, offset: Offset) -> int | None:
        """Return the row of an offset's record in the columns."""
        found = np.flatnonzero(columns.offset == offset)
        return int(found[0]) if len(found) else None

    def header(self, field: str) -> int:
        """Return a field of the batch's row."""
        number: int = getattr(self.headers[self.row], field)
        return number

    def raw(self) -> bytes:
        """Return the bytes of the batch on disk."""
        start = self.header("position") - self.buffer_start
        return self._bytes()[start : start + self.header("size")]
