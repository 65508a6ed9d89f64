"""Summaries of the records of batches: counts, first and last offsets, extreme timestamps.

A batch takes one row, however many records it has, so a whole log is summarised in bounded memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from engine.arrays import npt
from engine.coding.layout import Int32, Int64, Layout
from engine.columns.batch_table import BatchProblem

if TYPE_CHECKING:
    from engine.columns.decoding import Row


class SummaryRow(NamedTuple):
    """Summary of a batch, all zeros for one without records; the kernel maps a C struct onto its 56 bytes."""

    first_offset: Int64
    last_offset: Int64
    smallest_timestamp: Int64
    largest_timestamp: Int64
    first_without_key: Int64  # an offset; valid only if without_key is not 0
    count: Int32  # type: ignore[assignment]  # hides tuple.count
    without_key: Int32
    descents: Int32  # records with an offset at or below the previous record's
    inflated: Int32  # bytes of the decompressed records; 0 for a batch that is not compressed


SUMMARY_ROW: Final = Layout(SummaryRow, "=")
_INT32_MAX = (1 << 31) - 1

Summaries: TypeAlias = "npt.NDArray[Any]"


class SummaryResult(NamedTuple):
    """Rows of SUMMARY_ROW, one for each batch, and the problems of batches that were not read whole.

    A row counts the records before its batch's problem.
    """

    rows: Summaries
    problems: list[BatchProblem]


class AppendFacts(NamedTuple):
    """Facts about the records of a batch, as in SUMMARY_ROW; `size`: their bytes, inflated."""

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
        return (0,) * len(SummaryRow._fields)
    offsets = [record[0] for record in records]
    times = [record[1] for record in records]
    keyless = [record[0] for record in records if record[5] < 0]
    descents = sum(offset <= before for before, offset in pairwise(offsets))
    first_keyless = keyless[0] if keyless else 0
    extremes = (offsets[0], offsets[-1], min(times), max(times), first_keyless)
    return (*extremes, len(records), len(keyless), descents, min(inflated, _INT32_MAX))
