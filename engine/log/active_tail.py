"""The end of the active segment: found once, then followed as a broker appends.

The end is where the last good batch ends. What follows it in the file of a live log is a batch that is
being written, or the zeros of a preallocated file: not there yet, whatever it looks like. Where nobody
writes, or nothing changed for five seconds, good batches behind damage count.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from time import monotonic

import numpy as np

from engine.budgets import Budgets
from engine.errors import UnreadableError
from engine.log.segment.batch_search import LOOK_UP_CHUNK, proven_hint
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.open_segments import INDEX_INTERVAL, SegmentFiles
from engine.log.segment.scan import CHUNK, BatchRun, Damage, Disorder, ScanItem, scan
from engine.log.segment.segment_bytes import SegmentBytes
from engine.log.transactions import TransactionState
from engine.record.batch_frame import HEADER
from engine.units import MAX_INT64, Offset, Position

PATIENCE = 5.0
"""Seconds that a bad tail of a live log may stay before it counts as damage."""


class ActiveTail:
    """The active segment of a log; used by one thread at a time.

    Attributes:
        segment: up to the last good batch; replaced as it grows.
        next_offset: one past the last record.
        has_grown: whether it was seen to grow: then somebody writes to it.

    Args:
        files: the segment's.
        is_live: whether somebody writes to the log.
        budgets: for what is read.
    """

    __slots__ = (
        "_before_last", "_budgets", "_files", "_highest", "_is_live", "_last_header", "_last_position",
        "_pending_since", "_searched", "_stamp", "has_grown", "next_offset", "segment",
    )  # fmt: skip

    def __init__(self, files: SegmentFiles, is_live: Callable[[], bool], budgets: Budgets) -> None:
        self._files = files
        self._is_live = is_live
        self._budgets = budgets
        self._pending_since: float | None = None
        self._searched: tuple[int, int] | None = None
        self.has_grown = False
        self.next_offset = self._before_last = files.base_offset
        self._highest: Offset = -1
        self._last_position: Position = -1
        self._last_header = b""
        status = files.ensure_open().file.stat()
        self._stamp = _stamp_of(status)
        files.remember_places()
        self.segment = LogSegment(files, 0, budgets=budgets)
        self._find_end(status.st_size)

    @property
    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        return self._stamp[0], self._stamp[1]

    def _find_end(self, size: Position) -> None:
        whole = SegmentBytes(self._files, size, budgets=self._budgets)
        start, first = proven_hint(whole, MAX_INT64 - 1)
        self.next_offset = self._before_last = first
        end = self._take(self._scan(start, size, resync=False), start, None, is_search=False)
        if end < size:
            end = self._search_behind(end, size, None)
        self._set_end(end, size)

    def follow(self, state: TransactionState | None) -> bool:
        """Take in what was appended; whether it is still the same log, only longer.

        Args:
            state: the transactions at the old end, to carry forward.

        Raises:
            FileNotFoundError: the file is gone.
        """
        status = self._files.root.stat(self._files.path)
        stamp = _stamp_of(status)
        if stamp[:2] != self._stamp[:2] or status.st_size < self.segment.end:
            return False
        size, end = status.st_size, self.segment.end
        if stamp != self._stamp and not self._is_same_batch():
            return False
        self._stamp = stamp
        # A preallocated file grows without a change of size, and mtime moves in ticks: so look.
        if size > end and self._has_data(end):
            reached = self._take(self._scan(end, size, resync=False), end, state, is_search=False)
            if reached > end:
                self.has_grown = True
                self._pending_since = self._searched = None
            end = reached if reached == size else self._search_behind(reached, size, state)
        self._set_end(end, size)
        return True

    def _set_end(self, end: Position, size: Position) -> None:
        tail_end = end if end == size or self._is_written() else size
        if (end, tail_end) != (self.segment.end, self.segment.tail_end):
            self.segment = self.segment.grown_to(end, tail_end)

    def _is_written(self) -> bool:
        return self.has_grown or self._is_live()

    def _is_same_batch(self) -> bool:
        """Whether the last good batch still stands where it stood: nothing was truncated and rewritten."""
        if self._last_position < 0:
            return True
        try:
            found = self._files.ensure_open().file.read_at(self._last_position, HEADER.size)
        except UnreadableError:
            return False
        return found == self._last_header

    def _has_data(self, position: Position) -> bool:
        """Whether something stands behind the last batch; bytes that cannot be read are something."""
        try:
            return any(self._files.ensure_open().file.read_at(position, HEADER.size))
        except UnreadableError:
            return True

    def _search_behind(
        self, end: Position, size: Position, state: TransactionState | None
    ) -> Position:
        """Look for good batches behind what follows the last one, if that is not just being written."""
        now = monotonic()
        if self._pending_since is None:
            self._pending_since = now
        if self._is_written() and now - self._pending_since < PATIENCE:
            return end
        if self._searched == (end, size):
            return end
        self._searched = end, size
        return self._take(self._scan(end, size, resync=True), end, state, is_search=True)

    def _scan(self, start: Position, size: Position, *, resync: bool) -> Iterator[ScanItem]:
        """Like the segment's own, without noting what is damaged: perhaps it is just being written."""
        return scan(
            self._files.ensure_open().file,
            start,
            size,
            path=self._files.path,
            next_offset=self.next_offset,
            budgets=self._budgets,
            chunk=CHUNK if resync else LOOK_UP_CHUNK,
            resync=resync,
        )

    def _take(
        self,
        items: Iterator[ScanItem],
        end: Position,
        state: TransactionState | None,
        *,
        is_search: bool,
    ) -> Position:
        """Go over good batches; where the last one ends. What is only not there yet is not noted."""
        for item in items:
            if isinstance(item, Damage):
                if is_search:
                    self._files.problems.add_damage(self._files.path, item)
                continue
            if isinstance(item, Disorder):
                self._files.problems.add_damage(self._files.path, item)
                if item.found >= self._before_last:
                    # This batch goes on where the one before the last ended: the last stated too much.
                    self.next_offset = self._before_last
                continue
            self._remember(item)
            if state is not None:
                state.apply(item)
            end = item.end_position
            last = item.table["last_offset"]
            if len(last) > 1:
                self.next_offset = max(self.next_offset, int(last[-2]) + 1)
            self._before_last = self.next_offset
            self.next_offset = max(self.next_offset, int(last[-1]) + 1)
            del item  # before the next one is read: a batch may be as large as the budget
        return end

    def _remember(self, run: BatchRun) -> None:
        """Keep places to begin look-ups at, and what the last batch's header was."""
        # Batches below some that were seen before them do not lead to those.
        walked = self._files.walked if run.base_offset > self._highest else None
        self._highest = max(self._highest, run.next_offset - 1)
        positions = run.table["position"]
        if walked is not None and len(positions) == 1:
            walked.append(run.base_offset, run.position)
        elif walked is not None:
            marks = positions // INDEX_INTERVAL
            rows = np.flatnonzero(np.diff(marks, prepend=marks[0] - 1))
            bases = run.table["base_offset"]
            for row in rows.tolist():
                walked.append(int(bases[row]), int(positions[row]))
        self._last_position = int(positions[-1])
        at = self._last_position - run.start_position
        self._last_header = bytes(run.buffer[at : at + HEADER.size])


def _stamp_of(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
