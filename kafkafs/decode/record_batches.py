"""Single records by offset: a cache of recently used batches with the lines of their records.

A look-up of one record makes the lines of its whole batch (of a window of 128 offsets in a large one), so a neighbour
costs a dict look-up. All partitions share one bound on the cached bytes. Cached batches belong to one view of the
log: with a newer view only those stay that cannot have changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from engine import kernel
from engine.budgets import Budgets, MiB
from engine.columns.batch_table import BatchProblem, Problem
from engine.errors import CorruptRecordError, DamagedFileError, UnsupportedCodecError
from engine.log.segment.scan import BatchRun, Table
from engine.memory_gate import DECODED, LARGE, batches_decoded, batches_read
from engine.record.attributes import COMPRESSION_MASK, TRANSACTIONAL_MASK
from engine.record.fate import Fate
from engine.units import MAX_INT64, Offset
from kafkafs.decode.damaged_record import DamagedRecordError, damaged, explained, may_hold
from kafkafs.decode.error_line import problem_facts
from kafkafs.decode.failures import ChangedFileError

if TYPE_CHECKING:
    from engine.log.log_view import LogView
    from engine.log.segment.log_segment import LogSegment

WHOLE_RECORDS = 256
WHOLE_COMPRESSED = 128 * 1024
WHOLE_PLAIN = 1 * MiB
WINDOW = 128
MOST_TEXT = 2 * MiB
"""Bytes of text of a batch that are cached, besides the wanted record."""
_MOST_EMPTY_BATCHES = 10_000


class FoundBatch(NamedTuple):
    """A good batch of a segment: its header, as a table of one row. The bytes are read on demand."""

    segment: LogSegment
    header: Table

    @property
    def base_offset(self) -> Offset:
        """First offset of the batch (for magic 0 and 1 the offset in its header)."""
        return int(self.header["base_offset"][0])

    @property
    def last_offset(self) -> Offset:
        """Last offset of the batch."""
        return int(self.header["last_offset"][0])

    @property
    def size(self) -> int:
        """Size of the batch on disk in bytes."""
        return int(self.header["size"][0])

    def run(self) -> BatchRun:
        """Read the batch's bytes."""
        return self.segment.run_of(self.header)


