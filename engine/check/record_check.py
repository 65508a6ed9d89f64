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
from engine.check.breach import Breach
from engine.check.control_record_check import control_breaches
from engine.log.scan import BatchRun
from engine.record.attributes import COMPRESSION_MASK, CONTROL_MASK, TIMESTAMP_TYPE_MASK
from engine.record.batch_table import BatchProblem, Problem
from engine.record.columns import Columns
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
        starts: row and first offset of batches of which only the records tell it: legacy wrappers.
        thinned_to: one past the last of these that compaction took records from; -1 for none.
    """

    breaches: list[Breach] = field(default_factory=list)
    count: int = 0
    keyless: Offset | None = None
    starts: list[tuple[Table, Table]] = field(default_factory=list)
    thinned_to: Offset = -1

    def note_thinned(self, offsets: Table, starts: Table, wrappers: Table) -> None:
        """Legacy wrappers that hold fewer records than offsets: their headers do not tell."""
        ends = np.append(starts[1:], len(offsets)) - 1
        missing = offsets[ends] - offsets[starts] != ends - starts
        thinned = offsets[ends][missing & wrappers]
        if len(thinned):
            self.thinned_to = max(self.thinned_to, int(thinned[-1]) + 1)

    def with_starts(self, table: Table) -> Table:
        """The run's table with each batch's first offset as its base offset."""
        if not self.starts:
            return table
        known = table.copy()
        for rows, first in self.starts:
            known["base_offset"][rows] = first
        return known


def check_records(run: BatchRun, budgets: Budgets) -> RecordFacts:
    """Decode all of a run and tell what is wrong with its records."""
    facts = RecordFacts()
    row = 0
    while row < len(run.table):
        columns = kernel.decode(
            run.buffer,
            run.table,
            row,
            len(run.table),
            start_position=run.start_position,
            budgets=budgets,
        )
        row = max(columns.next_row, row + 1)
        facts.count += len(columns)
        facts.breaches += (_of_problem(run, problem) for problem in columns.problems)
        if len(columns):
            _check_columns(run, columns, facts)
    return facts


def _of_problem(run: BatchRun, problem: BatchProblem) -> Breach:
    batch = run.table[problem.row]
    sentence = f"{problem.detail}, in the batch at byte {batch['position']}"
    if problem.record_index > 0:
        sentence += f" behind {problem.record_index} records that are sound"
    return Breach.of(_RULES[problem.code], batch, sentence, recordsBefore=problem.record_index)


def _check_columns(run: BatchRun, columns: Columns, facts: RecordFacts) -> None:
    rows = columns.row
    starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - 1))
    batches = rows[starts]
    broken = {problem.row for problem in columns.problems}
    is_wrapper = (run.table["magic"] < 2) & (run.table["attributes"] & COMPRESSION_MASK != 0)
    if is_wrapper.any():
        wrappers = is_wrapper[batches]
        facts.starts.append((batches[wrappers], columns.offset[starts[wrappers]]))
        facts.note_thinned(columns.offset, starts, wrappers)
    facts.breaches += _offset_breaches(run.table, columns, starts, batches, broken)
    facts.breaches += _timestamp_breaches(run.table, columns.timestamp, starts, batches, broken)
    is_control = run.table["attributes"] & CONTROL_MASK != 0
    if is_control.any():
        facts.breaches += control_breaches(run.table, columns, is_control[rows])
    if facts.keyless is None:
        keyless = np.flatnonzero((columns.key_size < 0) & ~is_control[rows])
        if len(keyless):
            facts.keyless = int(columns.offset[keyless[0]])


def _offset_breaches(
    table: Table, columns: Columns, starts: Table, batches: Table, broken: set[int]
) -> Iterator[Breach]:
    """Offsets that do not ascend in their batch, or lie outside of it; a legacy batch states its last one."""
    offsets = columns.offset
    ends = np.append(starts[1:], len(offsets)) - 1
    base, last = table["base_offset"][batches], table["last_offset"][batches]
    is_wrapper = table["magic"][batches] < 2  # its base offset is its last record's
    bad = (offsets[ends] > last) | ((offsets[starts] < base) & ~is_wrapper)
    if is_wrapper.any():
        bad |= is_wrapper & (offsets[ends] != last) & ~np.isin(batches, list(broken))
    if len(offsets) > len(starts):
        back = np.flatnonzero(np.diff(offsets) <= 0) + 1
        if len(back):
            inside = back[~np.isin(back, starts, assume_unique=True)]
            bad |= np.isin(batches, columns.row[inside])
    for group in np.flatnonzero(bad):
        batch = table[batches[group]]
        first, final = int(offsets[starts[group]]), int(offsets[ends[group]])
        yield Breach.of(
            "records-offsets",
            batch,
            f"the records of the batch at byte {batch['position']} have offsets from {first} to {final},"
            f" not ascending within {batch['base_offset']} to {batch['last_offset']}",
            first=first,
            last=final,
        )


def _timestamp_breaches(
    table: Table, timestamps: Table, starts: Table, batches: Table, broken: set[int]
) -> Iterator[Breach]:
    """Batches whose largest timestamp is not that of their records, and timestamps below -1."""
    largest = np.maximum.reduceat(timestamps, starts)
    stated = table["max_timestamp"][batches]
    by_producer = table["attributes"][batches] & TIMESTAMP_TYPE_MASK == 0
    differs = (largest != stated) & (table["magic"][batches] == 2) & by_producer
    for group in np.flatnonzero(differs):
        if int(batches[group]) in broken:
            continue
        batch = table[batches[group]]
        yield Breach.of(
            "records-timestamps",
            batch,
            f"the batch at byte {batch['position']} states {stated[group]} as its largest timestamp,"
            f" its records' is {largest[group]}",
            expected=int(largest[group]),
            found=int(stated[group]),
        )
    below = np.minimum.reduceat(timestamps, starts) < NO_TIMESTAMP
    for group in np.flatnonzero(below):
        batch = table[batches[group]]
        yield Breach.of(
            "timestamp-negative",
            batch,
            f"the batch at byte {batch['position']} holds a timestamp below -1",
        )
