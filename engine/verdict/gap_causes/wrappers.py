"""Wrappers: compressed batches of magic 0 and 1, whose headers state neither their first offset nor their records."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from engine import kernel
from engine.arrays import np, npt
from engine.log.segment.scan import BatchRun
from engine.record.attributes import COMPRESSION_MASK
from engine.units import Offset

Table: TypeAlias = "npt.NDArray[Any]"


class Wrappers(NamedTuple):
    """The wrappers of a run.

    Attributes:
        rows: which batches of the run's table they are.
        first_offsets: offset of the first record of each; -1 if it cannot be decoded.
        thinned_to: one past the last one that compaction removed records from; -1 without one.
    """

    rows: Table
    first_offsets: Table
    thinned_to: Offset

    def with_first_offsets(self, table: Table, *, also_unknown: bool = True) -> Table:
        """Return the table of the run with the first offset of each wrapper as its base offset.

        Args:
            table: the table.
            also_unknown: whether the base offset is -1 where the first offset is unknown, else as stated.
        """
        known = self.first_offsets >= (-1 if also_unknown else 0)
        table = table.copy()
        table["base_offset"][self.rows[known]] = self.first_offsets[known]
        return table


def wrappers_in(table: Table, summaries: Table) -> Wrappers | None:
    """Return the wrappers among batches, by the summaries of their records; None without any."""
    rows = _rows(table)
    if not len(rows):
        return None
    own = summaries[rows]
    first, last, count = own["first_offset"], own["last_offset"], own["count"]
    thinned = last[(count > 0) & (last - first != count - 1)]
    to = int(thinned[-1]) + 1 if len(thinned) else -1
    return Wrappers(rows, np.where(count > 0, first, -1), to)


def wrappers_of(run: BatchRun) -> Wrappers | None:
    """Return the wrappers of a run, which are decoded for it; None without any."""
    if not len(_rows(run.table)):
        return None
    summaries, _ = kernel.summarize(run.buffer, run.table, start_position=run.start_position)
    return wrappers_in(run.table, summaries)


def first_offset_of(run: BatchRun) -> Offset:
    """Return the offset of a run's first record; a wrapper states that of its last record."""
    first = run.table[:1]
    if len(_rows(first)):
        summaries, _ = kernel.summarize(run.buffer, first, start_position=run.start_position)
        if summaries["count"][0] > 0:
            return int(summaries["first_offset"][0])
    return run.base_offset


def _rows(table: Table) -> Table:
    found: Table = ((table["magic"] < 2) & (table["attributes"] & COMPRESSION_MASK != 0)).nonzero()[
        0
    ]
    return found