class RenderedBatch:
    """A batch with the lines of some of its records.

    Args:
        segment, run, row: the batch.
        options: the content of lines, and their offset range.
        fate: fate of the batch's transaction.
        budgets: for decoding.
        enough: make no further line when the text has this many bytes.

    Attributes:
        segment, buffer, start_position, table, row: the batch, as row `row` of `table` over `buffer`.
        lines: record lines, each with its newline.
        large: offset of the record before which the lines end, because its own line is too long to cache.
        is_cut: whether the lines end because of `enough`.
        problem: why the batch cannot be decoded completely.
    """

    __slots__ = (
        "_budgets",
        "_columns",
        "_numbers",
        "buffer",
        "cost",
        "first",
        "is_cut",
        "is_open",
        "large",
        "lines",
        "options",
        "problem",
        "row",
        "segment",
        "start_position",
        "table",
    )

    def __init__(
        self,
        segment: LogSegment,
        run: BatchRun,
        row: int,
        options: kernel.LineOptions,
        fate: int,
        *,
        budgets: Budgets,
        enough: int = MOST_TEXT,
    ) -> None:
        self.segment = segment
        self.buffer = run.buffer
        self.start_position = run.start_position
        self.table = run.table
        self.row = row
        self.options = options
        self.is_open = fate == Fate.OPEN
        fates = None
        if fate:
            fates = np.zeros(len(run.table), np.uint8)
            fates[row] = fate
        result = kernel.lines(
            run.buffer,
            run.table,
            row,
            row + 1,
            start_position=run.start_position,
            options=options,
            fates=fates,
            budgets=budgets,
            enough=enough,
            most=LARGE,
        )
        self._budgets = budgets
        self.problem: BatchProblem | None = result.problem
        self.large: Offset | None = None
        if result.is_large:
            result = self._lines_of_large(run, fate, enough)
        self.is_cut = result.rows_done == 0
        text = result.text or b""
        self.lines = text.splitlines(keepends=True)
        self._numbers: dict[int, int] | None = None
        self._columns: kernel.Columns | None = None
        self.first = self.offset_in(self.lines[0]) if self.lines else -1
        if self.lines and self.offset_in(self.lines[-1]) - self.first != len(self.lines) - 1:
            self._number_lines()
        if len(run.buffer) > LARGE:
            self.buffer = b""  # read again on demand
        self.cost = len(text) + len(self.buffer) + 150 * len(self.lines) + 1000

    def _lines_of_large(self, run: BatchRun, fate: int, enough: int) -> kernel.LinesResult:
        """Make the lines of a batch that needs much memory, up to the first line that is too long."""
        with batches_decoded.room(DECODED):
            columns = kernel.decode(
                run.buffer,
                run.table,
                self.row,
                self.row + 1,
                start_position=run.start_position,
                budgets=self._budgets,
            )
            result = kernel.column_lines(
                run.table,
                self.row,
                columns,
                options=self.options,
                fate=fate,
                enough=enough,
                most=LARGE,
            )
            if result.is_large:
                self.large = int(columns.offset[result.next_record])
            if columns.problems:
                self.problem = columns.problems[0]
        return result

    def _number_lines(self) -> None:
        numbers: dict[int, int] = {}
        for index, line in enumerate(self.lines):
            numbers.setdefault(self.offset_in(line), index)  # first record of each offset
        self._numbers = numbers

    def offset_in(self, line: bytes) -> Offset:
        """Return the offset in a line."""
        start = len(self.options.prefix)
        return int(line[start : line.index(b",", start)])

    @property
    def offsets(self) -> range | dict[int, int]:
        """Offsets that have a line."""
        if self._numbers is not None:
            return self._numbers
        return range(self.first, self.first + len(self.lines))

    def line(self, offset: Offset) -> bytes | None:
        """Return the line of the record at an offset."""
        if self._numbers is None:
            index = offset - self.first
            if not 0 <= index < len(self.lines):
                return None
            line = self.lines[index]
            prefix = self.options.prefix
            if line.startswith(b"%d," % offset, len(prefix)):
                return line
            self._number_lines()
        number = self._numbers.get(offset) if self._numbers is not None else None
        return None if number is None else self.lines[number]

    def timestamp(self, line: bytes) -> int:
        """Return the timestamp in a line, in ms."""
        start = line.index(b":", len(self.options.prefix)) + 1
        return int(line[start : line.index(b",", start)])

    def columns(self) -> kernel.Columns:
        """Return all records of the batch as columns, decoded at first use."""
        columns = self._columns
        if columns is None:
            size = self.header("size") if self.is_large else 0
            decoded = DECODED if self.is_large else 0
            with batches_read.room(size), batches_decoded.room(decoded):
                columns = kernel.decode(
                    self._bytes(),
                    self.table,
                    self.row,
                    self.row + 1,
                    start_position=self.buffer_start,
                    budgets=self._budgets,
                )
            if len(columns.arena) <= MiB:
                self._columns = columns
        return columns

    @property
    def is_large(self) -> bool:
        """Whether its records or its bytes take too much memory to cache."""
        return self.large is not None or not self.buffer

    def _bytes(self) -> bytes:
        """Return the buffer with the batch; that of a large one is read again."""
        if self.buffer:
            return self.buffer
        position, size = self.header("position"), self.header("size")
        data = self.segment.file.read_at(position, size)
        again = np.zeros(1, self.table.dtype)
        rows, _, _ = kernel.walk(data, again, 0, position, True, largest=max(size, 1))
        if not rows or not again["crc_ok"][0] or again["crc"][0] != self.table["crc"][self.row]:
            path = self.segment.file.path
            raise ChangedFileError(
                "the file has changed since it was opened", path=path, position=position
            )
        return data

    @property
    def buffer_start(self) -> int:
        """File position of the buffer's start. Columns of uncompressed batches count from it."""
        return self.start_position if self.buffer else self.header("position")

    def number_of(self, columns: kernel.Columns, offset: Offset) -> int | None:
        """Return the row of an offset's record in the columns."""
        found = np.flatnonzero(columns.offset == offset)
        return int(found[0]) if len(found) else None

    def header(self, field: str) -> int:
        """Return a field of the batch's row."""
        return int(self.table[field][self.row])

    def raw(self) -> bytes:
        """Return the bytes of the batch on disk."""
        start = self.header("position") - self.buffer_start
        return self._bytes()[start : start + self.header("size")]


