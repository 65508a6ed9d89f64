"""Which records of a log a reader sees; the one place that asks for the fates of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from engine.arrays import np, npt
from engine.budgets import Budgets
from engine.columns.batch_table import Table, holds_control
from engine.columns.columns import Columns
from engine.columns.left_out import left_out
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.record.fate import Fates
from engine.units import MAX_INT64, Offset

Indices: TypeAlias = "npt.NDArray[np.intp]"
Marks: TypeAlias = "npt.NDArray[np.bool_]"


def fates_of(view: LogView, segment: LogSegment, run: BatchRun) -> Fates:
    """Return a Fate for each batch of a run; None if none is transactional."""
    return view.fates(segment, run)


class Wanted(NamedTuple):
    """What a reader wants to see.

    Attributes:
        start, stop: records at offsets [start, stop).
        committed: no records of aborted and of open transactions.
        control: control records, too.
    """

    start: Offset = 0
    stop: Offset = MAX_INT64
    committed: bool = False
    control: bool = False


@dataclass
class SeenRun:
    """The batches of a run as a reader sees them. Fates are looked up when they are first needed.

    Attributes:
        view, segment, run: the batches.
        wanted: what the reader wants to see.
    """

    view: LogView
    segment: LogSegment
    run: BatchRun
    wanted: Wanted

    @cached_property
    def all_fates(self) -> Fates:
        """Fates of all batches of the run."""
        return fates_of(self.view, self.segment, self.run)

    @property
    def is_control(self) -> Marks:
        """Which batches of the run hold control records."""
        return holds_control(self.run.table)

    @cached_property
    def left(self) -> Marks:
        """Which batches of the run have no record to see."""
        start, stop, committed, control = self.wanted
        fates = self.all_fates if committed else None
        return left_out(self.run.table, fates, start, stop, committed=committed, control=control)

    @cached_property
    def table(self) -> Table:
        """The batches with records to see."""
        return self.run.table[~self.left] if self.left.any() else self.run.table

    @property
    def fates(self) -> Fates:
        """Fates of the batches with records to see."""
        fates = self.all_fates
        return fates if fates is None or not self.left.any() else fates[~self.left]

    def columns(
        self, budgets: Budgets, table: Table | None = None
    ) -> Iterator[tuple[Columns, Indices]]:
        """Yield records of `table`, or of the given ones of its batches, some at a time, with the indexes of those to see."""
        for columns in self.run.columns(self.table if table is None else table, budgets):
            start, stop, *_ = self.wanted
            yield columns, np.flatnonzero((columns.offset >= start) & (columns.offset < stop))

    def seen(self, columns: Columns, indices: Indices) -> Indices:
        """Return those of some records of the whole run that are to be seen."""
        indices = indices[~self.left[columns.row[indices]]]
        offsets = columns.offset[indices]
        return indices[(offsets >= self.wanted.start) & (offsets < self.wanted.stop)]
