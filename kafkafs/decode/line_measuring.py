"""The measuring pass over a part of a stream: the size of its text, and marks to decode it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.arrays import np
from engine.budgets import MiB
from engine.columns.batch_table import BatchProblem
from engine.files.source_files import SourceFile
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.problems import Problems
from engine.log.segment.scan import BatchRun, Damage
from engine.log.view.log_view import LogView
from engine.record.fate import Fate, Fates
from engine.units import Offset, Position
from kafkafs.decode.batch_lines import TextPiece
from kafkafs.decode.error_line import (
    add_problem,
    damage_facts,
    error_line,
    problem_facts,
    problem_line,
    shown_facts,
)
from kafkafs.decode.failures import Cancelled
from kafkafs.decode.line_chunks import ERROR_LINE, ChunkTable, TextChunk
from kafkafs.decode.line_rendering import Rendering

CHUNK_TEXT = 512 * 1024
"""Bytes of text after which a chunk ends."""
GROUP_TEXT = 256 * 1024
"""Bytes of text per call of the kernel."""
LARGE_TEXT = 4 * 1024 * 1024
"""A batch with more text than this is cut into several chunks."""
PIECE_TEXT = 12 * MiB
"""Bytes of text per chunk of such a batch. Each chunk decodes the whole batch, and is whole in memory."""
JOINED_TEXT = 64 * 1024
"""A last chunk below this size is continued when the stream grows."""
MOST_FACTS = 16


class Findings:
    """Results of measuring a stream, besides sizes.

    Attributes:
        damage, damage_count: facts of the first damaged places, and the number of all.
        has_open: the transaction of some record was open.
        is_clean_end: the last item of the scan was a good batch.
        last_head: position and first bytes, with the checksum, of the last good batch.
        ratio: recent bytes of text per byte on disk.
    """

    def __init__(self) -> None:
        self.damage: list[dict[str, Any]] = []
        self.damage_count = 0
        self.has_open = False
        self.is_clean_end = True
        self.last_head: tuple[Position, bytes] = 0, b""
        self.ratio = 4.0

    def note(self, facts: dict[str, Any]) -> None:
        """Count a damaged place."""
        self.damage_count += 1
        if len(self.damage) < MOST_FACTS:
            self.damage.append(facts)


class PartMeasuring:
    """Measures the rest of one part into a chunk table. Used once, by one thread.

    Attributes:
        position, next_offset: end of the complete chunks.
    """

    def __init__(
        self,
        rendering: Rendering,
        chunks: ChunkTable,
        findings: Findings,
        part: int,
        start: Position,
        end: Position,
        next_offset: Offset,
    ) -> None:
        self._rendering = rendering
        self._mask = rendering.options.mask
        self._chunks = chunks
        self._findings = findings
        self._part = part
        self._cancel: Callable[[], bool] | None = None
        self._problems = Problems()
        self._file = ""
        self._scan_end = end
        self.position = start
        self.next_offset = next_offset
        self._seen_offset = next_offset
        self._begin(start, next_offset)
        self._continue_last(start)

    def run(
        self,
        view: LogView,
        segment: LogSegment,
        file: SourceFile,
        cancel: Callable[[], bool] | None,
    ) -> None:
        """Measure to the end of the part. Raises Cancelled, OSError."""
        self._cancel = cancel
        self._problems, self._file = view.log.problems, segment.path
        rendering, findings = self._rendering, self._findings
        findings.is_clean_end = True
        # Imported here because a look-up of one record measures nothing.
        from engine.verdict.log_losses import losses_of

        start, end, expected = self.position, self._scan_end, self.next_offset
        items = losses_of(view).read(
            segment,
            rendering.scan(file, start, end, expected, segment.bounds),
            start,
            end,
            expected,
            rendering.within,
        )
        for item in items:
            if cancel is not None and cancel():
                raise Cancelled
            if not isinstance(item, BatchRun):
                findings.is_clean_end = False
                if not item.is_quiet:
                    if isinstance(item, Damage) and not self._is_of_verdict(item):
                        item = rendering.place(item)  # as it is read later
                    line = error_line(item, self._mask)
                    if isinstance(item, Damage) and self._is_of_verdict(item):
                        self._keep_line(item.position, line)
                    else:
                        self._size += len(line)
                    findings.note(shown_facts(damage_facts(item), self._mask))
                    self._problems.add_damage(segment.path, item)
                continue
            findings.is_clean_end = True
            findings.last_head = _head_of_last(item)
            # Imported here: a look-up needs none of it.
            from kafkafs.records.visible import fates_of

            self._measure_run(item, fates_of(view, segment, item), file.path)
            del item  # free it before the next one is read: a batch may be as large as the budget
        self._close(self._scan_end, self._seen_offset)

    def _is_of_verdict(self, damage: Damage) -> bool:
        """Return whether a scan of the file alone would not give this damage: offsets without bytes, a tail of zeros."""
        if damage.kind is DamageKind.MISSING:
            return True
        return damage.kind is DamageKind.ZEROS and (
            damage.position + damage.length >= self._scan_end
        )

    def _keep_line(self, position: Position, line: bytes) -> None:
        """Commit an error line as a chunk that keeps its text."""
        self._close(position, self._seen_offset)
        start = self._text_start
        chunk = TextChunk(
            start,
            start + len(line),
            self._part,
            position,
            position,
            self._seen_offset,
            self._scan_end,
            0,
            0,
            ERROR_LINE,
            0,
            line,
        )
        self._chunks.commit(chunk)
        self._begin(position, self._seen_offset)

    # -- batches ----------------------------------------------------------------------------------

    def _measure_run(self, run: BatchRun, fates: Fates, path: str) -> None:
        table = run.table
        count = len(table)
        disk = np.cumsum(table["size"], dtype=np.int64)
        findings = self._findings
        row = 0
        while row < count:
            before = int(disk[row - 1]) if row else 0
            wanted = before + max(int(GROUP_TEXT / findings.ratio), 1)
            last = min(max(int(disk.searchsorted(wanted, "right")), row + 1), count)
            result = self._rendering.lines(run, row, last, fates, measure=True)
            done = row + result.rows_done
            if done > row:
                findings.ratio = max(result.size / max(int(disk[done - 1]) - before, 1), 0.01)
            if result.size > LARGE_TEXT and last - row > 1:
                continue  # the ratio has grown, so the next try takes fewer batches
            extra = 0
            if result.problem is not None:
                batch = table[result.problem.row]
                extra = len(problem_line(result.problem, batch, path, self._mask))
                self._note(result.problem, batch, path)
            own = None if fates is None else fates[row:done]
            findings.has_open |= own is not None and bool((own == Fate.OPEN).any())
            if result.size > LARGE_TEXT:
                self._measure_large(run, row, fates, path)
            elif done > row:
                self._add(result.size + extra, own, done - row)
                self._seen_offset = int(table["last_offset"][done - 1]) + 1
                if self._size >= CHUNK_TEXT:
                    self._close(_end_of(run, done - 1), self._seen_offset)
            row = done
            if result.is_large:
                self._measure_large(run, row, fates, path)
                row += 1

    def _note(self, problem: BatchProblem, batch: np.void, path: str) -> None:
        """Note that a batch cannot be decoded completely."""
        facts = problem_facts(problem, batch, path)
        self._findings.note(shown_facts(facts, self._mask))
        add_problem(self._problems, self._file, problem, batch)

    def _measure_large(self, run: BatchRun, row: int, fates: Fates, path: str) -> None:
        """Cut the text of one batch into chunks: few, since each chunk decodes the whole batch."""
        start, end = int(run.table["position"][row]), _end_of(run, row)
        expected = self._seen_offset
        self._close(start, expected)
        own = None if fates is None else fates[row : row + 1]
        with self._rendering.large(run, row, fates, path) as batch:
            first = None
            for piece in batch.pieces(measure=True):
                if self._cancel is not None and self._cancel():
                    raise Cancelled
                if first is None:
                    first = piece
                self._add(piece.size, None, 0)
                if self._size >= PIECE_TEXT:
                    self._end_piece(first, start, end, expected, own)
                    first = None
            if first is not None:
                self._end_piece(first, start, end, expected, own)
            self._findings.has_open |= own is not None and bool((own == Fate.OPEN).any())
            for problem in batch.problems:
                self._note(problem, run.table[row], path)
        self._seen_offset = int(run.table["last_offset"][row]) + 1
        self._close(end, self._seen_offset)

    def _end_piece(
        self, first: TextPiece, start: Position, end: Position, expected: Offset, fates: Fates
    ) -> None:
        """Commit the measured text as a chunk with a piece of one batch."""
        self._add(0, fates, 1)
        self._commit(end, first)
        self._begin(start, expected)

    # -- the chunk that is being filled -----------------------------------------------------------

    def _begin(self, position: Position, next_offset: Offset) -> None:
        self._start = position
        self._next_offset = next_offset
        self._text_start = self._chunks.size
        self._size = 0
        self._rows = 0
        self._fates: list[bytes] = []
        self._has_fates = False

    def _continue_last(self, position: Position) -> None:
        """Continue the last chunk if it is small and ends where this pass starts."""
        if not self._chunks.size:
            return
        last = self._chunks.at(self._chunks.size - 1)
        follows = last.part == self._part and last.end == position and last.is_whole
        if not follows or last.text_size >= JOINED_TEXT:
            return
        self._start = last.start
        self._next_offset = last.next_offset
        self._text_start = last.text_start
        self._add(last.text_size, None, last.rows)
        if last.fates is not None:
            self._fates = [last.fates]
            self._has_fates = True

    def _add(self, size: int, fates: Fates, rows: int) -> None:
        self._size += size
        self._rows += rows
        self._has_fates |= fates is not None
        self._fates.append(bytes(rows) if fates is None else fates.tobytes())

    def _commit(self, end: Position, first: TextPiece | None = None) -> None:
        if self._size:
            record, skip, is_piece = (0, 0, 0) if first is None else (first.record, first.skip, 1)
            chunk = TextChunk(
                self._text_start,
                self._text_start + self._size,
                self._part,
                self._start,
                end,
                self._next_offset,
                self._scan_end,
                record,
                skip,
                is_piece,
                self._rows,
                b"".join(self._fates) if self._has_fates else None,
            )
            self._chunks.commit(chunk)

    def _close(self, end: Position, next_offset: Offset) -> None:
        """End the chunk between two batches, or at the part's end."""
        self._commit(end)
        self.position = end
        self.next_offset = next_offset
        self._begin(end, next_offset)


def _end_of(run: BatchRun, row: int) -> Position:
    return int(run.table["position"][row]) + int(run.table["size"][row])


def _head_of_last(run: BatchRun) -> tuple[Position, bytes]:
    position = int(run.table["position"][-1])
    start = position - run.start_position
    return position, bytes(run.buffer[start : start + 21])
