"""Record lines of decoded records, also where a mask has to see them first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy.typing as npt

from engine import kernel
from engine.budgets import MiB
from engine.columns.batch_table import Table
from engine.columns.columns import Columns
from engine.lines.line_decoder import LineMasking
from engine.lines.masked_lines import masked_large_line
from engine.memory_gate import LARGE
from engine.record.fate import Fates
from kafkafs.records.rows import Rows, chosen

_ENOUGH = 1 * MiB


class RowLines:
    """Some records as lines, of which a mask leaves out what it hides. Their columns are not for others to read.

    Args:
        rows: the records.
        mask: the mask of their topic; None for none.
    """

    def __init__(self, rows: Rows, mask: LineMasking | None) -> None:
        self.__rows = rows
        self._mask = mask
        self.partition = rows.partition
        self.leftover = rows.leftover

    def __len__(self) -> int:
        return len(self.__rows)

    @property
    def timestamps(self) -> npt.NDArray[Any]:
        """The timestamp of each record."""
        return self.__rows.timestamps

    def some(self, places: npt.NDArray[Any] | slice) -> RowLines:
        """Return some of the records, by their places."""
        return RowLines(self.__rows.some(places), self._mask)

    def texts(self, values: str, enough: int) -> Iterator[bytes]:
        """Yield whole lines, about `enough` bytes at a time, with keys and values as `LineOptions.values` says."""
        rows = self.__rows
        options = kernel.LineOptions(
            *rows.partition, values=values, decode_with=rows.decoder, mask=self._mask
        )
        columns = chosen(rows.columns, rows.indices)
        return line_texts(rows.table, columns, options, rows.fates, enough=enough)


def line_texts(
    table: Table,
    columns: Columns,
    options: kernel.LineOptions,
    fates: Fates = None,
    *,
    enough: int = _ENOUGH,
    bare: bool = False,
) -> Iterator[bytes]:
    """Yield lines, about `enough` bytes at a time; arguments as of `counted_lines`."""
    for text, _ in counted_lines(table, columns, options, fates, enough=enough, bare=bare):
        yield text


def counted_lines(
    table: Table,
    columns: Columns,
    options: kernel.LineOptions,
    fates: Fates = None,
    *,
    enough: int = _ENOUGH,
    bare: bool = False,
    large: Callable[[int], Iterable[bytes]] | None = None,
) -> Iterator[tuple[bytes, int]]:
    """Yield lines, about `enough` bytes at a time, and their number. With a mask only the place of a large record is shown.

    Args:
        table: the batches of the records.
        columns: the records.
        options: options of the lines.
        fates: fates of the batches.
        enough: bytes of lines to make at a time.
        bare: make the lines without the mask, for a caller who masks them; those of large records are masked.
        large: makes the line of a large record by its index, in parts; without it and a mask no record is large.
    """
    record = 0
    while True:
        made = kernel.column_lines(
            table,
            columns,
            options=options.bare if bare else options,
            fates=fates,
            first_record=record,
            enough=enough,
            most=0 if options.mask is None and large is None else LARGE,
        )
        if made.text:
            yield made.text, made.records
        if made.rows_done:
            return
        record = made.next_record
        if made.is_large:
            if large is None:
                row = int(columns.row[record])
                fate = 0 if fates is None else int(fates[row])
                yield masked_large_line(table[row], columns.table[record].item(), options, fate), 1
            else:
                for part in large(record):
                    yield part, int(part.endswith(b"\n"))
            record += 1
