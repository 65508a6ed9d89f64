"""Summaries of the records of batches: counts, first and last offsets, extreme timestamps.

A batch takes one row, however many records it has, so a whole log is summarised in bounded memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.columns.batch_table import BatchProblem
from engine.columns.decoding import Row

SUMMARY_DTYPE = np.dtype(
    [
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("smallest_timestamp", "i8"),
        ("largest_timestamp", "i8"),
        ("first_without_key", "i8"),  # an offset; valid only if without_key is not 0
        ("count", "i4"),
        ("without_key", "i4"),
        ("descents", "i4"),  # records with an offset at or below the previous record's
        (
            "inflated",
            "i4",
        ),  # bytes of the decompressed records; 0 for a batch that is not compressed
    ],
    align=True,
)
"""56 bytes a batch; all zeros for one without records. The kernel maps a C struct with the fields in this order."""

_FIELDS = 9
_INT32_MAX = (1 << 31) - 1

Summaries: TypeAlias = npt.NDArray[Any]


class SummaryResult(NamedTuple):
    """Rows of SUMMARY_DTYPE, one for each batch, and the problems of batches that were not read whole.

    A row counts the records before its batch's problem.
    """

    rows: Summaries
    problems: list[BatchProblem]


class AppendFacts(NamedTuple):
    """Facts about the records of a batch, as in SUMMARY_DTYPE; `size`: their bytes, inflated."""

    records: int
    first_offset: int
    last_offset: int
    smallest_timestamp: int
    largest_timestamp: int
    without_key: int
    descents: int
    size: int


def summary_of(records: Sequence[Row], inflated: int) -> tuple[int, ...]:
    """Return the summary row of one batch's records, as far as they were read."""
    if not records:
        return (0,) * _FIELDS
    offsets = [record[0] for record in records]
    times = [record[1] for record in records]
    keyless = [record[0] for record in records if record[5] < 0]
    descents = sum(offset <= before for before, offset in pairwise(offsets))
    first_keyless = keyless[0] if keyless else 0
    extremes = (offsets[0], offsets[-1], min(times), max(times), first_keyless)
    return (*extremes, len(records), len(keyless), descents, min(inflated, _INT32_MAX))
