"""Single records by offset: a cache of recently used batches with the lines of their records.

The first look-up in a window of 128 offsets makes one line and keeps nothing, because a reader of records far apart
needs no other. The second one soon after makes all lines of the window, so that a neighbour costs a dict look-up. The
cache has one batch for each window. All partitions share one bound on the cached bytes. Cached batches belong to one
view of the log: with a newer view only those stay that cannot have changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from engine import kernel
from engine.arrays import np
from engine.budgets import Budgets
from engine.columns.batch_table import Problem, Table
from engine.errors import CorruptRecordError, DamagedFileError, UnsupportedCodecError
from engine.log.segment.scan import BatchRun
from engine.memory_gate import batches_read
from engine.record.attributes import TRANSACTIONAL_MASK, has_flag
from engine.units import MAX_INT64, Offset, Timestamp
from kafkafs.decode.damaged_record import (
    DamagedRecordError,
    damaged,
    explained,
    may_hold,
    refuse_lost,
)
from kafkafs.decode.error_line import problem_facts
from kafkafs.decode.rendered_batch import MOST_TEXT, RenderedBatch

if TYPE_CHECKING:
    from engine.log.segment.log_segment import LogSegment
    from engine.log.view.log_view import LogView

WINDOW = 128
_REMEMBERED = 64
"""Number of windows whose last look-up counts as soon before."""
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
        self._by_window: dict[int, RenderedBatch] = {}
        self._asked = [-1] * _REMEMBERED  # the last window of each remainder

    def line(self, view: LogView, offset: Offset) -> tuple[bytes, Timestamp] | None:
        """Return the line of the record at `offset`, and its timestamp; None if only `find` can tell."""
        if offset < view.log_start_offset:
            return None  # the window of a record may have lines of deleted ones
        if view is not self._view:
            self._adopt(view)
        window = offset // WINDOW
        batch = self._by_window.get(window)
        line = None if batch is None else batch.line(offset)
        if line is None:
            if not self._is_asked_again(window):
                return view.line(offset, self._options)
            try:
                batch = self.find(view, offset, with_window=True)
            except (DamagedFileError, UnsupportedCodecError):
                return None
            line = None if batch is None else batch.line(offset)
        return None if batch is None or line is None else (line, batch.timestamp(line))

    def _is_asked_again(self, window: int) -> bool:
        place = window % _REMEMBERED
        if self._asked[place] == window:
            return True
        self._asked[place] = window
        return False

    def find(
        self, view: LogView, offset: Offset, *, with_window: bool = False
    ) -> RenderedBatch | None:
        """Return the batch with the line of the record at `offset`, or None if the log has no such record.

        If the record's line is too long to cache, `large` of the batch is the offset. With `with_window` also a batch
        that was not cached has the lines of the record's window.

        Raises:
            DamagedRecordError: the record is, or may be, in a damaged place.
            UnsupportedCodecError: its codec is not installed.
        """
        if view is not self._view:
            self._adopt(view)
        batch = self._known(view, offset)
        if batch is not None:
            return batch
        with ExitStack() as held:  # memory reserved for a large batch until its line is made
            room = lambda size: held.enter_context(batches_read.room(size))  # noqa: E731
            batch = self._find(view, offset, room, with_window=with_window)
        if batch is None:
            refuse_lost(view, offset)
            return None
        if batch.line(offset) is not None:
            self._keep(view, batch, offset)
            return batch
        if batch.large == offset:
            return batch
        self._refuse_if_lost(batch, offset)
        return None

    def _known(self, view: LogView, offset: Offset) -> RenderedBatch | None:
        """Return a cached batch with the record's line, or a cached one with the lines of the record's window."""
        window = offset // WINDOW
        known = self._by_window.get(window)
        if known is None:
            known = self._by_window.get(window - 1)
        if known is None or offset < view.log_start_offset:
            return None
        if known.line(offset) is not None:
            return known
        low, high = _window_of(offset)
        had = known.options
        if not known.spans(offset) or (had.from_offset, had.to_offset) == (low, high):
            return None
        batch = self._render(view, (known.segment, known.run), low, high)
        if batch.line(offset) is None:
            return None
        self._keep(view, batch, offset)
        return batch

    def _find(
        self,
        view: LogView,
        offset: Offset,
        before_large: Callable[[int], object],
        *,
        with_window: bool,
    ) -> RenderedBatch | None:
        try:
            found = view.batch(offset, before_large)
        except DamagedFileError as error:
            raise explained(view, offset, error) from None
        if found is None:
            return None
        if with_window:
            batch = self._render(view, found, *_window_of(offset))
            if batch.line(offset) is not None:
                return batch
        return self._render(view, found, offset, offset + 1, enough=1)

    def forget(self, batch: RenderedBatch) -> None:
        """Remove a batch from the look-up. The cache's lock must be held."""
        windows = self._by_window
        window = batch.window
        if windows.get(window) is batch:
            del windows[window]

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
            columns = run.decoded(0, self._budgets)
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
        low: Offset,
        high: Offset,
        *,
        enough: int = MOST_TEXT,
    ) -> RenderedBatch:
        """Make the lines of [low, high); `enough` as for RenderedBatch."""
        segment, run = found
        options = replace(
            self._options,
            log_start_offset=view.log_start_offset,
            from_offset=low,
            to_offset=high,
        )
        header, fate = run.headers[0], 0
        if has_flag(header.magic, header.attributes, TRANSACTIONAL_MASK):
            # Imported here: other look-ups need neither it nor numpy.
            from kafkafs.records.visible import fates_of

            fates = fates_of(view, segment, run)
            fate = 0 if fates is None else int(fates[0])
        return RenderedBatch(segment, run, 0, options, fate, budgets=self._budgets, enough=enough)

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
            problem_facts(problem, batch.run.table[batch.row], path),
        )

    # -- keeping ----------------------------------------------------------------------------------

    def _keep(self, view: LogView, batch: RenderedBatch, offset: Offset) -> None:
        """Cache a batch with the line of an offset, in the place of another one of the same window."""
        window = batch.window = offset // WINDOW
        with self._cache.lock:
            if view is not self._view:
                return
            before = self._by_window.get(window)
            if before is not None:
                self._cache.drop(before)
            self._by_window[window] = batch
            self._cache.keep(batch, self)

    def _adopt(self, view: LogView) -> None:
        with self._cache.lock:
            for batch in list(self._by_window.values()):
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


def _window_of(offset: Offset) -> tuple[Offset, Offset]:
    """Return the bounds of an offset's window."""
    low = offset - offset % WINDOW
    return low, min(low + WINDOW, MAX_INT64)
