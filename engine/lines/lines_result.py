"""What writing record lines gives back."""

from __future__ import annotations

from typing import NamedTuple

from engine.columns.batch_table import BatchProblem

NO_BOUND = 2**62
"""More bytes than any text has."""


class LinesResult(NamedTuple):
    """Record lines of some rows of a batch table.

    Attributes:
        text: the lines; None when they were only measured.
        size: bytes of the lines.
        rows_done: rows dealt with, the one with the problem included.
        problem: what keeps the last of these rows from being shown whole; its records before that are in
            the text.
        records: how many lines there are.
        next_record: when the text was full in the middle of a row, the record of the row after those done
            to go on with (as `first_record`); 0 else.
        is_large: the text ends before a row, or a record, that takes more memory than was allowed (`most`).
    """

    text: bytes | None
    size: int
    rows_done: int
    problem: BatchProblem | None
    records: int
    next_record: int = 0
    is_large: bool = False
