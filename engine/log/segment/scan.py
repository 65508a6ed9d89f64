"""Scan a records file: yield runs of good batches, and the damage between them.

A batch is good when it is whole, its checksum is right and its offsets are possible. After damage the next good batch is
found by the frame of the damaged one, or else byte by byte; one inside the stated length of a damaged one counts.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, Budgets, MiB
from engine.columns.batch_table import BATCH_ROW, BatchRow, BatchRows, Stop, Table, good_count
from engine.columns.columns import Columns
from engine.errors import UnreadableError
from engine.files.unreadable import Stretch, stretch_of
from engine.log.segment import resync as search
from engine.log.segment.damage import DamageKind, Elsewhere
from engine.log.segment.resync import Frame, OffsetBounds, Resync, ScannedFile
from engine.memory_gate import LARGE, batches_read
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import HEADER, LOG_OVERHEAD
from engine.units import Offset, Position

CHUNK = 1 * MiB
_MOST_ROWS = 4096
_AFTER_DAMAGE = 16 * 1024
"""Bytes of the first read after damage; later reads are larger."""


class BatchRun(NamedTuple):
    """Consecutive good batches in one buffer.

    Attributes:
        buffer: bytes of the file from `start_position` on.
        start_position: absolute position in the file.
        headers: a row of BATCH_ROW for each batch, at least one; all checksums are right.
    """

    buffer: bytes
    start_position: Position
    headers: BatchRows

    @property
    def table(self) -> Table:
        """The headers as a table."""
        return self.headers.table

    def with_table(self, table: Table) -> BatchRun:
        """Return a run of other batches in the same buffer."""
        return self._replace(headers=BatchRows.of(table))

    @property
    def base_offset(self) -> Offset:
        """Base offset in the first batch's header."""
        return self.headers[0].base_offset

    @property
    def next_offset(self) -> Offset:
        """One past the last batch's last offset."""
        return self.headers[-1].last_offset + 1

    @property
    def position(self) -> Position:
        """Position of the first batch in the file."""
        return self.headers[0].position

    @property
    def end_position(self) -> Position:
        """Position after the last batch in the file."""
        last = self.headers[-1]
        return last.position + last.size

    @property
    def is_large(self) -> bool:
        """Whether the buffer may have as many bytes as the budget of a batch."""
        return len(self.buffer) > LARGE

    def decoded(self, row: int, budgets: Budgets = DEFAULT_BUDGETS) -> Columns:
        """Return the records of one batch, by its row."""
        start = self.start_position
        return kernel.decode(
            self.buffer, self.table, row, row + 1, start_position=start, budgets=budgets
        )

    def columns(
        self, table: Table | None = None, budgets: Budgets = DEFAULT_BUDGETS
    ) -> Iterator[Columns]:
        """Yield the records of some batches at a time, as many as `kernel.decode` has room for.

        Args:
            table: rows of the run to decode instead of all; row numbers in the columns are those of this table.
            budgets: limits for each batch.
        """
        rows, start = self.table if table is None else table, self.start_position
        first = 0
        while first < len(rows):
            found = kernel.decode(
                self.buffer, rows, first, len(rows), start_position=start, budgets=budgets
            )
            yield found
            first = found.next_row


