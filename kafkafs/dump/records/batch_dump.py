"""Text of batches and their records, as DumpLogSegments prints it.

The kernel writes runs of batches whose records are plain; Python writes the others one by one: control records,
messages of magic 0 and 1, records of decoded topics.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine import kernel
from engine.budgets import MiB
from engine.columns.batch_table import BatchProblem, holds_control
from engine.columns.columns import Column, Columns
from engine.lines.dump_text import (
    DumpShape,
    batch_text,
    record_contents,
    record_metadata,
    timestamp_label,
)
from engine.log.segment.damage import DamageKind
from engine.log.segment.scan import Damage
from engine.units import Offset
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_items import Complaint, DumpItem, Followed, Tally, text_line
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.records.decoded import DecodedText, decoded_text
from kafkafs.dump.records.large_batches import dump_pieces, is_large
from kafkafs.dump.records.log_batches import ShownBatches, rows_within
from kafkafs.dump.records.log_sentences import problem_sentence
from kafkafs.dump.records.record_parts import (
    LegacyRecord,
    control_part,
    legacy_records,
    legacy_text,
    shown,
)

_ENOUGH = 2 * MiB
"""Decoded bytes at a time; their text may be several times as large."""


class BatchDump:
    """Maker of the text of one records file's batches; safe from several threads."""

    def __init__(self, file: DumpFile, options: DumpOptions) -> None:
        self.file = file
        self.options = options
        self.first, self.last = file.shown_offsets
        self.shape = 0 if options.skip_record_metadata else int(DumpShape.METADATA)
        if options.prints_contents:
            self.shape |= DumpShape.CONTENTS

    def items(self, batches: ShownBatches) -> Iterator[DumpItem]:
        """Yield the items of the batches that have offsets of the selected range."""
        if self.file.first is not None or self.file.last is not None:
            mask = rows_within(batches.table, self.first, self.last)
            if not mask.any():
                return
            if not mask.all():
                table, readable = batches.table[mask], batches.readable[mask]
                batches = batches._replace(table=table, readable=readable)
        if batches.damage is not None:
            yield self._note_bad(batches.damage, int(batches.table["size"][0]))
        if not self.options.is_deep:
            text, _ = kernel.dump_rows(
                batches.table, 0, len(batches.table), None, shape=DumpShape.BATCHES
            )
            yield text
            return
        for first, last, is_plain in self._row_runs(batches):
            if is_plain:
                yield from self._plain(batches, first, last)
            else:
                for row in range(first, last):
                    yield from self._apart(batches, row)

    def _note_bad(self, damage: Damage, size: int) -> DumpItem:
        """Return the item about a damaged batch; its own line already shows a wrong checksum."""
        where = f"in {self.file.shown} at byte {damage.position}"
        if damage.kind is not DamageKind.CRC_MISMATCH:
            return Complaint(f"{damage.reason} {where}")
        if size > damage.length:
            return Complaint(
                f"the batch states {size} bytes, the next one begins after {damage.length} {where}"
            )
        return Tally(findings=1)

    def _problem(self, problem: BatchProblem, position: int) -> Complaint:
        return Complaint(problem_sentence(problem, self.file.shown, position))

    def _row_runs(self, batches: ShownBatches) -> Iterator[tuple[int, int, bool]]:
        """Yield runs of rows as (first, end, whether the kernel writes them)."""
        table = batches.readable
        plain = (table["magic"] == 2) & ~holds_control(table)
        if self.options.decoder is not None:
            plain[:] = False
        edges = (np.flatnonzero(plain[1:] != plain[:-1]) + 1).tolist()
        first = 0
        for last in (*edges, len(table)):
            yield first, last, bool(plain[first])
            first = last

    def _decoded(
        self, batches: ShownBatches, first: int, last: int
    ) -> Iterator[tuple[Columns, int]]:
        """Yield the records of rows [first, last), some rows at a time, with the next row."""
        while first < last:
            columns = batches.decoded(first, last, self.options.budgets, _ENOUGH)
            first = columns.next_row
            yield columns, first

    def _plain(self, batches: ShownBatches, first: int, last: int) -> Iterator[DumpItem]:
        shape = self.shape | DumpShape.BATCHES
        for columns, after in self._decoded(batches, first, last):
            at = 0
            if is_large(columns):
                yield from self._large(batches, columns, first, after)
                first = after
                yield from self._followed(columns.offset)
                continue
            for problem in (*columns.problems, None):
                stop = after if problem is None else problem.row + 1
                text, at = kernel.dump_rows(
                    batches.table,
                    first,
                    stop,
                    columns,
                    shape=shape,
                    from_offset=self.first,
                    upto_offset=self.last,
                    first_record=at,
                )
                yield text
                if problem is not None:
                    yield self._problem(problem, int(batches.table["position"][problem.row]))
                first = stop
            yield from self._followed(columns.offset)

    def _large(
        self, batches: ShownBatches, columns: Columns, first: int, after: int
    ) -> Iterator[DumpItem]:
        """Yield rows in pieces; a batch among them takes much memory."""
        problems = {problem.row: problem for problem in columns.problems}
        for row in range(first, after):
            yield from dump_pieces(
                batches.table,
                row,
                columns,
                shape=self.shape | DumpShape.BATCHES,
                first=self.first,
                last=self.last,
            )
            if row in problems:
                yield self._problem(problems[row], int(batches.table["position"][row]))

    def _apart(self, batches: ShownBatches, row: int) -> Iterator[DumpItem]:
        """Yield a batch that Python formats: control records, old magics, decoded topics."""
        fields = batches.table[row]
        yield text_line(batch_text(fields))
        if int(fields["magic"]) < 2:
            yield from self._legacy(batches, row, fields)
            return
        for columns, _ in self._decoded(batches, row, row + 1):
            yield from self._records(columns, fields)
            for problem in columns.problems:
                yield self._problem(problem, int(fields["position"]))

    def _records(self, columns: Columns, row: np.void) -> Iterator[DumpItem]:
        lines, complaints = [], []
        is_control = holds_control(row)
        for index in range(len(columns)):
            offset = int(columns.offset[index])
            if not self.first <= offset <= self.last:
                continue
            key, value = columns.key(index), columns.value(index)
            text, complaint = b"", ""
            if self.shape & DumpShape.METADATA:
                text = record_metadata(row, columns.table[index], columns.headers(index))
                if is_control:
                    part, complaint = control_part(key, value)
                    text += part
            if self.shape & DumpShape.CONTENTS and not is_control:
                found = self._contents(offset, key, value)
                complaint = found.complaint
                text += record_contents(found.key, found.payload, is_alone=not text)
            lines.append(text + b"\n")
            if complaint:
                complaints.append(f"{complaint} in {self.file.shown} at offset {offset}")
        yield b"".join(lines)
        yield from map(Complaint, complaints)
        yield from self._followed(columns.offset)

    def _contents(self, offset: Offset, key: bytes | None, value: bytes | None) -> DecodedText:
        if self.options.decoder is None:
            return DecodedText(shown(key), shown(value))
        return decoded_text(self.options.decoder, offset, key, value)

    def _legacy(self, batches: ShownBatches, row: int, fields: np.void) -> Iterator[DumpItem]:
        label = timestamp_label(fields)
        offsets = []
        for record in legacy_records(batches, row, self.options.budgets):
            if isinstance(record, BatchProblem):
                yield self._problem(record, int(fields["position"]))
                continue
            offsets.append(record.offset)
            if self.first <= record.offset <= self.last:
                yield from self._legacy_record(record, label)
        yield from self._followed(np.array(offsets, np.int64))

    def _legacy_record(self, record: LegacyRecord, label: str) -> Iterator[DumpItem]:
        text = legacy_text(record, label) if self.shape & DumpShape.METADATA else b""
        complaint = ""
        if self.shape & DumpShape.CONTENTS:
            found = self._contents(record.offset, record.key, record.value)
            complaint = found.complaint
            text += record_contents(found.key, found.payload, is_alone=not text)
        yield text + b"\n"
        if complaint:
            yield Complaint(f"{complaint} in {self.file.shown} at offset {record.offset}")

    def _followed(self, offsets: Column) -> Iterator[Followed]:
        """Yield the offsets of the selected range, if there are some."""
        offsets = offsets[(offsets >= self.first) & (offsets <= self.last)]
        if not len(offsets):
            return
        before, after = offsets[:-1], offsets[1:]
        with np.errstate(over="ignore"):
            places = np.flatnonzero(after != before + 1)
        gaps = list(zip(before[places].tolist(), after[places].tolist(), strict=True))
        yield Followed(self.file.absolute, int(offsets[0]), int(offsets[-1]), gaps)
