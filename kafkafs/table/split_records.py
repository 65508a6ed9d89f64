"""Records and holes of splits, as numbers and positions: no bytes are copied."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from engine.columns.batch_table import BatchProblem
from engine.log.partition_log import PartitionLog
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.units import Offset
from kafkafs.decode.error_line import damage_facts, problem_facts
from kafkafs.decode.searching.apart import Apart
from kafkafs.records.conditions.row_filters import RowFilter
from kafkafs.records.line_texts import RowLines
from kafkafs.records.rows import Rows
from kafkafs.records.visible import SeenRun, Wanted
from kafkafs.table.row_options import RowOptions
from kafkafs.table.splits.header_facts import countable, records_in
from kafkafs.table.splits.split import Split
from kafkafs.table.splits.split_scan import is_hole, scan_split


class Counted(NamedTuple):
    """A number of wanted records, known from batch headers."""

    records: int


class DamagedPlace(NamedTuple):
    """Damage that may have cost wanted records.

    Attributes:
        split: the split.
        facts: facts of the damage, as in an error line.
    """

    split: Split
    facts: dict[str, Any]

    @property
    def first_offset(self) -> Offset | None:
        """The first offset that may be lost, where known."""
        return self.facts.get("firstOffset")


SplitItem: TypeAlias = Rows | RowLines | Counted | DamagedPlace


class SplitRecords:
    """The records of splits, in log order.

    Args:
        options: see `RowOptions`.
        wanted: filter on the records; None for every record.
        counts_only: count records by headers where those suffice.
        as_lines: yield the records as RowLines.
    """

    def __init__(
        self,
        options: RowOptions,
        wanted: RowFilter | None = None,
        *,
        counts_only: bool = False,
        as_lines: bool = False,
    ) -> None:
        self._options = options
        self._wanted = wanted
        self._counts_only = counts_only and wanted is None
        self._mask = None if counts_only else options.mask
        self._as_lines = as_lines

    def read(
        self, split: Split, log: PartitionLog | None = None, apart: Apart | None = None
    ) -> Iterator[SplitItem]:
        """Yield the wanted records of a split, and its holes with `on_corrupt` "row".

        Args:
            split: the split.
            log: the partition's log in an open source; by default the split's source is opened.
            apart: for a leftover, the records of it that are left out.

        Raises:
            LostRecordsError: the segment is gone, and `fail_on_data_loss` is true.
            CorruptBatchError: the segment is damaged, and `on_corrupt` is fail.
        """
        for view, segment, part, item in scan_split(
            split, log, fail_on_data_loss=self._options.fail_on_data_loss
        ):
            if isinstance(item, BatchRun):
                yield from self._run(view, segment, part, item, apart)
            elif is_hole(part, item, on_corrupt=self._options.on_corrupt):
                yield from self._hole(part, damage_facts(item))

    def _run(
        self,
        view: LogView,
        segment: LogSegment,
        split: Split,
        run: BatchRun,
        apart: Apart | None,
    ) -> Iterator[SplitItem]:
        if self._wanted is not None:
            run = self._wanted.narrowed(run)
            if not len(run.table):
                return
        wanted = Wanted(split.start, split.stop, self._options.committed)
        seen = SeenRun(view, segment, run, wanted)
        table = seen.table
        if self._counts_only and apart is None:
            # Headers suffice, except for batches across a bound of the range.
            known = countable(split, table, self._options.budgets)
            yield Counted(records_in(table[known]))
            table, fates = table[~known], None
        else:
            fates = seen.fates
        decoder_of = self._options.decoder_of
        for columns, indices in seen.columns(self._options.budgets, table):
            decoder = None if decoder_of is None else decoder_of(split.partition.topic)
            rows = Rows(
                split.partition,
                split.segment,
                columns,
                table,
                fates,
                indices,
                decoder,
                self._options.keeps_bytes,
                leftover=split.leftover,
            )
            if self._wanted is not None:
                rows = self._wanted.matching(rows)
            if apart is not None:
                rows = replace(rows, indices=apart.only_here(columns, rows.indices))
            if self._as_lines:
                yield RowLines(rows, self._options.mask_of(split.partition.topic))
            else:
                yield rows if self._mask is None else self._mask.masked(rows)
            for problem in columns.problems:
                yield from self._problem(split, problem, table[problem.row], segment.path)

    def _problem(
        self, split: Split, problem: BatchProblem, row: np.void, path: str
    ) -> Iterator[DamagedPlace]:
        facts = problem_facts(problem, row, path)
        base, last = int(row["base_offset"]), int(row["last_offset"])
        first = base if facts["firstOffset"] is None else facts["firstOffset"]
        # Only one of two tasks reports a batch across their border.
        is_wanted = first < split.stop and last >= split.start
        if is_wanted and (first >= split.start or split.is_first):
            yield from self._hole(split, facts)

    def _hole(self, split: Split, facts: dict[str, Any]) -> Iterator[DamagedPlace]:
        shown = self._options.reported(split, facts)
        if shown is not None:
            yield DamagedPlace(split, shown)
