"""Record lines of decoded records, also where a mask has to see them first."""

from __future__ import annotations

from collections.abc import Iterator

from engine import kernel
from engine.budgets import MiB
from engine.columns.batch_table import Table
from engine.columns.columns import Columns
from engine.lines.masked_lines import masked_large_line
from engine.memory_gate import LARGE
from engine.record.fate import Fates

_ENOUGH = 1 * MiB


def line_texts(
    table: Table,
    columns: Columns,
    options: kernel.LineOptions,
    fates: Fates = None,
    *,
    enough: int = _ENOUGH,
    bare: bool = False,
) -> Iterator[bytes]:
    """Yield whole lines, about `enough` bytes at a time. With a mask only the place of a large record is shown.

    Args:
        table: the batches of the records.
        columns: the records.
        options: options of the lines.
        fates: fates of the batches.
        enough: bytes of lines to make at a time.
        bare: make the lines without the mask, for a caller who masks them; those of large records are masked.
    """
    record = 0
    while record < len(columns):
        made = kernel.column_lines(
            table,
            columns,
            options=options.bare if bare else options,
            fates=fates,
            first_record=record,
            enough=enough,
            most=0 if options.mask is None else LARGE,
        )
        if made.text:
            yield made.text
        if made.rows_done:
            return
        record = made.next_record
        if made.is_large:
            row = int(columns.row[record])
            fate = 0 if fates is None else int(fates[row])
            yield masked_large_line(table[row], columns.table[record].item(), options, fate)
            record += 1
