"""From bytes of a records file to lines of text: good batches by the kernel, damage as error lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from engine import kernel
from engine.budgets import Budgets, MiB
from engine.log.log_segment import LogSegment
from engine.log.log_view import LogView
from engine.log.scan import CHUNK, BatchRun, Damage, scan
from engine.record.lines_result import NO_BOUND
from engine.source_files import SourceFile
from engine.units import Offset, Position
from kafkafs.decode.error_line import QUIET_KINDS, error_line, problem_line
from kafkafs.decode.failures import ChangedFileError
from kafkafs.decode.line_chunks import Chunk

_MOST_READ = 4 * MiB
_PIECE_TEXT = 512 * 1024

Fates: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]] | None"
"""What became of the transaction of each batch of a run; None when none is transactional."""


class Rendering(NamedTuple):
    """How a stream's text is made.

    Attributes:
        options: what of a record is written, and which offsets.
        budgets: for what is read.
    """

    options: kernel.LineOptions
    budgets: Budgets

    def scan(
        self,
        file: SourceFile,
        start: Position,
        end: Position,
        next_offset: Offset,
        chunk: int = CHUNK,
    ) -> Iterator[BatchRun | Damage]:
        """Good batches and damage of [start, end)."""
        expected = next_offset if next_offset >= 0 else None
        return scan(
            file, start, end, next_offset=expected, budgets=self.budgets, chunk=max(chunk, 1)
        )

    def lines(
        self,
        run: BatchRun,
        first_row: int,
        last_row: int,
        fates: Fates,
        *,
        first_record: int = 0,
        enough: int = 0,
        measure: bool = False,
    ) -> kernel.LinesResult:
        """The lines of some of a run's batches, or a piece of one: from a record on, until it is enough."""
        return kernel.lines(
            run.buffer, run.table, first_row, last_row, start_position=run.start_position,
            options=self.options, fates=fates, measure=measure, budgets=self.budgets,
            enough=enough or NO_BOUND, first_record=first_record,
        )  # fmt: skip

    def text(
        self, view: LogView, segment: LogSegment, start: Position, end: Position, expected: Offset
    ) -> Iterator[bytes]:
        """The text of [start, end) of a segment from front to end, in pieces of some hundred kB.

        For who reads it once and needs no size first: it is decoded once, and nothing is kept.
        """
        file = segment.file
        for item in self.scan(file, start, end, expected):
            if isinstance(item, Damage):
                if item.kind not in QUIET_KINDS:
                    yield error_line(item)
            else:
                yield from self._pieces(item, view.fates(segment, item), file.path)

    def _pieces(self, run: BatchRun, fates: Fates, path: str) -> Iterator[bytes]:
        row, first_record, count = 0, 0, len(run.table)
        while row < count:
            result = self.lines(
                run, row, count, fates, first_record=first_record, enough=_PIECE_TEXT
            )
            if result.text:
                yield result.text
            if result.problem is not None:
                yield problem_line(result.problem, run.table[result.problem.row], path)
            row += result.rows_done
            first_record = result.next_record

    def text_of(self, chunk: Chunk, file: SourceFile) -> bytes:
        """A chunk's text, decoded again.

        Raises:
            ChangedFileError: it does not come out as it was measured.
            OSError: the file cannot be read.
        """
        out: list[bytes] = []
        seen = 0
        read = min(chunk.end - chunk.start, _MOST_READ)
        for item in self.scan(file, chunk.start, chunk.scan_end, chunk.next_offset, read):
            if isinstance(item, Damage):
                if item.position >= chunk.end:
                    break
                if item.kind not in QUIET_KINDS:
                    out.append(error_line(item))
                continue
            run = _before(item, chunk.end)
            seen += len(run.table)
            if seen > chunk.rows:
                break  # more batches than were measured: told below
            fates = None
            if chunk.fates is not None:
                fates = np.frombuffer(chunk.fates, np.uint8)[seen - len(run.table) : seen]
            self._render(run, fates, file.path, chunk, out)
            if item.end_position >= chunk.end:
                break
        return _as_measured(b"".join(out), chunk, file)

    def _render(
        self, run: BatchRun, fates: Fates, path: str, chunk: Chunk, out: list[bytes]
    ) -> None:
        """Append a run's text; what keeps a batch from being decoded whole follows its records."""
        row, count = 0, len(run.table)
        while row < count:
            result = self.lines(
                run, row, count, fates, first_record=chunk.first_record, enough=chunk.piece_text
            )
            out.append(result.text or b"")
            if result.problem is not None:
                out.append(problem_line(result.problem, run.table[result.problem.row], path))
            if not chunk.is_whole:
                return
            row += result.rows_done


def _as_measured(text: bytes, chunk: Chunk, file: SourceFile) -> bytes:
    if len(text) != chunk.text_size:
        raise ChangedFileError(
            "the file has changed since it was opened",
            path=file.path,
            position=chunk.start,
            expected=f"{chunk.text_size} bytes of text",
            found=f"{len(text)} bytes",
        )
    return text


def _before(run: BatchRun, end: Position) -> BatchRun:
    """The batches of a run that start before a position."""
    if run.end_position <= end:
        return run
    return run._replace(table=run.table[run.table["position"] < end])