class Damage(NamedTuple):
    """Bytes of a records file that are not good batches.

    Attributes:
        path, position, length: place of the bytes.
        kind, reason: kind of damage, and a sentence about it.
        expected, found: the right and the wrong value; None without them.
        first_offset, last_offset: offsets that the bytes may have held, where known.
        stretches: unreadable bytes in whole blocks; the first and the last may reach beyond the damage.
        unproven: first and last offsets of records on readable bytes of an uncompressed batch that no
            checksum proves; they are not in the runs.
        elsewhere: places that may still hold the records; known to `engine.verdict` alone.
    """

    path: str
    position: Position
    length: int
    kind: DamageKind
    reason: str
    expected: int | None = None
    found: int | None = None
    first_offset: Offset | None = None
    last_offset: Offset | None = None
    stretches: tuple[Stretch, ...] = ()
    unproven: tuple[tuple[Offset, Offset], ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """Whether the damage is harmless: the bytes never held a record."""
        return self.kind.is_quiet


class Disorder(NamedTuple):
    """A good batch with an offset that is not above the one before it; the batch is in the next run.

    Attributes:
        path, position, length: place of the batch.
        reason: a sentence.
        expected: smallest offset that belongs there.
        found: offset that is out of order.
        first_offset, last_offset: offsets in the batch's header.
    """

    path: str
    position: Position
    length: int
    reason: str
    expected: Offset
    found: Offset
    first_offset: Offset
    last_offset: Offset

    @property
    def kind(self) -> str:
        """The kind in reports, which is not a `DamageKind`."""
        return "offset_order"

    @property
    def is_quiet(self) -> bool:
        """Whether it is harmless: never."""
        return False


ScanItem: TypeAlias = BatchRun | Damage | Disorder


def scan(
    file: ScannedFile,
    start: Position,
    end: Position,
    *,
    path: str | None = None,
    next_offset: Offset | None = None,
    bounds: OffsetBounds | None = None,
    budgets: Budgets = DEFAULT_BUDGETS,
    chunk: int = CHUNK,
    resync: bool = True,
    any_order: bool = False,
) -> Iterator[ScanItem]:
    """Return the runs and the damage in [start, end) of a records file, in file order.

    The runs have all good batches, also those out of place. A file that ends before `end` ends the scan.

    Args:
        file: a SourceFile, or another file that is read by position.
        start: position at which a batch should start.
        end: position to stop at; a batch that crosses it is a torn tail.
        path: path for reports, by default that of the file.
        next_offset: smallest offset in order; None for any.
        bounds: offsets of the segment, if known: behind damage, batches with any of them are found.
        budgets: `batch_bytes` is the largest batch.
        chunk: bytes to read at a time; a larger batch is read whole.
        resync: look for good batches after damage; without it the first damage ends the scan.
        any_order: do not end a run, nor yield a `Disorder`, where offsets go back.
    """
    settings = (bounds, budgets, chunk, resync, any_order)
    items = FileScan(file, end, path or file.path, next_offset, *settings).run(start)
    return items if resync else up_to_damage(items)


def up_to_damage(items: Iterable[ScanItem]) -> Iterator[ScanItem]:
    """Yield the items of a scan up to the first damage, with it."""
    for item in items:
        yield item
        if isinstance(item, Damage):
            return
        del item  # free it before the next read


def headers(items: Iterable[ScanItem]) -> Iterator[Table | Damage | Disorder]:
    """Yield the tables of a scan's runs, and the damage; frees the bytes of a run before the next read."""
    for item in items:
        found = item.table if isinstance(item, BatchRun) else item
        del item
        yield found


def tables(items: Iterable[ScanItem]) -> Iterator[Table]:
    """Yield the tables of a scan's runs; frees the bytes of a run before the next read."""
    for item in items:
        found = item.table if isinstance(item, BatchRun) else None
        del item
        if found is not None:
            yield found


class _Scratch(threading.local):
    """A buffer for batch headers, one per thread; what a walk writes is copied at once."""

    def __init__(self) -> None:
        self.buffer = bytearray(_MOST_ROWS * BATCH_ROW.size)


_scratch = _Scratch()


class FileScan:
    """State of one scan, with the arguments of `scan`; offsets went back somewhere if `goes_back`.

    `expected` is the offset after the last good batch.
    """

    def __init__(
        self,
        file: ScannedFile,
        end: Position,
        path: str,
        expected: Offset | None,
        bounds: OffsetBounds | None,
        budgets: Budgets,
        chunk: int,
        resync: bool = True,
        any_order: bool = False,
    ) -> None:
        self.file = file
        self.end = end
        self.path = path
        self.expected = expected
        self.bounds = bounds
        self.budgets = budgets
        self.chunk = max(HEADER.size, chunk)
        self.resync = resync
        self.any_order = any_order
        self.goes_back = False
        self.damage: Resync | None = None

    def run(self, position: Position) -> Iterator[ScanItem]:
        """Scan from a position on."""
        size = self.chunk
        while position < self.end:
            wanted = min(size, self.end - position)
            with batches_read.room(wanted):
                buffer, is_cut = self._read(position, wanted)
                if len(buffer) < wanted and not is_cut:
                    self.end = position + len(buffer)
                    if not buffer:
                        return
                stopped, stop = yield from self._runs_of(buffer, position)
                needed = 0
                if stop == Stop.NEED_MORE and not is_cut:
                    needed = search.stated_size(buffer, stopped - position)
                del buffer  # free it before the next read: a batch may be as large as the budget
            if needed and stopped + needed <= self.end:
                position, size = stopped, max(needed, min(4 * size, self.chunk))
                continue
            position, size = stopped, min(self.chunk, _AFTER_DAMAGE)
            if stop != Stop.TABLE_FULL and position < self.end:
                position = yield from self._pass_damage(position)

    def _read(self, position: Position, size: int) -> tuple[bytes, bool]:
        """Return the bytes up to the first unreadable one, and whether there is one."""
        is_cut = False
        while True:
            try:
                return self.file.read_at(position, size) if size else b"", is_cut
            except UnreadableError as error:
                self._look_around().file.met.add(stretch_of(error))
                size, is_cut = max(error.position - position, 0), True

    def _runs_of(
        self, buffer: bytes, position: Position
    ) -> Generator[ScanItem, None, tuple[Position, int]]:
        """Yield the good batches of a buffer; return the position after them and the Stop, TABLE_FULL to go on there."""
        index = 0
        while True:
            scratch = _scratch.buffer
            rows, consumed, stop = kernel.walk(
                buffer,
                scratch,
                index,
                position + index,
                True,
                largest=self.budgets.batch_bytes,
            )
            if rows:
                found = BatchRows(bytearray(memoryview(scratch)[: rows * BATCH_ROW.size]))
                bad = yield from self._good_rows(buffer, position, found)
                if bad is not None:
                    return (yield from self._pass_bad_batch(found[bad])), Stop.TABLE_FULL
            index += consumed
            if stop != Stop.TABLE_FULL:
                return position + index, stop

    def _good_rows(
        self, buffer: bytes, position: Position, headers: BatchRows
    ) -> Generator[ScanItem, None, int | None]:
        """Yield the rows up to the first that is not good; return the number of that row."""
        first, count = 0, len(headers)
        while first < count:
            stop = kernel.good_rows(headers.data, first, count)
            if stop == first:
                return first
            start = headers[first]
            expected = self.expected or 0
            if self.any_order:
                self.goes_back |= start.base_offset < expected or stop < count
                stop = stop if stop == count else stop + good_count(headers.table[stop:])
            elif start.base_offset < expected:
                yield self._out_of_order(start, expected)
            self.expected = headers[stop - 1].last_offset + 1
            yield BatchRun(buffer, position, headers.part(first, stop))
            first = stop
        return None

    def _out_of_order(self, row: BatchRow, expected: Offset) -> Disorder:
        return Disorder(
            self.path,
            row.position,
            row.size,
            "the batch's offset is not above the one before it",
            expected=expected,
            found=row.base_offset,
            first_offset=row.base_offset,
            last_offset=row.last_offset,
        )

    def _pass_bad_batch(self, row: BatchRow) -> Generator[Damage, None, Position]:
        """Pass a batch that is whole but not good; return the position to go on at."""
        position, size = row.position, row.size
        if not row.crc_ok:
            return (yield from self._pass_damage(position))
        found = row.base_offset
        reason = "a batch with impossible offsets"
        yield Damage(
            self.path,
            position,
            size,
            DamageKind.BAD_OFFSETS,
            reason,
            found=found,
            first_offset=self.expected,
        )
        return position + size

    def _pass_damage(self, position: Position) -> Generator[Damage, None, Position]:
        """Pass damage; return the position of the next good batch, or the end."""
        damage, min_offset = self._look_around(), max(self.expected or 0, 0)
        frame = damage.frame(position)
        following = None
        if self.resync:
            data = damage.first_data(position) if frame.kind is DamageKind.ZEROS else position
            if data < self.end:
                # A batch's first bytes may be zeros: a small offset, the high bytes of its length.
                start = max(position + 1, data - LOG_OVERHEAD)
                following = damage.next_good(position, frame, start, min_offset)
        if following is None and self._is_tail(position, frame):
            yield self._tail(position, frame)
            return self.end
        until = self.end if following is None else following
        next_base = None if following is None else damage.base_offset(following)
        first = self.expected
        while position < until:
            frame = damage.frame(position)
            if not frame.kind:
                return position
            whole = frame.size > 0 and position + frame.size <= until
            size = frame.size if whole else until - position
            behind = following if position + size >= until else None
            lost = self._lost(position, size, frame, first, next_base, behind)
            yield lost
            if lost.stretches and whole and lost.last_offset is not None:
                first = lost.last_offset + 1
            position += size
        return until

    def _look_around(self) -> Resync:
        if self.damage is None:
            self.damage = Resync(self.file, self.end, self.budgets, self.bounds)
        return self.damage

    def _is_tail(self, position: Position, frame: Frame) -> bool:
        """Return whether the bytes from a position on, without a good batch, are a torn tail or zeros."""
        if frame.kind is not DamageKind.ZEROS or self.damage is None:
            return frame.kind is DamageKind.TORN_TAIL
        return self.damage.first_data(position) >= self.end

    def _tail(self, position: Position, frame: Frame) -> Damage:
        """Return the damage of a tail without any whole batch."""
        assert frame.kind is not None
        length = self.end - position
        kind, reason = frame.kind, frame.reason
        if kind is DamageKind.ZEROS:
            kind, reason = DamageKind.ZERO_TAIL, "zeros up to the end of the file"
        return self._as_unreadable(
            Damage(
                self.path,
                position,
                length,
                kind,
                reason,
                found=frame.found,
                first_offset=self.expected,
            )
        )

    def _as_unreadable(self, damage: Damage) -> Damage:
        """Return the damage, as kind "unreadable" where some of its bytes are unreadable."""
        stretches = self._look_around().unreadable(damage.position, damage.length)
        if not stretches:
            return damage
        more = f" (in {len(stretches)} stretches)" if len(stretches) > 1 else ""
        return damage._replace(
            kind=DamageKind.UNREADABLE,
            reason=stretches[0].reason + more,
            expected=None,
            found=None,
            stretches=stretches,
        )

    def _lost(
        self,
        position: Position,
        size: int,
        frame: Frame,
        first: Offset | None,
        next_base: Offset | None,
        following: Position | None,
    ) -> Damage:
        """Return the damage of a batch, or of all the bytes where its frame is not usable; a batch may follow."""
        if next_base is None and self._is_tail(position, frame):
            return self._tail(position, frame)
        assert frame.kind is not None
        kind, reason = frame.kind, frame.reason
        if kind is DamageKind.TORN_TAIL:
            kind, reason = DamageKind.BAD_LENGTH, "a batch that states more bytes than the file has"
        # A whole batch may follow that states an impossible offset.
        expected, last = None, None
        if next_base is not None and next_base >= (first or 0):
            last = next_base - 1
        if frame.row is not None:
            expected = frame.row.crc
            base, end = frame.row.base_offset, frame.row.last_offset
            if (first or 0) <= base <= end and (last is None or end <= last):
                is_old = frame.row.magic < 2
                is_wrapper = is_old and frame.row.attributes & COMPRESSION_MASK
                first = first if is_wrapper else base
                # The header is not proven: an old one before a new batch states too few offsets.
                if not (is_old and following is not None and self._is_new(following)):
                    last = end
        damage = self._as_unreadable(
            Damage(self.path, position, size, kind, reason, expected, frame.found, first, last)
        )
        if frame.row is None or not damage.stretches:
            return damage
        unproven = search.unproven_offsets(self._look_around().file, frame.row, damage.stretches)
        return damage._replace(unproven=unproven)

    def _is_new(self, position: Position) -> bool:
        row = self._look_around().frame(position).row
        return row is not None and row.magic >= 2
