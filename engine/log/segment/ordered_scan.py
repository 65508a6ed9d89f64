"""Scan a records file for readers: good batches with ascending offsets, each in its place, and the damage.

Whole batches are at a wrong place where a block of another place or another log was written into the file, or where
a batch's base offset was hit. `orders` decides which ones; they are damage of kind `offset_order`.

A file of up to 1 MiB is decided when it is first read, before its first batch is yielded, but for a look at the log end;
one of up to 64 KiB also before a look-up follows frames. A larger one is decided when offsets go back within what is read at a time, before any of it
is yielded; batches behind damage are held until `look_ahead` bytes more are read. So a scan yields batches of a wrong
block only if no damage precedes the block and it reaches over the end of what is read at a time: then the scan goes on
above them, and later scans leave them out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

from engine import kernel
from engine.arrays import np
from engine.budgets import DEFAULT_BUDGETS, Budgets
from engine.columns.batch_table import BATCH_ROW, BatchRow, Stop
from engine.errors import UnreadableError
from engine.files.source_files import SourceFile
from engine.log.segment.damage import DamageKind
from engine.log.segment.orders import (
    Deciding,
    Order,
    is_small,
    is_tiny,
    known_order,
    order_of,
    remember,
)
from engine.log.segment.resync import OffsetBounds, ScannedFile
from engine.log.segment.scan import CHUNK, BatchRun, Damage, FileScan, ScanItem, scan, up_to_damage
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import CURRENT_MAGIC
from engine.units import MAX_INT64, Offset, Position

_LEAST_LOOK_AHEAD = 64 * 1024
_MOST_LOOK_AHEAD = 512 * 1024
_MOST_PENDING = 1000
_ROWS_AHEAD = 256
_WORDS = BATCH_ROW.size // 8

NOT_ABOVE: Final = "the batch's offset is not above the one before it"
AHEAD: Final = "the batch states offsets of the batches after it"
OUTSIDE: Final = "the batch states offsets of another segment"


def scan_in_order(
    file: ScannedFile,
    start: Position,
    end: Position,
    *,
    bounds: OffsetBounds,
    path: str | None = None,
    next_offset: Offset | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
    chunk: int = CHUNK,
    resync: bool = True,
) -> Iterator[ScanItem]:
    """Return the runs of batches that are in their place, and the damage, in file order; no `Disorder`.

    Args as for `scan`, with `bounds`.
    """
    scan = FileScan(
        file, end, path or file.path, next_offset, bounds, budgets, chunk, resync, any_order=True
    )
    return decided_first(scan, start, bounds)


def decided_first(scan: FileScan, start: Position, bounds: OffsetBounds) -> Iterator[ScanItem]:
    """Run a scan in any order, and leave out what is not in its place; a small file is decided first."""
    items = scan.run(start) if scan.resync else up_to_damage(scan.run(start))
    order = known_order(scan.file, bounds, scan.budgets)
    if order is None or order.is_sound:
        is_first = is_tiny(scan.file) or (scan.resync and is_small(scan.file))
        if order is not None or not is_first:
            return decided_where_needed(scan, items, bounds, scan.expected)
    state = _OrderedScan(scan, bounds, order, scan.expected)
    return state.run(items, is_first=True, is_whole=not start and scan.resync)


def decided_where_needed(
    scan: FileScan, items: Iterator[ScanItem], bounds: OffsetBounds, expected: Offset | None
) -> Iterator[ScanItem]:
    """Yield the items that are in their place; decide only where offsets go back or behind damage.

    Args:
        scan: in any order.
        items: those that follow in the scan.
        bounds: offsets of the segment.
        expected: the smallest offset that is in order there.
    """
    next_base = bounds.next_base
    for item in items:
        following = scan.expected or 0
        if (
            isinstance(item, BatchRun)
            and not scan.goes_back
            and following <= next_base
            and not bounds.begins_above(expected, item.base_offset)
        ):
            yield item
            expected = following
        else:
            order = known_order(scan.file, bounds, scan.budgets)
            state = _OrderedScan(scan, bounds, order, expected)
            yield from state.run(chain((item,), items))
            expected = state.expected
        del item  # free it before the next read: a batch may be as large as the budget


def _ascends(run: BatchRun) -> bool:
    """Return whether the offsets of a run ascend."""
    return kernel.good_rows(run.headers.data, 0, len(run.headers)) == len(run.headers)


class _OrderedScan:
    """State of a scan where offsets may go back.

    `order` is None while no offsets have gone back. `seen` is the offset after the last batch read, `expected` that
    after the last batch yielded.
    """

    def __init__(
        self, reading: FileScan, bounds: OffsetBounds, order: Order | None, expected: Offset | None
    ) -> None:
        self.reading = reading
        self.file, self.end, self.path = reading.file, reading.end, reading.path
        self.budgets = reading.budgets
        self.bounds = bounds
        self.order = order
        self.expected = self.seen = expected
        self.look_ahead = max(_LEAST_LOOK_AHEAD, min(reading.chunk // 2, _MOST_LOOK_AHEAD))
        self.pending: list[Damage] = []
        self.has_misplaced = False
        self.settled_at: Position = 0  # items are held up to here

    def run(
        self, items: Iterator[ScanItem], *, is_first: bool = False, is_whole: bool = False
    ) -> Iterator[ScanItem]:
        """Yield the items that are in their place, as long as one may be out of it.

        Args:
            items: of a scan in any order.
            is_first: decide first.
            is_whole: whether they may be all of the file.
        """
        file = self.file
        held: deque[tuple[BatchRun | Damage, Position]] = deque()  # and where to read up to first
        if is_first and self.order is None and isinstance(file, SourceFile):
            if is_whole and self.end >= file.size():
                held = self._decide_from(file, items)
            else:
                self._decide()
        for item in items:
            if not isinstance(item, BatchRun | Damage):
                continue  # in any order, there is no other item
            until = self._settled_at(item) if self.order is None else 0
            held.append((item, until))
            position = item.position if isinstance(item, Damage) else item.end_position
            del item
            while held and (self.order is not None or held[0][1] <= position):
                yield from self._placed(held.popleft()[0])
            if not held and not self.pending and self.order is None:
                return
        if held:
            self._look_behind()
        while held:
            yield from self._placed(held.popleft()[0])
        yield from self._flushed(None)

    def _decide(self) -> None:
        self.order = order_of(self.file, self.end, self.bounds, self.budgets)

    def _decide_from(
        self, file: SourceFile, items: Iterator[ScanItem]
    ) -> deque[tuple[BatchRun | Damage, Position]]:
        """Decide a small file by a scan of all of it; return the items."""
        status = file.stat()
        deciding = Deciding(self.bounds)
        held: deque[tuple[BatchRun | Damage, Position]] = deque()
        for item in items:
            if isinstance(item, BatchRun | Damage):
                held.append((item, 0))
            if isinstance(item, BatchRun):
                deciding.add(item)
        self.order = remember(file, self.bounds, status.st_size, status.st_ctime_ns, deciding)
        return held

    def _settled_at(self, item: BatchRun | Damage) -> Position:
        """Take in the next item; return the position up to which more is to be read before it is yielded."""
        if isinstance(item, Damage):
            self.settled_at = item.position + item.length + self.look_ahead
            return 0 if item.kind.is_tail else self.settled_at
        inside = self._inside(item)
        if inside is not None:
            first, last = inside
            is_below = self.seen is not None and self._first_offset(item, first) < self.seen
            if is_below or not _ascends(item):
                self._decide()
                return 0
            self.seen = last.last_offset + 1
        end = item.end_position
        if item.is_large and self.settled_at > end and not self._goes_on(end):
            self._decide()
        return 0

    def _goes_on(self, position: Position) -> bool:
        """Return whether offsets seem to ascend in the next bytes, by frames alone."""
        try:
            data = self.file.read_at(position, min(_LEAST_LOOK_AHEAD, max(self.end - position, 0)))
        except UnreadableError:
            return False
        room = bytearray(_ROWS_AHEAD * BATCH_ROW.size)
        rows, _, stop = kernel.walk(data, room, 0, position, False)
        words = memoryview(room).cast("q")[: rows * _WORDS]
        bases = [self.seen or 0, *words[1::_WORDS].tolist()]
        return stop in (Stop.NEED_MORE, Stop.TABLE_FULL) and bases == sorted(bases)

    def _inside(self, run: BatchRun) -> tuple[BatchRow, BatchRow] | None:
        """Return the first and the last batch of a run with offsets of the segment; None without one."""
        headers, bounds = run.headers, self.bounds
        first, stop = 0, len(headers)
        while first < stop and headers[first].base_offset < bounds.lower:
            first += 1
        while first < stop and bounds.is_above(headers[stop - 1].last_offset):
            stop -= 1
        return (headers[first], headers[stop - 1]) if first < stop else None

    def _first_offset(self, run: BatchRun, row: BatchRow) -> Offset:
        """Return the first offset of a batch of a run; a wrapper's header does not have it."""
        if row.magic >= CURRENT_MAGIC or not row.attributes & COMPRESSION_MASK:
            return row.base_offset
        from engine.log.segment.chains import with_wrappers_opened

        table = run.table[run.table["position"] == row.position]
        return with_wrappers_opened(run.with_table(table)).base_offset

    def _look_behind(self) -> None:
        """Look behind the end of the scan, where offsets may go back."""
        file, seen = self.file, self.seen
        if self.order is not None or not isinstance(file, SourceFile):
            return
        stop = min(self.end + _LEAST_LOOK_AHEAD, self.settled_at, file.size())
        if stop <= self.end or seen is None:
            return
        for item in scan(
            file,
            self.end,
            stop,
            bounds=self.bounds,
            budgets=self.budgets,
            chunk=_LEAST_LOOK_AHEAD,
            any_order=True,
        ):
            inside = self._inside(item) if isinstance(item, BatchRun) else None
            if inside is not None and inside[0].base_offset < seen:
                self._decide()
                return

    # What is in its place

    def _placed(self, item: BatchRun | Damage) -> Iterator[ScanItem]:
        """Yield a run without the batches that are out of place, or keep damage until the batch after it is known."""
        if isinstance(item, Damage):
            yield from self._kept(item)
            return
        for run, reason in self._parts(item):
            if reason:
                yield from self._kept(self._misplaced(run, reason))
                continue
            if self.pending:
                yield from self._flushed(self._first_offset(run, run.headers[0]))
            self.expected = run.next_offset
            yield run
            del run

    def _parts(self, run: BatchRun) -> Iterator[tuple[BatchRun, str]]:
        """Yield the parts of a run that are in their place, with no reason, and the others with one."""
        bounds, lower = self.bounds, self.bounds.lower
        first, last = run.headers[0], run.headers[-1]
        order, expected = self.order, max(self.expected or 0, lower)
        if (
            expected <= first.base_offset
            and not bounds.is_above(last.last_offset)
            and (
                order is None
                or (not order.touches(run.position, run.end_position) and _ascends(run))
            )
        ):
            yield run, ""
            return
        table = run.table
        base, last_offset = table["base_offset"], table["last_offset"]
        why = np.zeros(len(table), np.int8)
        if order is not None:
            why[order.are_misplaced(table["position"])] = 2
        why[(base < lower) | (last_offset >= bounds.upper)] = 3
        # The chain ascends; batches that came after the decision may not.
        chained = np.where(why, expected - 1, last_offset)
        highest = np.maximum.accumulate(np.concatenate(([expected - 1], chained)))[:-1]
        why[(why != 3) & (base <= highest)] = 1
        edges = [0, *(np.flatnonzero(np.diff(why)) + 1).tolist(), len(table)]
        for start, stop in pairwise(edges):
            yield (
                run._replace(headers=run.headers.part(start, stop)),
                ("", NOT_ABOVE, AHEAD, OUTSIDE)[why[start]],
            )

    def _misplaced(self, run: BatchRun, reason: str) -> Damage:
        self.has_misplaced = True
        return Damage(
            self.path,
            run.position,
            run.end_position - run.position,
            DamageKind.OFFSET_ORDER,
            reason,
            expected=self.expected,
            found=run.base_offset,
        )

    def _kept(self, damage: Damage) -> Iterator[Damage]:
        last = self.pending[-1] if self.pending else None
        if (
            last is not None
            and damage.kind is last.kind is DamageKind.OFFSET_ORDER
            and (last.position + last.length, last.reason) == (damage.position, damage.reason)
        ):
            self.pending[-1] = last._replace(length=last.length + damage.length)
            return
        self.pending.append(damage)
        if len(self.pending) >= _MOST_PENDING:
            yield from self._flushed(None)

    def _flushed(self, next_base: Offset | None) -> Iterator[Damage]:
        """Yield the damage before a batch, with the offsets that it may have held; those of a scan may be of batches
        that are out of place."""
        damages, self.pending = self.pending, []
        first = self.expected
        last = None if next_base is None else next_base - 1
        if last is None and self.has_misplaced and self.bounds.upper < MAX_INT64:
            last = self.bounds.upper - 1
        for damage in damages:
            if not self.has_misplaced:
                yield damage
                continue
            low, high = damage.first_offset, damage.last_offset
            if low is None or low < (first or 0) or (last is not None and low > last):
                low = first
            if high is None or high < (low or 0) or (last is not None and high > last):
                high = last
            yield damage._replace(first_offset=low, last_offset=high)
        if next_base is not None:
            self.has_misplaced = False
