"""Result of writing record lines."""

from __future__ import annotations

from typing import NamedTuple

from engine.columns.batch_table import BatchProblem

NO_BOUND = 2**62
"""A bound above the size of any text."""


class LinesResult(NamedTuple):
    """Record lines of some rows of a batch table.

    Attributes:
        text: the lines; None if only measured.
        size: bytes of the lines.
        rows_done: number of rows processed, including the row with the problem.
        problem: problem of the last of these rows; its records before the problem are in the text.
        records: number of lines.
        next_record: if the text was full inside a row, the record of the row to continue with (as
            `first_record`); otherwise 0.
        is_large: whether the text ends before a row or record above `most`.
        is_plain: whether a decoder was asked, and no record looked like one to decode.
    """

    text: bytes | None
    size: int
    rows_done: int
    problem: BatchProblem | None
    records: int
    next_record: int = 0
    is_large: bool = False
    is_plain: bool = False
