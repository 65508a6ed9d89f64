"""What a task does: the records of one split as Arrow record batches, and a row for each hole if wanted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from engine import kernel
from engine.errors import CorruptRecordError, SourceError
from engine.internal_topics.topics import decoder_for
from engine.log.log_directory import open_source
from engine.log.log_segment import LogSegment
from engine.log.log_view import LogView
from engine.log.scan import BatchRun, Damage
from engine.log.transactions import Fate
from engine.record.attributes import CONTROL_MASK
from engine.record.batch_table import BatchProblem
from kafkafs.decode.error_line import QUIET_KINDS, damage_facts, problem_facts
from kafkafs.spark.arrow_rows import Indices, Rows, record_batches
from kafkafs.spark.errors import could_not_read
from kafkafs.spark.options import ReadOptions
from kafkafs.spark.splits import Split


class SplitReader:
    """Reads splits of one query.

    Args:
        schema: of the record batches.
        options: of the query.
    """

    def __init__(self, schema: pa.Schema, options: ReadOptions) -> None:
        self._schema = schema
        self._options = options
        self._key_pattern = (
            None if options.key_pattern is None else re.compile(options.key_pattern.encode())
        )

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The wanted records of a split, and its holes where `onCorrupt` says row.

        Raises:
            DataLossError: the segment is gone, or damaged, and that is to fail.
        """
        try:
            view = next(iter(open_source(split.source).partitions().values())).view(0)
            segment = view.segments.get(split.segment)
            if segment is not None and segment.identity == split.identity:
                for item in segment.scan(
                    split.position, split.end_position, next_offset=split.next_offset
                ):
                    yield from self._item(view, segment, split, item)
                return
            # Another file by now: its bytes lie elsewhere, its offsets do not.
            start, stop = split.wanted
            moved = replace(split, start=start, stop=stop)
            for segment, item in view.runs(start, stop):
                yield from self._item(view, segment, moved, item)
        except (FileNotFoundError, SourceError) as error:
            if self._options.fail_on_data_loss:
                raise could_not_read(
                    split.partition, *split.wanted, f"segment {split.segment} is gone: {error}"
                ) from error

    def _item(
        self, view: LogView, segment: LogSegment, split: Split, item: BatchRun | Damage
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(item, Damage):
            return self._hole(split, item)
        return self._run(view, segment, split, item)

    def _run(
        self, view: LogView, segment: LogSegment, split: Split, run: BatchRun
    ) -> Iterator[pa.RecordBatch]:
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
        row = 0
        while row < len(table):
            columns = kernel.decode(
                run.buffer,
                table,
                row,
                len(table),
                start_position=run.start_position,
                budgets=self._options.budgets,
            )
            indices = self._indices(columns, split)
            decoder = decoder_for(split.partition.topic) if self._options.decode else None
            yield from record_batches(
                self._schema,
                Rows(split.partition, split.segment, columns, table, fates, indices, decoder),
            )
            for problem in columns.problems:
                yield from self._problem(split, problem, table[problem.row], segment.path)
            row = columns.next_row

    def _indices(self, columns: kernel.Columns, split: Split) -> Indices:
        offsets = columns.offset
        keep = (offsets >= split.start) & (offsets < split.stop)
        indices = np.flatnonzero(keep)
        key, pattern = self._options.key, self._key_pattern
        if key is not None:
            indices = indices[columns.key_size[indices] == len(key)]
            same = [columns.key(index) == key for index in indices.tolist()]
            indices = indices[np.array(same, bool)]
        if pattern is not None:
            found = [
                pattern.search(columns.key(index) or b"") is not None for index in indices.tolist()
            ]
            indices = indices[np.array(found, bool)]
        return indices

    def _hole(self, split: Split, damage: Damage) -> Iterator[pa.RecordBatch]:
        if damage.kind in QUIET_KINDS or not damage.skipped:
            return
        start, stop = split.wanted
        if damage.first_offset is not None and damage.first_offset >= stop:
            return
        if damage.last_offset is not None and damage.last_offset < start:
            return
        yield from self._corrupt(split, damage_facts(damage))

    def _problem(
        self, split: Split, problem: BatchProblem, row: np.void, path: str
    ) -> Iterator[pa.RecordBatch]:
        yield from self._corrupt(split, problem_facts(problem, row, path))

    def _corrupt(self, split: Split, facts: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        if self._options.on_corrupt == "fail":
            raise CorruptRecordError(
                f"{facts['reason']} (option onCorrupt=skip or row reads what is good)",
                path=facts["file"],
                position=facts["position"],
                expected=facts.get("expected"),
                found=facts.get("found"),
            )
        if self._options.on_corrupt == "row":
            known = {
                "topic": split.partition.topic,
                "partition": split.partition.partition,
                "offset": facts.get("firstOffset"),
                "segment": split.segment,
                "batchPosition": facts.get("position"),
                "_corrupt": json.dumps(facts),
            }
            yield pa.RecordBatch.from_pylist(
                [{name: known.get(name) for name in self._schema.names}], schema=self._schema
            )
