"""JSON lines of a dump with a mask: records without what the policy hides, batches without checksums.

A records file of no topic that its folder names is masked whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from engine import kernel
from engine.budgets import MiB
from engine.columns.batch_table import BatchProblem, Problem
from engine.files.file_names import FileKind
from engine.json_facts import facts_of
from engine.lines.dump_text import timestamp_label
from engine.log.segment.scan import Damage
from engine.topics.topic_names import CLUSTER_METADATA
from kafkafs.dump.dump_file import DumpFile
from kafkafs.dump.dump_items import DumpItem, Tally
from kafkafs.dump.dump_options import DumpOptions
from kafkafs.dump.json_lines import JsonAround, JsonForm, batch_facts, error_line, json_line
from kafkafs.dump.records.log_batches import ShownBatches, rows_within
from kafkafs.masking.line_mask import AFTER_HEADERS, LineMask
from kafkafs.records.line_texts import line_texts

_ENOUGH = 8 * MiB


class MaskedJsonForm(JsonForm):
    """See DumpForm. Files of topics without a mask are as in JsonForm."""

    def around(self, file: DumpFile) -> JsonAround:
        """Return a maker of the lines around the batches."""
        mask = mask_of(file, self.options)
        return super().around(file) if mask is None else MaskedAround(file, self.options, mask)

    def batches(self, file: DumpFile, batches: ShownBatches) -> Iterator[DumpItem]:
        """Yield the lines of batches and their records."""
        mask = mask_of(file, self.options)
        if mask is None:
            return super().batches(file, batches)
        return _MaskedBatches(file, self.options, mask).items(batches)


class MaskedAround(JsonAround):
    """Lines of one masked records file apart from its batches."""

    def __init__(self, file: DumpFile, options: DumpOptions, mask: LineMask) -> None:
        super().__init__(file, options)
        self._mask = mask

    def lost_bytes(self, damage: Damage, end: int) -> list[DumpItem]:
        """Return the error line of bytes without a batch: their place and kind."""
        if not super().lost_bytes(damage, end):
            return []
        facts = facts_of(damage, "position length kind first_offset last_offset")
        line = error_line(self.file.shown, self._mask.damage(facts))
        return [line, Tally(findings=not damage.kind.is_quiet)]


def mask_of(file: DumpFile, options: DumpOptions) -> LineMask | None:
    """Return the mask of a records file; None if it is shown as it is."""
    assert options.mask is not None
    topic = file.topic if file.kind is FileKind.LOG else CLUSTER_METADATA
    return options.mask.mask(topic) if topic else options.mask.drops_all()


class _MaskedBatches:
    """Maker of the lines of batches of one masked file."""

    def __init__(self, file: DumpFile, options: DumpOptions, mask: LineMask) -> None:
        self._file = file
        self._options = options
        self._mask = mask
        topic = file.topic if file.kind is FileKind.LOG else CLUSTER_METADATA
        schemas = None if options.schemas is None else options.schemas.decoder(topic)
        self._lines = kernel.LineOptions(topic, 0, decode_with=schemas, mask=mask)

    def items(self, batches: ShownBatches) -> Iterator[DumpItem]:
        """Yield lines of batches and records, as far as they are in the range of the file."""
        first, last = self._file.shown_offsets
        findings = 0
        for row in np.flatnonzero(rows_within(batches.table, first, last)).tolist():
            fields = batches.table[row]
            facts = batch_facts(fields)
            del facts["crc"]
            yield json_line("batch", self._file.shown, facts)
            columns = batches.decoded(row, row + 1, self._options.budgets, _ENOUGH)
            head = {"batchPosition": int(fields["position"])}
            texts = line_texts(batches.readable, columns, self._lines, bare=True)
            lines = (line for text in texts for line in text.split(b"\n")[:-1])
            for index, line in enumerate(lines):
                offset = int(columns.offset[index])
                if first <= offset <= last:
                    place = {
                        **head,
                        "index": index,
                        "offset": offset,
                        "timestamp": int(columns.timestamp[index]),
                        "sequence": int(columns.sequence[index]),
                        "timestampType": timestamp_label(fields),
                    }
                    yield self._line(place, line)
            for problem in columns.problems:
                findings += 1
                yield self._problem(problem, fields)
        yield Tally(findings=findings)

    def _line(self, place: dict[str, Any], line: bytes) -> bytes:
        """Return the line of a record: its place, and the fields of its masked record line."""
        start = json_line("record", self._file.shown, place).removesuffix(b"}\n")
        return start + self._mask.end(line, AFTER_HEADERS)

    def _problem(self, problem: BatchProblem, row: np.void) -> bytes:
        facts = {
            "position": int(row["position"]),
            "length": int(row["size"]),
            "kind": Problem(problem.code).name.lower(),
            "record": problem.record_index,
        }
        return error_line(self._file.shown, self._mask.damage(facts))
