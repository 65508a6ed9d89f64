"""The end of the active segment: found once, then followed as a broker appends.

The end of the segment is the end of its last good batch. In a live log the bytes after it are a batch that is
being written, or the zeros of a preallocated file, and are ignored. In a log without a writer, or after five
seconds without a change, good batches after damage count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.columns.batch_table import BATCH_ROW, BatchRows
from engine.errors import UnreadableError
from engine.files.change_watch import ChangeWatch
from engine.log.segment import orders
from engine.log.segment.batch_search import LOOK_UP_CHUNK, proven_hint
from engine.log.segment.damage import DamageKind
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.open_segments import SegmentFiles
from engine.log.segment.ordered_scan import scan_in_order
from engine.log.segment.resync import OffsetBounds, ScannedFile
from engine.log.segment.scan import CHUNK, BatchRun, ScanItem
from engine.record.batch_frame import HEADER
from engine.units import MAX_INT64, Offset, Position

PATIENCE = 5.0
"""Seconds after which the bad tail of a live log counts as damage."""


class ActiveTail:
    """The active segment of a log; used by one thread at a time.

    Attributes:
        segment: the segment up to the last good batch; replaced as the file grows.
        next_offset: one past the last record.
        has_grown: whether the file grew since it was opened, so that a broker is writing to it.

    Args:
        files: files of the segment.
        is_live: returns whether a broker has the log open.
        budgets: limits for reads.
    """

    __slots__ = (
        "_budgets",
        "_files",
        "_is_live",
        "_last_header",
        "_last_position",
        "_pending_since",
        "_searched",
        "_watch",
        "has_grown",
        "next_offset",
        "segment",
    )

    def __init__(self, files: SegmentFiles, is_live: Callable[[], bool], budgets: Budgets) -> None:
        self._files = files
        self._is_live = is_live
        self._budgets = budgets
        self._pending_since: float | None = None
        self._searched: tuple[int, int] | None = None
        self.has_grown = False
        self.next_offset = files.base_offset
        self._last_position: Position = -1
        self._last_header = b""
        self._watch = ChangeWatch()
        files.remember_places()
        now = monotonic()
        status = files.ensure_open().file.opened_as
        self._watch.has_changed(status, now)
        self._find_end(status.st_size)

    def _find_end(self, size: Position) -> None:
        stated = self._files.ensure_open().file.stated_end
        if stated is not None:
            self.next_offset = stated.next_offset
            self.segment = LogSegment(self._files, size, size, budgets=self._budgets)
            return
        if size <= LOOK_UP_CHUNK and self._take_whole(size):
            self.segment = LogSegment(self._files, size, size, budgets=self._budgets)
            return
        self.segment = LogSegment(self._files, 0, budgets=self._budgets)
        whole = LogSegment(self._files, size, budgets=self._budgets)
        start, first = proven_hint(whole, MAX_INT64 - 1)
        end = self._end_from(start, size, first)
        if self._is_misplaced(self._last_position) or (start and self._is_misplaced(start)):
            # Only the batches behind it have shown that.
            end = self._end_from(0, size, self._files.base_offset)
        self._set_end(end, size)

    def _end_from(self, start: Position, size: Position, next_offset: Offset) -> Position:
        """Take in the batches from a position on; return the end of the last one."""
        self.next_offset = next_offset
        self._pending_since = self._searched = None
        end = self._take(self._scan(start, size, resync=False), start, None, is_search=False)
        return end if end == size else self._search_behind(end, size, None)

    def _take_whole(self, size: Position) -> bool:
        """Take in a file that is one run of good batches, as most small ones are; return False for any other."""
        files = self._files
        run = whole_run(files.ensure_open().file, size, files.base_offset, budgets=self._budgets)
        if run is None:
            return False
        headers = run.headers
        if not headers:
            return True
        last = headers[-1]
        self.next_offset = last.last_offset + 1
        self._last_position = last.position
        self._last_header = run.buffer[last.position : last.position + HEADER.size]
        if files.walked is not None:
            files.walked.extend(headers)
        return True

    def follow(self, take: Callable[[BatchRun], object] | None) -> bool:
        """Read the batches that were appended; return False when the file was replaced or rewritten.

        False also when what was appended shows that the last batch known before is out of place.

        Args:
            take: called with each run of new batches.

        Raises:
            FileNotFoundError: the file is gone.
        """
        known = self._last_position
        now = monotonic()
        status = self._files.status()
        size, end = status.st_size, self.segment.end
        has_changed = self._watch.has_changed(status, now)
        if self._watch.replaced or size < end:
            return False
        last = self._last_position, self._last_header
        if has_changed and not self._has_batch(*last):
            return False
        # A preallocated file grows without a change of size, and mtime moves in ticks: so look.
        if size > end and self._has_data(end):
            reached = self._take(self._scan(end, size, resync=False), end, take, is_search=False)
            if reached > end:
                if not self._has_batch(*last):  # rewritten since the look above
                    return False
                self.has_grown = True
                self._pending_since = self._searched = None
            end = reached if reached == size else self._search_behind(reached, size, take)
        self._set_end(end, size)
        return not self._is_misplaced(known)

    def _is_misplaced(self, position: Position) -> bool:
        """Return whether the batch at a position has turned out to be out of place."""
        if not orders.disordered:
            return False
        file, bounds = self._files.ensure_open().file, OffsetBounds(self._files.base_offset)
        return orders.is_misplaced(file, position, bounds, self._budgets)

    def _set_end(self, end: Position, size: Position) -> None:
        tail_end = end if end == size or self._is_written() else size
        if (end, tail_end) != (self.segment.end, self.segment.tail_end):
            self.segment = self.segment.grown_to(end, tail_end)

    def _is_written(self) -> bool:
        return self.has_grown or self._is_live()

    def _has_batch(self, position: Position, header: bytes) -> bool:
        """Return whether a batch that was read is still there: the file was not truncated and rewritten."""
        if position < 0:
            return True
        try:
            return self._files.ensure_open().file.read_at(position, HEADER.size) == header
        except UnreadableError:
            return False

    def _has_data(self, position: Position) -> bool:
        """Return whether the bytes at a position are not all zero; unreadable bytes count as data."""
        try:
            return any(self._files.ensure_open().file.read_at(position, HEADER.size))
        except UnreadableError:
            return True

    def _search_behind(
        self, end: Position, size: Position, take: Callable[[BatchRun], object] | None
    ) -> Position:
        """Look for good batches after a bad tail that is not just being written; return the new end."""
        now = monotonic()
        if self._pending_since is None:
            self._pending_since = now
        if self._is_written() and now - self._pending_since < PATIENCE:
            return end
        if self._searched == (end, size):
            return end
        self._searched = end, size
        return self._take(self._scan(end, size, resync=True), end, take, is_search=True)

    def _scan(self, start: Position, size: Position, *, resync: bool) -> Iterator[ScanItem]:
        """Scan the file without noting damage, which may be a batch that is being written."""
        return scan_in_order(
            self._files.ensure_open().file,
            start,
            size,
            path=self._files.path,
            next_offset=self.next_offset,
            bounds=OffsetBounds(self._files.base_offset),
            budgets=self._budgets,
            chunk=CHUNK if resync else LOOK_UP_CHUNK,
            resync=resync,
        )

    def _take(
        self,
        items: Iterator[ScanItem],
        end: Position,
        take: Callable[[BatchRun], object] | None,
        *,
        is_search: bool,
    ) -> Position:
        """Take in good batches; return the end of the last one. Damage is noted only in a search."""
        for item in items:
            if not isinstance(item, BatchRun):
                is_out_of_place = item.kind is DamageKind.OFFSET_ORDER
                if (is_search or is_out_of_place) and not self._is_misplaced(self._last_position):
                    self._files.problems.add_damage(self._files.path, item)
                if is_out_of_place:
                    end = item.position + item.length
                continue
            self._remember(item)
            if take is not None:
                take(item)
            end = item.end_position
            self.next_offset = item.next_offset
            del item  # free it before the next read: a batch may be as large as the budget
        return end

    def _remember(self, run: BatchRun) -> None:
        """Keep positions for look-ups to start at, and the last batch's header."""
        if self._files.walked is not None:
            self._files.walked.extend(run.headers)
        self._last_position = run.headers[-1].position
        at = self._last_position - run.start_position
        self._last_header = bytes(run.buffer[at : at + HEADER.size])


def whole_run(
    file: ScannedFile, size: Position, base_offset: Offset, *, budgets: Budgets = DEFAULT_BUDGETS
) -> BatchRun | None:
    """Return a small file as one run, with an empty table for an empty file; None unless a scan would yield just that.

    Args:
        file: the records file.
        size: its size.
        base_offset: the smallest offset that is in order.
        budgets: `batch_bytes` is the largest batch.
    """
    try:
        buffer = file.read_at(0, size) if size else b""
    except UnreadableError:
        return None
    room = bytearray((size // HEADER.size + 1) * BATCH_ROW.size)
    rows, consumed, _ = kernel.walk(buffer, room, 0, 0, True, largest=budgets.batch_bytes)
    if consumed != size or kernel.good_rows(room, 0, rows) != rows:
        return None
    headers = BatchRows(room).part(0, rows)
    is_below = headers and headers[0].base_offset < base_offset
    return None if is_below else BatchRun(buffer, 0, headers)
