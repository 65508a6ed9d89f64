"""The records inside good batches: decoded, counted, and held against their batches' headers.

A pure function of a run of batches, so runs are checked in several threads at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.budgets import Budgets
from engine.check.batches.control_record_check import control_breaches
from engine.check.rules.breach import Breach
from engine.columns.batch_table import BatchProblem, Problem
from engine.log.segment.scan import BatchRun
from engine.record.attributes import COMPRESSION_MASK, CONTROL_MASK, TIMESTAMP_TYPE_MASK
from engine.units import NO_TIMESTAMP, Offset

Table: TypeAlias = npt.NDArray[Any]

_RULES = {
    Problem.UNKNOWN_CODEC: "records-codec",
    Problem.CODEC_MISSING: "records-not-checked",
    Problem.DECOMPRESSION: "records-compression",
    Problem.LIMIT: "records-not-checked",
    Problem.INVALID_RECORD: "records-invalid",
    Problem.RECORD_COUNT: "records-count",
    Problem.LEFTOVER_BYTES: "records-leftover",
    Problem.INVALID_HEADER: "batch-offsets",
}


@dataclass(slots=True)
class RecordFacts:
    """What the records of a run tell.

    Attributes:
        breaches: what is wrong, in file order.
        count: records decoded.
        keyless: offset of the first data record without a key, None when all have one.
        starts: rows and first offsets of batches of which only the records tell it: legacy wrappers.
        thinned_to: one past the last of these that compaction took records from; -1 for none.
    """

    breaches: list[Breach] = field(default_factory=list)
    count: int = 0
    keyless: Offset | None = None
    starts: tuple[Table, Table] | None = None
    thinned_to: Offset = -1

    def note_thinned(self, summaries: Table) -> None:
        """Legacy wrappers that hold fewer records than offsets: their headers do not tell."""
        last = summaries["last_offset"]
        thinned = last[last - summaries["first_offset"] != summaries["count"] - 1]
        if len(thinned):
            self.thinned_to = max(self.thinned_to, int(thinned[-1]) + 1)

    def first_offset(self, table: Table) -> Offset:
        """The offset of the run's first record."""
        return int(self.with_starts(table[:1] if self.starts is None else table)["base_offset"][0])

    def with_starts(self, table: Table) -> Table:
        """The run's table with each batch's first offset as its base offset."""
        if self.starts is None:
            return table
        known = table.copy()
        rows, first = self.starts
        known["base_offset"][rows] = first
        return known


def check_records(run: BatchRun, budgets: Budgets) -> RecordFacts:
    """Decode all of a run and tell what is wrong with its records."""
    table = run.table
    summaries, problems = kernel.summarize(
        run.buffer, table, start_position=run.start_position, budgets=budgets
    )
    facts = RecordFacts([_of_problem(run, problem) for problem in problems])
    facts.count = int(summaries["count"].sum())
    has_records = summaries["count"] > 0
    rows = np.flatnonzero(has_records)
    if not len(rows):
        return facts
    attributes = table["attributes"]
    is_wrapper = has_records & (table["magic"] < 2) & (attributes & COMPRESSION_MASK != 0)
    if is_wrapper.any():
        facts.starts = np.flatnonzero(is_wrapper), summaries["first_offset"][is_wrapper]
        facts.note_thinned(summaries[is_wrapper])
    batches = _Batches(table, summaries, rows, {problem.row for problem in problems})
    facts.breaches += batches.offset_breaches()
    facts.breaches += batches.timestamp_breaches()
    is_control = attributes & CONTROL_MASK != 0
    if is_control.any():
        # They are read once more: of these the bytes count.
        controls = table[is_control]
        for columns in run.columns(controls, budgets):
            facts.breaches += control_breaches(controls, columns)
    keyless = np.flatnonzero((summaries["without_key"] > 0) & ~is_control)
    if len(keyless):
        facts.keyless = int(summaries["first_without_key"][keyless[0]])
    return facts


def _of_problem(run: BatchRun, problem: BatchProblem) -> Breach:
    batch = run.table[problem.row]
    sentence = f"{problem.detail}, in the batch at byte {batch['position']}"
    if problem.record_index > 0:
        sentence += f" behind {problem.record_index} records that are sound"
    return Breach.of(_RULES[problem.code], batch, sentence, recordsBefore=problem.record_index)


class _Batches:
    """Those batches of a run that have records, beside what their records say.

    Args:
        table: all of the run's.
        summaries: of each.
        rows: the numbers of those that have records.
        broken: the numbers of those that did not decode whole.
    """

    def __init__(self, table: Table, summaries: Table, rows: Table, broken: set[int]) -> None:
        self._table = table
        self._summaries = summaries
        self._rows = rows
        self._broken = broken

    def offset_breaches(self) -> Iterator[Breach]:
        """Offsets that do not ascend in their batch, or lie outside of it; a legacy batch states its last one."""
        table, found = self._table, self._summaries
        first, last = found["first_offset"], found["last_offset"]
        is_legacy = table["magic"] < 2  # its base offset is its last record's
        bad = (last > table["last_offset"]) | ((first < table["base_offset"]) & ~is_legacy)
        bad |= found["descents"] > 0
        if is_legacy.any():
            differs = is_legacy & (last != table["last_offset"])
            differs[list(self._broken)] = False
            bad |= differs
        for row in self._rows[bad[self._rows]]:
            batch = table[row]
            start, end = int(first[row]), int(last[row])
            yield Breach.of(
                "records-offsets",
                batch,
                f"the records of the batch at byte {batch['position']} have offsets from {start} to {end},"
                f" not ascending within {batch['base_offset']} to {batch['last_offset']}",
                first=start,
                last=end,
            )

    def timestamp_breaches(self) -> Iterator[Breach]:
        """Batches whose largest timestamp is not that of their records, and timestamps below -1."""
        table, found = self._table, self._summaries
        largest, stated = found["largest_timestamp"], table["max_timestamp"]
        by_producer = table["attributes"] & TIMESTAMP_TYPE_MASK == 0
        differs = (largest != stated) & (table["magic"] == 2) & by_producer
        for row in self._rows[differs[self._rows]]:
            if int(row) in self._broken:
                continue
            batch = table[row]
            yield Breach.of(
                "records-timestamps",
                batch,
                f"the batch at byte {batch['position']} states {stated[row]} as its largest timestamp,"
                f" its records' is {largest[row]}",
                expected=int(largest[row]),
                found=int(stated[row]),
            )
        below = found["smallest_timestamp"] < NO_TIMESTAMP
        for row in self._rows[below[self._rows]]:
            batch = table[row]
            yield Breach.of(
                "timestamp-negative",
                batch,
                f"the batch at byte {batch['position']} holds a timestamp below -1",
            )
