"""Check of the records in good batches: decodes, counts, and compares them with the batch headers.

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
from engine.coding.refused_frames import HEADER_BYTES, SUSPECT, refusal
from engine.columns.batch_table import BatchProblem, Problem, holds_control
from engine.log.segment.scan import BatchRun
from engine.record.attributes import COMPRESSION_MASK, TIMESTAMP_TYPE_MASK
from engine.record.batch_frame import HEADER
from engine.units import NO_TIMESTAMP, Offset
from engine.verdict.gap_causes.wrappers import Wrappers, wrappers_in

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


_LEAST = HEADER.size + 8
"""Bytes of a batch with the start of a frame."""


def refused_breaches(run: BatchRun) -> Iterator[Breach]:
    """Yield a breach for each batch of magic 2 that Kafka's consumers cannot decompress."""
    table = run.table
    codecs = table["attributes"] & COMPRESSION_MASK
    is_compressed = (codecs != 0) & (table["magic"] == 2) & (table["size"] > _LEAST)
    if not is_compressed.any():
        return
    data = np.frombuffer(run.buffer, np.uint8)
    for codec, (place, mask, value) in SUSPECT.items():
        rows = (is_compressed & (codecs == codec)).nonzero()[0]
        starts = table["position"][rows] - run.start_position + HEADER.size
        for number in (data[starts + place] & mask == value).nonzero()[0]:
            batch, start = table[rows[number]], int(starts[number])
            end = start + min(int(batch["size"]) - HEADER.size, HEADER_BYTES)
            reason = refusal(codec, run.buffer[start:end])
            if reason:
                sentence = f"Kafka refuses the batch at byte {batch['position']}: {reason}"
                yield Breach.of("records-refused", batch, sentence)


@dataclass(slots=True)
class RecordFacts:
    """Facts about the records of a run.

    Attributes:
        breaches: in file order.
        count: number of decoded records.
        keyless: offset of the first data record without a key, None if all have one.
        wrappers: the wrappers of the run; None without any.
        summaries: of each batch of the run; None if nobody counts them.
    """

    breaches: list[Breach] = field(default_factory=list)
    count: int = 0
    keyless: Offset | None = None
    wrappers: Wrappers | None = None
    summaries: Table | None = None

    def with_first_offsets(self, table: Table) -> Table:
        """Return the run's table, with each batch's first offset as its base offset, where known."""
        if self.wrappers is None:
            return table
        return self.wrappers.with_first_offsets(table, also_unknown=False)


def check_records(run: BatchRun, budgets: Budgets, *, keeps_summaries: bool = False) -> RecordFacts:
    """Decode all records of a run and check them."""
    table = run.table
    summaries, problems = kernel.summarize(
        run.buffer, table, start_position=run.start_position, budgets=budgets
    )
    facts = RecordFacts([_of_problem(run, problem) for problem in problems])
    facts.breaches += refused_breaches(run)
    facts.count = int(summaries["count"].sum())
    facts.summaries = summaries if keeps_summaries else None
    has_records = summaries["count"] > 0
    rows = has_records.nonzero()[0]
    if not len(rows):
        return facts
    facts.wrappers = wrappers_in(table, summaries)
    batches = _Batches(table, summaries, rows, {problem.row for problem in problems})
    facts.breaches += batches.offset_breaches()
    facts.breaches += batches.timestamp_breaches()
    is_control = holds_control(table)
    if is_control.any():
        # Control records are decoded again, because their bytes are checked.
        controls = table[is_control]
        for columns in run.columns(controls, budgets):
            facts.breaches += control_breaches(controls, columns)
    keyless = ((summaries["without_key"] > 0) & ~is_control).nonzero()[0]
    if len(keyless):
        facts.keyless = int(summaries["first_without_key"][keyless[0]])
    return facts


def _of_problem(run: BatchRun, problem: BatchProblem) -> Breach:
    batch = run.table[problem.row]
    sentence = f"{problem.detail}, in the batch at byte {batch['position']}"
    if problem.record_index > 0:
        sentence += f" after {problem.record_index} good records"
    return Breach.of(_RULES[problem.code], batch, sentence, recordsBefore=problem.record_index)


class _Batches:
    """Batches of a run with records, with the summaries of their records.

    Args:
        table: all batches of the run.
        summaries: of each batch.
        rows: rows of the batches with records.
        broken: rows of the batches that cannot be decoded completely.
    """

    def __init__(self, table: Table, summaries: Table, rows: Table, broken: set[int]) -> None:
        self._table = table
        self._summaries = summaries
        self._rows = rows
        self._broken = broken

    def offset_breaches(self) -> Iterator[Breach]:
        """Find offsets that do not ascend, or are outside their batch. A legacy wrapper states its last offset."""
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
        """Find batches with a max timestamp other than their records', and timestamps below -1."""
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
                f"the batch at byte {batch['position']} states max timestamp {stated[row]},"
                f" but its records' largest is {largest[row]}",
                expected=int(largest[row]),
                found=int(stated[row]),
            )
        below = found["smallest_timestamp"] < NO_TIMESTAMP
        for row in self._rows[below[self._rows]]:
            batch = table[row]
            yield Breach.of(
                "timestamp-negative",
                batch,
                f"the batch at byte {batch['position']} has a timestamp below -1",
            )
