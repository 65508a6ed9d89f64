"""Record lines with a mask: the kernel's functions, whose lines are masked some at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.lines.lines_result import NO_BOUND, LinesResult
from engine.lines.record_line import LineOptions, record_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.arrays import np
    from engine.columns.decoding import Row

_STEP = 1024 * 1024
"""Bytes of lines that are masked at a time."""


def masked_lines(
    lines: Callable[..., LinesResult],
    buffer: object,
    table: object,
    first_row: int,
    last_row: int,
    **given: Any,  # noqa: ANN401 - as for `kernel.lines`
) -> LinesResult:
    """Return what the kernel's `lines` returns, with a mask."""

    def step(row: int, record: int, options: LineOptions) -> LinesResult:
        asked = {"options": options, "first_record": record, "enough": _STEP}
        return lines(buffer, table, row, last_row, **{**given, **asked, "measure": False})

    return _masked(step, first_row, last_row, given)


def masked_column_lines(
    column_lines: Callable[..., LinesResult],
    table: object,
    columns: object,
    **given: Any,  # noqa: ANN401 - as for `kernel.column_lines`
) -> LinesResult:
    """Return what the kernel's `column_lines` returns, with a mask."""

    def step(_row: int, record: int, options: LineOptions) -> LinesResult:
        asked = {"options": options, "first_record": record, "enough": _STEP}
        return column_lines(table, columns, **{**given, **asked, "measure": False})

    return _masked(step, 0, 1, given)


def _masked(
    step: Callable[[int, int, LineOptions], LinesResult],
    row: int,
    last_row: int,
    given: Any,  # noqa: ANN401
) -> LinesResult:
    """Return masked lines, made in steps.

    Args:
        step: makes lines without a mask from a row and a record in it.
        row, last_row: the rows.
        given: arguments of the kernel's function: options, and as far as given first_record, enough and measure.
    """
    options: LineOptions = given["options"]
    assert options.mask is not None
    bare, enough = options.bare, given.get("enough", NO_BOUND)
    parts: list[bytes] = []
    first_row, record, records, size = row, given.get("first_record", 0), 0, 0
    while True:
        made = step(row, record, bare)
        text = options.mask.lines(made.text or b"")
        size += len(text)
        records += made.records
        if not given.get("measure", False):
            parts.append(text)
        row, record = row + made.rows_done, made.next_record
        if made.problem is not None or made.is_large or row >= last_row or size >= enough:
            return LinesResult(
                None if given.get("measure", False) else b"".join(parts),
                size,
                row - first_row,
                made.problem,
                records,
                record,
                made.is_large,
            )


def masked_large_line(batch: np.void, fields: Row, options: LineOptions, fate: int) -> bytes:
    """Return the masked line of a record that is too large to be decoded: only its place is left.

    Args:
        batch: row of the record's batch.
        fields: row of the record.
        options: options with a mask.
        fate: fate of the batch's transaction.
    """
    # Imported here: the writer of lines imports this module's names through the kernel.
    from engine.lines.line_writer import bare_record, batch_facts

    assert options.mask is not None
    sizes, facts = replace(options.bare, values="none"), batch_facts(batch)
    facts["is_control"] = False  # its key and value may be anything
    return options.mask.line(record_line(bare_record(batch, fields), sizes, fate=fate, **facts))
