"""Text of batches and their records, as DumpLogSegments prints it.

The kernel writes runs of batches whose records are plain; Python writes the others one by one: control records,
messages of magic 0 and 1, records of decoded topics.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from engine import kernel
from engine.budgets import MiB
from engine.columns.batch_table import BatchProblem
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
from engine.record.attributes import CONTROL_MASK
from engine.units import Offset
from kafkafs.dump.dump_file import DumpFile
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
from kafkafs.dump.report import DumpReport

_ENOUGH = 8 * MiB
"""Decoded bytes at a time; their text may be several times as large."""


class BatchDump:
    """Writer of the batches of one records file to a report, in file order."""

    def __init__(self, file: DumpFile, options: DumpOptions, report: DumpReport) -> None:
        self.file = file
        self.options = options
        self.report = report
        self.first, self.last = file.shown_offsets
        self.previous: Offset | None = None
        self.shape = 0 if options.skip_record_metadata else int(DumpShape.METADATA)
        if options.prints_contents:
            self.shape |= DumpShape.CONTENTS

    def write(self, batches: ShownBatches) -> None:
        """Write the batches that have offsets of the selected range."""
        if self.file.first is not None or self.file.last is not None:
            mask = rows_within(batches.table, self.first, self.last)
            if not mask.any():
                return
            if not mask.all():
                table, readable = batches.table[mask], batches.readable[mask]
                batches = batches._replace(table=table, readable=readable)
        if batches.damage is not None:
            self._note_bad(batches.damage, int(batches.table["size"][0]))
        if not self.options.is_deep:
            text, _ = kernel.dump_rows(
                batches.table, 0, len(batches.table), None, shape=DumpShape.BATCHES
            )
            self.report.out(text)
            return
        for first, last, is_plain in self._row_runs(batches):
            if is_plain:
                self._write_plain(batches, first, last)
            else:
                for row in range(first, last):
                    self._write_apart(batches, row)

    def _note_bad(self, damage: Damage, size: int) -> None:
        """Report a damaged batch; its own line already shows a wrong checksum."""
        where = f"in {self.file.shown} at byte {damage.position}"
        if damage.kind is not DamageKind.CRC_MISMATCH:
            self.report.complain(f"{damage.reason} {where}")
        elif size > damage.length:
            self.report.complain(
                f"the batch states {size} bytes, the next one begins after {damage.length} {where}"
            )
        else:
            self.report.findings += 1

    def _problem(self, problem: BatchProblem, position: int) -> None:
        self.report.complain(problem_sentence(problem, self.file.shown, position))

    def _row_runs(self, batches: ShownBatches) -> Iterator[tuple[int, int, bool]]:
        """Yield runs of rows as (first, end, whether the kernel writes them)."""
        table = batches.readable
        plain = (table["magic"] == 2) & ((table["attributes"] & CONTROL_MASK) == 0)
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
            columns = kernel.decode(
                batches.buffer,
                batches.readable,
                first,
                last,
                start_position=batches.start_position,
                budgets=self.options.budgets,
                enough=_ENOUGH,
            )
            first = columns.next_row
            yield columns, first

    def _write_plain(self, batches: ShownBatches, first: int, last: int) -> None:
        shape = self.shape | DumpShape.BATCHES
        for columns, after in self._decoded(batches, first, last):
            at = 0
            if is_large(columns):
                self._write_large(batches, columns, first, after)
                first = after
                self._follow(columns.offset)
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
                self.report.out(text)
                if problem is not None:
                    self._problem(problem, int(batches.table["position"][problem.row]))
                first = stop
            self._follow(columns.offset)

    def _write_large(self, batches: ShownBatches, columns: Columns, first: int, after: int) -> None:
        """Write rows in pieces; a batch among them takes much memory."""
        problems = {problem.row: problem for problem in columns.problems}
        for row in range(first, after):
            pieces = dump_pieces(
                batches.table,
                row,
                columns,
                shape=self.shape | DumpShape.BATCHES,
                first=self.first,
                last=self.last,
            )
            for piece in pieces:
                self.report.out(piece)
            if row in problems:
                self._problem(problems[row], int(batches.table["position"][row]))

    def _write_apart(self, batches: ShownBatches, row: int) -> None:
        """Write a batch that Python formats: control records, old magics, decoded topics."""
        fields = batches.table[row]
        self.report.line(batch_text(fields))
        if int(fields["magic"]) < 2:
            self._write_legacy(batches, row, fields)
            return
        for columns, _ in self._decoded(batches, row, row + 1):
            self._write_records(columns, fields)
            for problem in columns.problems:
                self._problem(problem, int(fields["position"]))

    def _write_records(self, columns: Columns, row: np.void) -> None:
        lines, complaints = [], []
        is_control = bool(int(row["attributes"]) & CONTROL_MASK)
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
        self.report.out(b"".join(lines))
        for each in complaints:
            self.report.complain(each)
        self._follow(columns.offset)

    def _contents(self, offset: Offset, key: bytes | None, value: bytes | None) -> DecodedText:
        if self.options.decoder is None:
            return DecodedText(shown(key), shown(value))
        return decoded_text(self.options.decoder, offset, key, value)

    def _write_legacy(self, batches: ShownBatches, row: int, fields: np.void) -> None:
        label = timestamp_label(fields)
        offsets = []
        for record in legacy_records(batches, row, self.options.budgets):
            if isinstance(record, BatchProblem):
                self._problem(record, int(fields["position"]))
                continue
            offsets.append(record.offset)
            if self.first <= record.offset <= self.last:
                self._write_legacy_record(record, label)
        self._follow(np.array(offsets, np.int64))

    def _write_legacy_record(self, record: LegacyRecord, label: str) -> None:
        text = legacy_text(record, label) if self.shape & DumpShape.METADATA else b""
        complaint = ""
        if self.shape & DumpShape.CONTENTS:
            found = self._contents(record.offset, record.key, record.value)
            complaint = found.complaint
            text += record_contents(found.key, found.payload, is_alone=not text)
        self.report.out(text + b"\n")
        if complaint:
            self.report.complain(f"{complaint} in {self.file.shown} at offset {record.offset}")

    def _follow(self, offsets: Column) -> None:
        """Report offsets that do not follow the one before them."""
        offsets = offsets[(offsets >= self.first) & (offsets <= self.last)]
        if not len(offsets):
            return
        before = np.empty_like(offsets)
        before[1:] = offsets[:-1]
        # The first record of a file has no predecessor.
        before[0] = offsets[0] - 1 if self.previous is None else self.previous
        with np.errstate(over="ignore"):
            places = np.flatnonzero(offsets != before + 1)
        if len(places):
            pairs = zip(before[places].tolist(), offsets[places].tolist(), strict=True)
            self.report.gaps(self.file.absolute, pairs)
        self.previous = int(offsets[-1])
