"""Make text from a records file: the kernel makes lines of good batches, damage becomes error lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from engine import kernel
from engine.arrays import np
from engine.budgets import Budgets, MiB
from engine.columns.batch_table import BatchProblem
from engine.files.source_files import SourceFile
from engine.lines.lines_result import NO_BOUND
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.ordered_scan import scan_in_order
from engine.log.segment.resync import OffsetBounds
from engine.log.segment.scan import CHUNK, BatchRun, Damage, ScanItem
from engine.log.view.log_view import LogView
from engine.memory_gate import LARGE
from engine.record.fate import Fates
from engine.units import MAX_INT64, Offset, Position
from kafkafs.decode.batch_lines import BatchLines
from kafkafs.decode.error_line import add_problem, error_line, problem_line
from kafkafs.decode.failures import ChangedFileError
from kafkafs.decode.line_chunks import TextChunk

_MOST_READ = 4 * MiB
_PIECE_TEXT = 512 * 1024
"""Bytes of text that are made at once for a reader that keeps none."""

Note: TypeAlias = "Callable[[BatchProblem, np.void], object]"
"""Called with a batch that cannot be decoded completely."""


def _no_note(problem: BatchProblem, batch: np.void) -> None:
    """Do nothing: the problem was noted in the measuring pass."""


class Rendering(NamedTuple):
    """Options for the text of a stream.

    Attributes:
        options: the content of lines, and their offset range.
        budgets: bounds for reading.
        within: the offsets [first, next) whose losses have error lines.
        place: adds to damage the places that may still hold its records, always the same for the same damage.
    """

    options: kernel.LineOptions
    budgets: Budgets
    within: tuple[Offset, Offset] = (0, MAX_INT64)
    place: Callable[[Damage], Damage] = lambda damage: damage

    def scan(
        self,
        file: SourceFile,
        start: Position,
        end: Position,
        next_offset: Offset,
        bounds: OffsetBounds,
        chunk: int = CHUNK,
    ) -> Iterator[ScanItem]:
        """Yield good batches and damage of [start, end) of a segment with these offsets."""
        expected = next_offset if next_offset >= 0 else None
        return scan_in_order(
            file,
            start,
            end,
            bounds=bounds,
            next_offset=expected,
            budgets=self.budgets,
            chunk=max(chunk, 1),
        )

    def lines(
        self,
        run: BatchRun,
        first_row: int,
        last_row: int,
        fates: Fates,
        *,
        enough: int = 0,
        measure: bool = False,
    ) -> kernel.LinesResult:
        """Make the lines of a run's batches up to a large one, or up to `enough` bytes."""
        return kernel.lines(
            run.buffer,
            run.table,
            first_row,
            last_row,
            start_position=run.start_position,
            options=self.options,
            fates=fates,
            measure=measure,
            budgets=self.budgets,
            enough=enough or NO_BOUND,
            most=LARGE,
        )

    def large(self, run: BatchRun, row: int, fates: Fates, path: str) -> BatchLines:
        """Return a large batch of a run, for lines in pieces."""
        return BatchLines(
            run,
            row,
            options=self.options,
            fate=0 if fates is None else int(fates[row]),
            budgets=self.budgets,
            path=path,
        )

    def text(
        self, view: LogView, segment: LogSegment, item: ScanItem, enough: int = _PIECE_TEXT
    ) -> Iterator[bytes]:
        """Yield the text of an item of a segment's scan, in pieces of about `enough` bytes.

        For reading once without a size: everything is decoded once, and nothing is kept. Several threads may make
        the text of several items.
        """

        def noted(problem: BatchProblem, batch: np.void) -> None:
            add_problem(view.log.problems, segment.path, problem, batch)

        if isinstance(item, BatchRun):
            # Imported here: a look-up needs none of it.
            from kafkafs.records.visible import fates_of

            fates = fates_of(view, segment, item)
            yield from self._pieces(item, fates, segment.file.path, enough, noted)
        elif not item.is_quiet:
            yield error_line(item, self.options.mask)

    def _pieces(
        self, run: BatchRun, fates: Fates, path: str, enough: int, note: Note = _no_note
    ) -> Iterator[bytes]:
        """Yield the text of a run in pieces of about `enough` bytes."""
        row, count = 0, len(run.table)
        while row < count:
            result = self.lines(run, row, count, fates, enough=enough)
            if result.text:
                yield result.text
            if result.problem is not None:
                batch = run.table[result.problem.row]
                note(result.problem, batch)
                yield problem_line(result.problem, batch, path, self.options.mask)
            row += result.rows_done
            if result.is_large or result.next_record:
                with self.large(run, row, fates, path) as batch:
                    for piece in batch.pieces(result.next_record):
                        yield piece.text or b""
                    for problem in batch.problems:
                        note(problem, run.table[row])
                row += 1

    def text_of(
        self, chunk: TextChunk, file: SourceFile, bounds: OffsetBounds
    ) -> bytes | memoryview:
        """Decode a chunk's text again.

        Args:
            chunk: what was measured.
            file: its records file.
            bounds: offsets of its segment.

        Raises:
            ChangedFileError: the text differs in size from the measured one.
            OSError: the file cannot be read.
        """
        if chunk.is_error_line:
            return chunk.fates or b""
        text = self._plain_text_of(chunk, file)
        return self._any_text_of(chunk, file, bounds) if text is None else text

    def _plain_text_of(self, chunk: TextChunk, file: SourceFile) -> memoryview | None:
        """Decode a chunk of good batches in one call of the kernel; None if it holds anything else."""
        if not chunk.is_whole or chunk.end - chunk.start > _MOST_READ or file.unreadable:
            return None
        file.reach(chunk.start, chunk.end, chunk.end - chunk.start)
        return kernel.read_lines(
            file.descriptor,
            chunk.start,
            chunk.end,
            chunk.rows,
            chunk.text_size,
            options=self.options,
            least_offset=chunk.next_offset,
            fates=None if chunk.fates is None else np.frombuffer(chunk.fates, np.uint8),
            budgets=self.budgets,
            most=LARGE,
        )

    def _any_text_of(self, chunk: TextChunk, file: SourceFile, bounds: OffsetBounds) -> bytes:
        out: list[bytes] = []
        seen = 0
        read = min(chunk.end - chunk.start, _MOST_READ)
        for item in self.scan(file, chunk.start, chunk.scan_end, chunk.next_offset, bounds, read):
            if not isinstance(item, BatchRun):
                if item.position >= chunk.end:
                    break
                if not item.is_quiet:
                    placed = self.place(item) if isinstance(item, Damage) else item
                    out.append(error_line(placed, self.options.mask))
                continue
            run = _before(item, chunk.end)
            seen += len(run.table)
            if seen > chunk.rows:
                break  # more batches than were measured: `_as_measured` raises
            fates = None
            if chunk.fates is not None:
                fates = np.frombuffer(chunk.fates, np.uint8)[seen - len(run.table) : seen]
            if chunk.is_whole:
                # In one piece: its size is known, and a batch cut by a piece's end would be decoded twice.
                out += self._pieces(run, fates, file.path, chunk.text_size)
            else:
                out += self._piece(run, fates, file.path, chunk)
            if item.end_position >= chunk.end:
                break
        return _as_measured(b"".join(out), chunk, file)

    def _piece(self, run: BatchRun, fates: Fates, path: str, chunk: TextChunk) -> Iterator[bytes]:
        """Yield the text of a chunk that is a piece of one batch."""
        size = 0
        with self.large(run, 0, fates, path) as batch:
            for piece in batch.pieces(chunk.first_record, chunk.skip):
                yield piece.text or b""
                size += piece.size
                if size >= chunk.text_size:
                    return


def _as_measured(text: bytes, chunk: TextChunk, file: SourceFile) -> bytes:
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
    """Return the batches of a run that start before a position."""
    if run.end_position <= end:
        return run
    return run.with_table(run.table[run.table["position"] < end])