class BatchCache:
    """Bound shared by all partitions' cached batches; the least recently loaded are dropped."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.lock = threading.Lock()
        self._batches: OrderedDict[RenderedBatch, RecordBatches] = OrderedDict()

    def keep(self, batch: RenderedBatch, owner: RecordBatches) -> None:
        """Add a batch, and drop others above the bound. The lock must be held."""
        if batch.cost > self.max_bytes:
            owner.forget(batch)
            return
        self._batches[batch] = owner
        self.bytes += batch.cost
        while self.bytes > self.max_bytes:
            dropped, its_owner = self._batches.popitem(last=False)
            self.bytes -= dropped.cost
            its_owner.forget(dropped)

    def drop(self, batch: RenderedBatch) -> None:
        """Remove a batch. The lock must be held."""
        if self._batches.pop(batch, None) is not None:
            self.bytes -= batch.cost


class RecordBatches:
    """Records of one partition by offset. Thread-safe."""

    def __init__(self, cache: BatchCache, options: kernel.LineOptions, budgets: Budgets) -> None:
        self._cache = cache
        self._options = options
        self._budgets = budgets
        self._view: LogView | None = None
        self._by_offset: dict[int, RenderedBatch] = {}

    def find(self, view: LogView, offset: Offset) -> RenderedBatch | None:
        """Return the batch with the line of the record at `offset`, or None if the log has no such record.

        If the record's line is too long to cache, `large` of the batch is the offset.

        Raises:
            DamagedRecordError: the record is, or may be, in a damaged place.
            UnsupportedCodecError: its codec is not installed.
        """
        if view is not self._view:
            self._adopt(view)
        batch = self._by_offset.get(offset)
        if batch is not None:
            return batch
        with ExitStack() as held:  # memory reserved for a large batch until its lines are made
            batch = self._find(
                view, offset, lambda size: held.enter_context(batches_read.room(size))
            )
        if batch is None:
            return None
        if batch.line(offset) is not None:
            self._keep(view, batch)
            return batch
        if batch.large == offset:
            return batch
        self._refuse_if_lost(batch, offset)
        return None

    def _find(
        self, view: LogView, offset: Offset, before_large: Callable[[int], object]
    ) -> RenderedBatch | None:
        try:
            found = view.batch(offset, before_large)
        except DamagedFileError as error:
            raise explained(view, offset, error) from None
        if found is None:
            return None
        batch = self._render(view, found, offset)
        if batch.is_cut and batch.line(offset) is None and batch.large != offset:
            batch = self._render(view, found, offset, alone=True)
        return batch

    def forget(self, batch: RenderedBatch) -> None:
        """Remove a batch from the look-up. The cache's lock must be held."""
        for offset in batch.offsets:
            if self._by_offset.get(offset) is batch:
                del self._by_offset[offset]

    def first_at(self, view: LogView, offset: Offset, limit: Offset = MAX_INT64) -> Offset | None:
        """Return the offset of the first record at or after `offset` and below `limit`."""
        for _ in range(_MOST_EMPTY_BATCHES):
            batch = None if offset >= limit else self.locate(view, offset)
            if batch is None:
                return None
            offsets = self._offsets(batch)
            offsets = offsets[(offsets >= offset) & (offsets < limit)]
            if len(offsets):
                return int(offsets.min())
            offset = max(batch.last_offset, offset) + 1
        return None

    def last_in(self, batch: FoundBatch, end: Offset) -> Offset | None:
        """Return the largest record offset of a batch below `end`."""
        offsets = self._offsets(batch)
        offsets = offsets[offsets < end]
        return int(offsets.max()) if len(offsets) else None

    def _offsets(self, batch: FoundBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
        with batches_read.room(batch.size):
            run = batch.run()
            columns = kernel.decode(
                run.buffer,
                run.table,
                0,
                1,
                start_position=run.start_position,
                budgets=self._budgets,
            )
            return np.array(columns.offset)  # a copy, so that the columns' buffers are freed

    # -- one batch --------------------------------------------------------------------------------

    def locate(self, view: LogView, offset: Offset) -> FoundBatch | None:
        """Return the first good batch with a last offset at or above `offset`; its first offset may be above too.

        Raises:
            DamagedRecordError: the offset is, or may be, in a damaged place.
        """
        if not view.log_start_offset <= offset < view.log_end_offset:
            return None
        for segment in view.segments_from(offset):
            target = max(offset, segment.base_offset)
            landing = segment.seek(target)
            batch, damage = landing.batch, landing.damage
            is_past = batch is None or int(batch["base_offset"][0]) > target
            if damage is not None and is_past and may_hold(damage, target):
                raise damaged(damage)
            if batch is not None:
                return FoundBatch(segment, batch)
        return None

    def _render(
        self,
        view: LogView,
        found: tuple[LogSegment, BatchRun],
        offset: Offset,
        *,
        alone: bool = False,
    ) -> RenderedBatch:
        segment, run = found
        row, table = 0, run.table
        options = self._options
        if options.log_start_offset != view.log_start_offset:
            options = self._options = replace(options, log_start_offset=view.log_start_offset)
        attributes = int(table["attributes"][row])
        most = WHOLE_COMPRESSED if attributes & COMPRESSION_MASK else WHOLE_PLAIN
        if table["size"][row] > most or table["record_count"][row] > WHOLE_RECORDS:
            low = offset - offset % WINDOW
            options = replace(options, from_offset=low, to_offset=min(low + WINDOW, MAX_INT64))
        if alone:
            options = replace(options, from_offset=offset, to_offset=offset + 1)
        fate = 0
        if attributes & TRANSACTIONAL_MASK and table["magic"][row] == 2:
            fates = view.fates(segment, run)
            fate = 0 if fates is None else int(fates[row])
        return RenderedBatch(
            segment,
            run,
            row,
            options,
            fate,
            budgets=self._budgets,
            enough=1 if alone else MOST_TEXT,
        )

    def _refuse_if_lost(self, batch: RenderedBatch, offset: Offset) -> None:
        """Raise if the record may be among those of the batch that cannot be decoded."""
        problem = batch.problem
        low, high = batch.header("base_offset"), batch.header("last_offset")
        if problem is None or problem.code is Problem.LEFTOVER_BYTES:
            return
        if batch.header("magic") == 2 and not low <= offset <= high:
            return
        if problem.code is Problem.CODEC_MISSING:
            raise UnsupportedCodecError(problem.detail)
        path, position = batch.segment.file.path, batch.header("position")
        raise DamagedRecordError(
            CorruptRecordError(problem.detail, path=path, position=position),
            problem_facts(problem, batch.table[batch.row], path),
        )

    # -- keeping ----------------------------------------------------------------------------------

    def _keep(self, view: LogView, batch: RenderedBatch) -> None:
        with self._cache.lock:
            if view is not self._view:
                return
            start = view.log_start_offset
            offsets = batch.offsets
            served = offsets if min(offsets) >= start else [o for o in offsets if o >= start]
            self._by_offset.update(dict.fromkeys(served, batch))
            self._cache.keep(batch, self)

    def _adopt(self, view: LogView) -> None:
        with self._cache.lock:
            for batch in set(self._by_offset.values()):
                # Unless segments are rewritten, a log only grows, and its batches stay the same.
                stays = (
                    self._view is not None
                    and self._view.rewrites == view.rewrites
                    and self._view.log_start_offset == view.log_start_offset
                    and not batch.is_open
                )
                if not stays:
                    self.forget(batch)
                    self._cache.drop(batch)
            self._view = view
