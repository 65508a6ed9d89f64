"""Records of one split as Arrow record batches, with a row for each hole if wanted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from engine import kernel
from engine.columns.batch_table import BatchProblem
from engine.log.log_view import LogView
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, Damage, Disorder
from engine.record.attributes import CONTROL_MASK
from engine.record.fate import Fate
from engine.topics.internal_topics import decoder_for
from kafkafs.decode.error_line import damage_facts, problem_facts
from kafkafs.table.arrow_rows import (
    Indices,
    Rows,
    one_row,
    record_batches,
    rows_without_columns,
)
from kafkafs.table.header_facts import countable, records_in
from kafkafs.table.key_filter import RowFilter
from kafkafs.table.row_options import RowOptions
from kafkafs.table.split_scan import corruption, in_full, is_hole, scan_split
from kafkafs.table.splits import Split


class RecordRows:
    """The records of splits, a row for each.

    Args:
        schema: schema of the record batches.
        options: see `RowOptions`.
        wanted: filter on the records; None for every record.
    """

    def __init__(
        self, schema: pa.Schema, options: RowOptions, wanted: RowFilter | None = None
    ) -> None:
        self._schema = schema
        self._options = options
        self._wanted = wanted
        self._counts_only = not schema.names and wanted is None

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the wanted records of a split, and its holes with `on_corrupt` "row".

        Raises:
            LostRecordsError: the segment is gone, and `fail_on_data_loss` is true.
            CorruptRecordError: the segment is damaged, and `on_corrupt` is fail.
            TimestampRangeError: a timestamp overflows microseconds.
        """
        for view, segment, part, item in scan_split(
            split, fail_on_data_loss=self._options.fail_on_data_loss
        ):
            if isinstance(item, BatchRun):
                yield from self._run(view, segment, part, item)
            else:
                yield from self._hole(part, item)

    def _run(
        self, view: LogView, segment: LogSegment, split: Split, run: BatchRun
    ) -> Iterator[pa.RecordBatch]:
        if self._wanted is not None:
            run = self._wanted.narrowed(run)
            if not len(run.table):
                return
        table = run.table
        wanted = (table["attributes"] & CONTROL_MASK == 0) | (table["magic"] < 2)
        wanted &= table["last_offset"] >= split.start
        wanted &= (table["base_offset"] < split.stop) | (table["magic"] < 2)
        fates = view.fates(segment, run)
        if fates is not None and self._options.committed:
            wanted &= fates != Fate.ABORTED
        if not wanted.all():
            table = table[wanted]
            fates = None if fates is None else fates[wanted]
        if self._counts_only:
            # Headers suffice, except for batches across a bound of the range.
            known = countable(split, table, self._options.budgets)
            count = records_in(table[known])
            if count:  # PySpark infers another schema from a batch without columns and rows
                yield rows_without_columns(count)
            table = table[~known]
            fates = None
        for columns in run.columns(table, self._options.budgets):
            indices = self._indices(columns, split)
            decoder = decoder_for(split.partition.topic) if self._options.decode else None
            yield from record_batches(
                self._schema,
                Rows(split.partition, split.segment, columns, table, fates, indices, decoder),
            )
            for problem in columns.problems:
                yield from self._problem(split, problem, table[problem.row], segment.path)

    def _indices(self, columns: kernel.Columns, split: Split) -> Indices:
        offsets = columns.offset
        indices = np.flatnonzero((offsets >= split.start) & (offsets < split.stop))
        return indices if self._wanted is None else self._wanted.matching(columns, indices)

    def _hole(self, split: Split, damage: Damage | Disorder) -> Iterator[pa.RecordBatch]:
        if is_hole(split, damage, on_corrupt=self._options.on_corrupt):
            yield from self._corrupt(split, damage_facts(damage))

    def _problem(
        self, split: Split, problem: BatchProblem, row: np.void, path: str
    ) -> Iterator[pa.RecordBatch]:
        facts = problem_facts(problem, row, path)
        base, last = int(row["base_offset"]), int(row["last_offset"])
        first = base if facts["firstOffset"] is None else facts["firstOffset"]
        # Only one of two tasks reports a batch across their border.
        is_wanted = first < split.stop and last >= split.start
        if is_wanted and (first >= split.start or split.is_first):
            yield from self._corrupt(split, facts)

    def _corrupt(self, split: Split, facts: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        facts = in_full(split, facts)
        if self._options.on_corrupt == "fail":
            raise corruption(facts)
        if self._options.on_corrupt == "row":
            known = {
                "topic": split.partition.topic,
                "partition": split.partition.partition,
                "offset": facts.get("firstOffset"),
                "segment": split.segment,
                "batchPosition": facts.get("position"),
                "_corrupt": json.dumps(facts),
            }
            yield one_row(self._schema, known)
